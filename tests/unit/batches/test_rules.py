"""Each rule by a batch for which it is the one that decides, and the order where several hold."""

import pytest

from kafka_ferry.batches import Reason, Rebuilt, TopicLimits, split_batches
from kafka_ferry.batches.rules import DROPPED, REBUILT, Case, judge
from tests.support.records.batches import (
    NOW,
    Record,
    a_batch,
    a_marker,
    a_message_set,
    an_empty_batch,
)


def case(
    encoded: bytes,
    *,
    start: int = 0,
    end: int | None = None,
    topic_limits: TopicLimits | None = None,
    **more: bool | Reason,
) -> Case:
    [batch] = split_batches(encoded)
    stop = batch.header.next_offset if end is None else end
    return Case(batch, start, stop, topic_limits or TopicLimits(), **more)  # type: ignore[arg-type]


RULES = (*DROPPED, *REBUILT)
SMALL_TARGET = TopicLimits(max_batch_bytes=100)

JUDGED: dict[str, tuple[Case, Reason | Rebuilt | None]] = {
    "a plain batch": (case(a_batch(3)), None),
    "compressed": (case(a_batch(3, codec=2)), None),
    "of an idempotent producer": (case(a_batch(3, producer_id=4, base_sequence=7)), None),
    "of a committed transaction": (case(a_batch(3, producer_id=4, transactional=True)), None),
    "with a delete horizon": (case(a_batch(3, attributes=0x40)), None),
    "of null keys and values": (case(a_batch([Record(NOW, None, None)])), None),
    "of very old times": (case(a_batch([Record(-(2**41)), Record(-1)])), None),
    "with headers": (case(a_batch([Record(headers=(("name", None),))])), None),
    "of the codec that is pinned": (
        case(a_batch(3, codec=2), topic_limits=TopicLimits(codec=2)),
        None,
    ),
    "a large record": (case(a_batch([Record(value=b"x" * 100)]), topic_limits=SMALL_TARGET), None),
    "a marker": (case(a_marker(at=0, producer_id=4, commit=True)), Reason.CONTROL),
    "of an aborted transaction": (case(a_batch(3), is_aborted=True), Reason.ABORTED),
    "empty": (case(an_empty_batch(at=0, last_offset_delta=2)), Reason.COMPACTED),
    "from the target itself": (case(a_batch(3), left_out=Reason.RETURNED), Reason.RETURNED),
    "there already": (case(a_batch(3), left_out=Reason.COPIED_BEFORE), Reason.COPIED_BEFORE),
    "of another day": (case(a_batch(3), left_out=Reason.OUTSIDE_WINDOW), Reason.OUTSIDE_WINDOW),
    "partly of another day": (case(a_batch(3), is_thinned=True), Rebuilt.WINDOW_EDGE),
    "of format v0": (case(a_message_set([Record()], magic=0)), Rebuilt.OLD_FORMAT),
    "of format v1": (case(a_message_set([Record()], magic=1, codec=3)), Rebuilt.OLD_FORMAT),
    "begun before the range": (case(a_batch(3), start=1), Rebuilt.RANGE_EDGE),
    "longer than the range": (case(a_batch(3), end=2), Rebuilt.RANGE_EDGE),
    "compacted": (case(a_batch(2, deltas=[0, 2])), Rebuilt.OFFSET_GAPS),
    "compacted at its end": (case(a_batch(2, last_offset_delta=2)), Rebuilt.OFFSET_GAPS),
    "of the broker's time": (case(a_batch(2, append_time=NOW)), Rebuilt.LOG_APPEND_TIME),
    "of another codec": (
        case(a_batch(2, codec=1), topic_limits=TopicLimits(codec=0)),
        Rebuilt.OTHER_CODEC,
    ),
    "too large": (case(a_batch(9), topic_limits=SMALL_TARGET), Rebuilt.TOO_LARGE),
    "small among others": (case(a_batch(3), has_neighbours=True), Rebuilt.JOINED),
}


@pytest.mark.parametrize(("judged", "verdict"), JUDGED.values(), ids=JUDGED)
def test_each_kind_of_batch_passes_is_rebuilt_or_is_dropped(
    judged: Case, verdict: Reason | Rebuilt | None
) -> None:
    assert judge(judged) is verdict


@pytest.mark.parametrize("place", range(len(RULES)), ids=[str(verdict) for _, verdict in RULES])
def test_each_rule_decides_some_case_that_without_it_would_be_judged_otherwise(place: int) -> None:
    holds, verdict = RULES[place]
    decided = [case for case, given in JUDGED.values() if given is verdict]
    assert decided
    for case_ in decided:
        assert holds(case_)
        assert not any(earlier(case_) for earlier, _ in RULES[:place])


def test_every_reason_for_which_a_batch_as_it_comes_is_rebuilt_has_a_rule() -> None:
    """What rules and registries change is known only after the batch was converted, a rejection later."""
    later = {Rebuilt.TRANSFORMED, Rebuilt.SCHEMA_IDS, Rebuilt.REJECTED, Rebuilt.DIVIDED}
    assert {why for _, why in RULES if isinstance(why, Rebuilt)} == {*Rebuilt} - later


@pytest.mark.parametrize(
    ("judged", "verdict"),
    [
        (case(a_marker(at=0, producer_id=4, commit=True), is_aborted=True), Reason.CONTROL),
        (case(a_batch(2, append_time=NOW), is_aborted=True, start=1), Reason.ABORTED),
        (
            case(an_empty_batch(at=0, last_offset_delta=2), left_out=Reason.RETURNED),
            Reason.COMPACTED,
        ),
        (case(a_batch(2), start=1, left_out=Reason.OUTSIDE_WINDOW), Reason.OUTSIDE_WINDOW),
        (case(a_message_set([Record()] * 2), start=1), Rebuilt.OLD_FORMAT),
        (case(a_batch(2, deltas=[0, 5], append_time=NOW)), Rebuilt.OFFSET_GAPS),
        (case(a_batch(3, codec=1, append_time=NOW), has_neighbours=True), Rebuilt.LOG_APPEND_TIME),
    ],
)
def test_the_first_rule_that_holds_decides(judged: Case, verdict: Reason | Rebuilt) -> None:
    assert judge(judged) is verdict
