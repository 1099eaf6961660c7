"""Whose records lie in a remote topic that two flows write to, one record at each target offset."""

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.model import TopicPartition
from kafka_ferry.verify import PartitionRecount, Recount
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.recount_result import Stranger
from kafka_ferry.verify.shared_topics import (
    everything_after,
    with_strangers,
    without_locals,
    without_others,
)

TP = TopicPartition("orders", 0)


def claimed(*targets: int, preserved: bool = False) -> RangeClaim:
    """A range whose records lie at these target offsets."""
    segments = tuple(Segment(number, target, 1) for number, target in enumerate(targets))
    return RangeClaim(segments, 0, len(targets), preserved)


def counted(log: str, claims: list[RangeClaim]) -> PartitionRecount:
    """What a recount finds in a log: ``x`` is a record that no flow claims, ``.`` none at all."""
    starts = sorted(
        (it.target, number) for number, claim in enumerate(claims) for it in claim.segments
    )
    foreign: list[list[Stranger]] = [[] for _ in claims]
    beyond: list[Stranger] = []
    for offset in (offset for offset, what in enumerate(log) if what == "x"):
        following = [start for start in starts if start[0] > offset]
        if following:
            foreign[min(following)[1]].append(Stranger(7, offset))
        else:
            beyond.append(Stranger(7, offset))
    return PartitionRecount(
        tuple(
            Recount(len(claim.segments), "", len(strangers), strangers=tuple(strangers))
            for claim, strangers in zip(claims, foreign, strict=True)
        ),
        len(beyond),
        strangers=tuple(beyond),
    )


@pytest.mark.parametrize(
    ("log", "foreign", "beyond"),
    [
        ("abab", [0, 0], 0),
        ("a.b.a.b", [0, 0], 0),
        ("axbab", [0, 1], 0),
        ("abxab", [0, 1], 0),
        ("abaxb", [0, 0], 1),
        ("abxxaxxb", [0, 2], 2),
        ("aaxbb", [0, 0], 1),
        ("bbxaa", [1, 0], 0),
        ("xabab", [1, 0], 0),
        ("bxabab", [1, 0], 0),
    ],
)
def test_records_that_no_flow_claims_are_found_whatever_others_claim(
    log: str, foreign: list[int], beyond: int
) -> None:
    own = [claimed(at) for at, what in enumerate(log) if what == "a"]
    others = [claimed(at) for at, what in enumerate(log) if what == "b"]
    claims = [*own, *others, everything_after(len(log))]
    found = without_others(counted(log, claims), claims, len(own))
    assert [of_range.foreign for of_range in found.ranges] == foreign
    assert found.beyond == len(found.strangers) == beyond
    assert all(log[stranger.offset] == "x" for stranger in found.strangers)


def test_what_comes_after_an_end_is_for_the_next_proof() -> None:
    claims = [claimed(0), everything_after(1)]
    found = PartitionRecount((Recount(1, ""), Recount(5, "")), 0)
    assert without_others(found, claims, 1) == PartitionRecount((Recount(1, ""),), 0)


@pytest.mark.parametrize(
    ("found", "claim", "strange"),
    [
        (PartitionRecount((Recount(1, ""),), 0), claimed(0), False),
        (PartitionRecount((Recount(1, ""),), 2), claimed(0), True),
        (PartitionRecount((Recount(1, "", foreign=1),), 0), claimed(0), True),
        (PartitionRecount((Recount(1, ""),), 2), claimed(0, preserved=True), False),
    ],
    ids=["all ours", "after the last one", "in between", "offsets preserved"],
)
def test_only_where_something_is_strange_others_are_asked(
    found: PartitionRecount, claim: RangeClaim, strange: bool
) -> None:
    assert list(with_strangers({TP: found}, {TP: [claim]})) == ([TP] if strange else [])


def test_where_the_target_has_producers_of_its_own_no_record_is_foreign() -> None:
    mine = [claimed(0, 2)]
    found = without_locals({TP: counted("ox o x".replace(" ", ""), mine)}, {TP: mine})[TP]
    assert (found.ranges[0].foreign, found.beyond) == (0, 0)
    assert found.ranges[0].records == 2


def test_records_with_preserved_offsets_stand_alone_even_there() -> None:
    mine = [claimed(0, 2, preserved=True)]
    counted_ = {TP: counted("oxox", mine)}
    assert without_locals(counted_, {TP: mine}) == counted_
