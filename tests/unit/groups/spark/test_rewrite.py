"""A Structured Streaming checkpoint for the target: what its files become, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.errors import CheckpointRefused
from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.spark.checkpoint import (
    MicroBatch,
    Numbers,
    SparkCheckpoint,
    initial_content,
    kafka_text,
)
from kafka_ferry.groups.spark.placement import Placing
from kafka_ferry.groups.spark.rewrite import Rewritten, rewrite
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.ledger.queries.range_columns import RangeColumns
from kafka_ferry.model import LogBounds, TopicPartition
from tests.unit.groups.spark.test_checkpoint import ORDERS, a_batch, at
from tests.unit.ledger.entries import a_copied_range

COMMIT = b'v1\n{"nextBatchWatermarkMs":7}'
REMOTE = TopicPartition("primary.orders", 0)


def on_target(offset: int) -> bytes:
    return a_batch(kafka_text({REMOTE: offset}))


def a_checkpoint(
    *ends: str, committed: int = -1, begun: int = 0, stateful: bool = False
) -> SparkCheckpoint:
    """One batch for each of ``ends``; the last ``committed`` of them is the newest that is finished."""
    last = len(ends) - 1 if committed == -1 else committed
    names = [str(number) for number in range(len(ends))]
    numbers = Numbers.of(names, names[: last + 1])
    return SparkCheckpoint(
        numbers,
        {n: MicroBatch.of(f"offsets/{n}", a_batch(ends[n])) for n in numbers.planned},
        {n: COMMIT for n in numbers.planned if n <= last},
        {"sources/0/0": {ORDERS: begun}},
        b'{"id":"59f2cac4"}',
        stateful,
    )


def a_place(*ranges: CopiedRange, log: LogBounds | None = None, **more: Any) -> Placing:
    """Source offsets are 1,000 more on the target, unless the ranges say otherwise."""
    ranges = ranges or (a_copied_range(0, 100),)
    route = Route(ORDERS, REMOTE, "id", False, OffsetMap.of(ranges))
    fields: dict[str, Any] = {
        "remote": {"orders": "primary.orders"},
        "routes": {ORDERS: route},
        "target_logs": {REMOTE: log or LogBounds(1000, 1200)},
        "source_logs": {},
    }
    return Placing(**fields | more)


def refusal(checkpoint: SparkCheckpoint, place: Placing, **more: Any) -> CheckpointRefused:
    with pytest.raises(CheckpointRefused) as caught:
        rewrite(checkpoint, place, **more)
    return caught.value


def names_of(found: Rewritten, folder: str) -> set[str]:
    return {name for name in found.files if name.startswith(folder)}


def test_a_finished_query_goes_on_after_its_last_record_under_its_own_id_and_number() -> None:
    found = rewrite(a_checkpoint(at(20), at(40), at(60)), a_place())

    assert found.files == {
        "offsets/1": on_target(1040),
        "offsets/2": on_target(1060),
        "commits/2": COMMIT,
        "sources/0/0": initial_content({REMOTE: 1000}),
        "metadata": b'{"id":"59f2cac4"}',
    }
    assert (found.batch, found.topics) == (2, {"orders": "primary.orders"})
    assert [(p.source, p.offset, p.target, p.at, p.kind) for p in found.placed] == [
        (ORDERS, 60, REMOTE, 1060, "exact")
    ]


def test_an_unfinished_batch_is_read_again_with_the_same_records_under_its_number() -> None:
    found = rewrite(a_checkpoint(at(20), at(40), committed=0), a_place())

    assert found.files["offsets/0"] == on_target(1020)
    assert found.files["offsets/1"] == on_target(1040)
    assert names_of(found, "commits") == {"commits/0"}
    assert found.notes and "Batch 1 was not finished" in found.notes[0]


def test_the_number_of_an_unfinished_batch_whose_records_are_not_all_copied_is_used_up() -> None:
    found = rewrite(a_checkpoint(at(20), at(140), committed=0), a_place())

    # A sink that has seen batch 1 would skip other records of that number.
    assert found.files["offsets/1"] == found.files["offsets/0"] == on_target(1020)
    assert found.files["commits/1"] == COMMIT
    assert found.batch == 1


def test_a_first_batch_that_was_not_finished_begins_where_its_source_did() -> None:
    nothing = rewrite(a_checkpoint(at(20), committed=-2, begun=5), a_place())
    too_far = rewrite(a_checkpoint(at(140), committed=-2, begun=5), a_place())

    assert nothing.files["sources/0/0"] == initial_content({REMOTE: 1005})
    assert nothing.files["offsets/0"] == on_target(1020)
    assert not names_of(nothing, "commits")
    assert too_far.files["offsets/0"] == on_target(1005)
    assert too_far.files["commits/0"] == b'v1\n{"nextBatchWatermarkMs":0}'


def test_an_only_source_is_known_under_the_name_that_the_application_gave_it() -> None:
    unfinished = a_checkpoint(at(20), committed=-2)
    named = replace(unfinished, initial={"sources/the_orders/0": {ORDERS: 5}})
    assert rewrite(named, a_place()).files["sources/the_orders/0"] == initial_content(
        {REMOTE: 1005}
    )

    refused = refusal(replace(unfinished, initial={}), a_place())
    assert "sources/0/0, where its source began, is missing" in str(refused)


def test_state_cannot_leave_a_number_out() -> None:
    query = a_checkpoint(at(20), at(140), committed=0, stateful=True)
    assert "only what is before 100 is copied and verified" in str(refusal(query, a_place()))
    assert rewrite(a_checkpoint(at(20), at(100), committed=0, stateful=True), a_place())


def test_each_source_of_a_query_is_translated_and_one_without_offsets_stays_so() -> None:
    ends = MicroBatch.of("offsets/0", a_batch(at(20), "-", at(30)))
    checkpoint = SparkCheckpoint(Numbers(0, None, None), {0: ends}, {0: COMMIT}, {})

    found = rewrite(checkpoint, a_place())

    texts = [kafka_text({REMOTE: 1020}), "-", kafka_text({REMOTE: 1030})]
    assert found.files["offsets/0"] == a_batch(*texts)


def test_the_checkpoint_of_a_flow_says_that_it_holds_no_positions() -> None:
    ours = replace(a_checkpoint('{"logOffset":3}'), of_a_flow=True)
    refused = refusal(ours, a_place())
    assert "it belongs to a Kafka Ferry flow" in str(refused)
    assert "ferry failback" in refused.advice


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (
            '{"logOffset":3}',
            r'source 0 is not Spark\'s Kafka source: its offset is {"logOffset":3}',
        ),
        ("17", r"its offset is 17\."),
    ],
)
def test_other_sources_are_refused(end: str, why: str) -> None:
    with pytest.raises(CheckpointRefused, match=why):
        rewrite(a_checkpoint(end), a_place())


@pytest.mark.parametrize(
    ("offset", "why", "clamped"),
    [
        (101, "only what is before 100 is copied and verified", 1100),
        (3, "the copy begins at 10", 1000),
        (15, "its counterpart 1015 is no longer on the target, whose log is [1020, 1200)", 1020),
    ],
)
def test_what_the_copy_does_not_account_for_is_refused_unless_it_is_to_be_clamped(
    offset: int, why: str, clamped: int
) -> None:
    log = LogBounds(1020, 1200) if offset == 15 else LogBounds(1000, 1200)
    place = a_place(a_copied_range(10, 100), log=log)

    refused = refusal(a_checkpoint(at(offset)), place)
    found = rewrite(a_checkpoint(at(offset)), place, clamp=True)

    assert refused.reasons == (f"orders-0, read up to offset {offset}: {why}.",)
    assert found.files["offsets/0"] == on_target(clamped)
    assert found.placed[0].doubt == why


def test_the_end_of_what_is_copied_is_right_for_whom_has_read_it_all() -> None:
    # Offsets 95 to 99 were aborted, and the target's log goes on after the copy.
    cut = a_copied_range(0, 100, records=95, segments=(Segment(0, 1000, 95),))
    for offset in (95, 97, 100):
        assert rewrite(a_checkpoint(at(offset)), a_place(cut)).placed[0].at == 1095


def test_records_that_would_come_again_after_a_backfill_are_seen() -> None:
    # What was before offset 50 came last.
    late = a_copied_range(0, 50, segments=(Segment(0, 1050, 50),))
    backfilled = a_place(a_copied_range(50, 100, segments=(Segment(50, 1000, 50),)), late)

    refused = refusal(a_checkpoint(at(70)), backfilled)

    assert "it was not copied in order, and records from 0 on are after" in str(refused)
    assert rewrite(a_checkpoint(at(0)), backfilled).placed[0].at == 1000


def test_topics_that_the_flow_does_not_copy_are_refused_even_if_clamped() -> None:
    refused = refusal(a_checkpoint(at(5)), a_place(remote={}), clamp=True)
    assert refused.reasons == ("orders-0, read up to offset 5: the flow copies no such topic.",)
    refused = refusal(a_checkpoint(at(5)), a_place(target_logs={}), clamp=True)
    assert "primary.orders-0 is not on the target" in str(refused)


@pytest.mark.parametrize(
    ("offset", "source", "target", "answer"),
    [
        # Nothing was there to read, and nothing is there.
        (0, None, LogBounds(0, 0), 0),
        (40, LogBounds(40, 40), LogBounds(0, 0), 0),
        # It has read what no run has copied.
        (40, None, LogBounds(0, 0), None),
        (40, LogBounds(0, 40), LogBounds(0, 0), None),
        # Whose records are these?
        (0, None, LogBounds(0, 9), None),
    ],
)
def test_a_partition_that_nothing_was_copied_of_does_no_harm_while_it_is_empty(
    offset: int, source: LogBounds | None, target: LogBounds, answer: int | None
) -> None:
    place = a_place(
        routes={}, target_logs={REMOTE: target}, source_logs={ORDERS: source} if source else {}
    )
    if answer is None:
        assert "nothing of it is copied and verified" in str(
            refusal(a_checkpoint(at(offset)), place)
        )
    else:
        assert rewrite(a_checkpoint(at(offset)), place).placed[0].at == answer


def test_what_no_backfill_has_copied_of_what_the_query_has_not_read_is_a_doubt() -> None:
    ranges = [a_copied_range(50, 100), a_copied_range(10, 20)]
    columns = RangeColumns.of(ranges)._replace(backfill=np.array([False, True]))
    route = Route(ORDERS, REMOTE, "id", False, OffsetMap(columns))

    told = refusal(a_checkpoint(at(15)), a_place(routes={ORDERS: route}))
    assert "30 offsets from there on are before the copy, and in no backfill" in str(told)
    assert not a_place(routes={ORDERS: route})(ORDERS, 50).doubt.startswith("30 offsets")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"diverged": {ORDERS: 40}}, ""),
        ({"diverged": {ORDERS: 39}}, "its log was truncated at 39, below what was copied"),
        ({"diverged": {ORDERS: -1}}, "its log was truncated or restored from a backup, below what"),
        ({"lost": [REMOTE]}, f"the log of {REMOTE} has lost records that were copied"),
    ],
)
def test_what_a_truncated_log_may_have_had_before_the_offset_is_a_doubt(
    more: dict[str, Any], expected: str
) -> None:
    doubt = a_place(**more)(ORDERS, 40).doubt
    assert doubt.startswith(expected) and bool(doubt) == bool(expected)
