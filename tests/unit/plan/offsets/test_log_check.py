"""What is wrong with a remote topic whose offsets are preserved, by offset, and what giving it up costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.batches import Batch, split_batches
from kafka_ferry.model import LogBounds, Mark, Position, ProducerState
from kafka_ferry.plan.offsets.log_check import (
    NOTHING,
    Copy,
    CopyState,
    LogTail,
    PartitionState,
    first_unaccounted,
    log_tail,
    only_copy,
    partition_state,
)
from tests.support.records.batches import a_batch, a_marker
from tests.unit.plan.builders import KNOWN, REMOTE, a_flow, a_source, at

PRODUCER = ProducerState(7, 0, 130)
KEPT = replace(KNOWN, producer=PRODUCER)
UNFILLED = replace(KNOWN, offset=30, producer=ProducerState(7, 0, 20, unfilled_to=20))
MARK = Mark("orders", "id of orders", "primary.orders", REMOTE.topic_id, True, True)
LOG = LogBounds(10, 30)
NEVER_WRITTEN = LogBounds(0, 0)


def a_copy(position: Position | None = KEPT, **more: Any) -> Copy:
    """One that was copied up to 30."""
    known: dict[str, Any] = {"source": a_source(), "remote": REMOTE, "mark": MARK}
    known |= {"positions": {0: position} if position else {}}
    return Copy(topic="orders", remote_topic="primary.orders", **known | more)


def batches(*encoded: bytes) -> list[Batch]:
    return [batch for bytes_ in encoded for batch in split_batches(bytes_)]


def ours(offset: int, sequence: int, records: int = 5, **more: int) -> bytes:
    header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} | more
    return a_batch(records, at=offset, **header)


def theirs(offset: int) -> bytes:
    return a_batch(1, at=offset, producer_id=8, producer_epoch=0, base_sequence=0)


def forgotten(offset: int) -> bytes:
    """The control record with which the next epoch begins."""
    return a_marker(at=offset, producer_id=7, epoch=1, commit=True)


OTHER = "another producer (id {}) has written to it."
AGAIN = (
    "the flow's own producer has sequence number {} where {} was expected: a writer that was "
    "treated as dead has written again."
)


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ([], NOTHING),
        ([ours(30, 130), ours(35, 135)], LogTail(10)),
        # Control records fill gaps, whichever producer wrote them.
        ([a_marker(at=30, producer_id=8, commit=True), ours(31, 130)], LogTail(5)),
        ([theirs(30)], LogTail(0, 30, OTHER.format(8))),
        ([a_batch(2, at=30)], LogTail(0, 30, OTHER.format(-1))),
        ([ours(30, 130), theirs(35), ours(36, 135)], LogTail(5, 35, OTHER.format(8))),
        # Where a broker had forgotten the producer, a later epoch begins with a control record.
        ([forgotten(30), ours(31, 0, producer_epoch=1)], LogTail(5)),
        ([forgotten(30), ours(31, 130, producer_epoch=1)], LogTail(0, 31, AGAIN.format(130, 0))),
        ([forgotten(30), ours(31, 130)], LogTail(0, 31, OTHER.format(7))),
        # What was adopted of it is committed, with the epoch before.
        ([ours(30, 40, producer_epoch=1)], LogTail(5)),
        ([ours(30, 7)], LogTail(0, 30, AGAIN.format(7, 130))),
        ([ours(30, 130), ours(35, 130)], LogTail(5, 35, AGAIN.format(130, 135))),
        # A batch that begins before the position, of which a part was committed.
        ([ours(27, 127, 5), ours(32, 132)], LogTail(7)),
    ],
)
def test_whose_the_batches_after_a_position_are_is_told_by_their_headers(
    log: list[bytes], found: LogTail
) -> None:
    assert log_tail(batches(*log), KEPT, 10, is_compacted=False) == found


def test_sequences_that_cannot_be_counted_prove_nothing() -> None:
    """Records were compacted away, or the log's start has passed the position."""
    later = batches(ours(40, 140), ours(50, 150))
    assert log_tail(later, KEPT, 10, is_compacted=True) == LogTail(10)
    assert log_tail(later[:1], KEPT, 40, is_compacted=False) == LogTail(5)
    assert log_tail(later[:1], KEPT, 10, is_compacted=False).offset == 40


def test_a_log_that_is_still_filled_is_looked_at_from_its_start_on() -> None:
    assert first_unaccounted(KEPT) == 30
    assert first_unaccounted(UNFILLED) == 20
    assert log_tail(batches(ours(20, 20)), UNFILLED, 20, is_compacted=False) == LogTail(5)


@pytest.mark.parametrize(
    ("copy", "log", "offset", "problem"),
    [
        (a_copy(), LOG, -1, ""),
        (a_copy(), LogBounds(10, 36), -1, ""),
        (a_copy(), None, -1, ""),
        (a_copy(), LogBounds(10, 29), 29, "its log ends before the position 30: records that"),
        (a_copy(), NEVER_WRITTEN, 0, "its log ends before the position 30"),
        (a_copy(UNFILLED), LogBounds(0, 3), -1, ""),
        (a_copy(None), NEVER_WRITTEN, -1, ""),
        (a_copy(None), LOG, 0, "its log ends at 30, and the flow has copied nothing to it."),
        (a_copy(at(30, remote_topic_id="another")), LOG, 0, "its log ends at 30, and the flow"),
        (a_copy(KNOWN), LOG, 30, "its position is not one of preserved offsets."),
        (a_copy(Position(12)), LOG, 12, "its position is not one of preserved offsets."),
        (
            a_copy(mark=replace(MARK, preserved=False)),
            LOG,
            30,
            "its position is not one of preserved offsets.",
        ),
        (a_copy(mark=replace(MARK, remote_topic_id="another", preserved=False)), LOG, -1, ""),
        # What is translated is not judged, and what was given up is wrong as a whole.
        (a_copy(KNOWN, mark=None), NEVER_WRITTEN, -1, ""),
        (a_copy(released=True), NEVER_WRITTEN, -1, ""),
    ],
)
def test_a_partition_is_compared_with_its_position(
    copy: Copy, log: LogBounds | None, offset: int, problem: str
) -> None:
    state = partition_state(copy, 0, log)
    assert state.offset == offset
    assert state.problem.startswith(problem)
    assert bool(state.problem) == bool(problem)


def test_what_lies_after_a_position_is_told_with_its_offset() -> None:
    uncommitted = partition_state(a_copy(), 0, LogBounds(10, 36), LogTail(6))
    assert (uncommitted.uncommitted, uncommitted.problem) == (6, "")
    assert uncommitted.said == "6 uncommitted"
    foreign = partition_state(a_copy(), 0, LogBounds(10, 37), LogTail(6, 36, OTHER.format(8)))
    assert (foreign.uncommitted, foreign.offset) == (6, 36)
    assert foreign.said == "DAMAGED"
    assert a_copy().state(a_flow(), [uncommitted, foreign]).damages == [
        f"primary.orders-0 at offset 36: {OTHER.format(8)}"
    ]
    assert partition_state(a_copy(), 0, None).said == "no leader"
    assert partition_state(a_copy(), 0, LOG).said == "ok"


@pytest.mark.parametrize(
    ("copy", "problem"),
    [
        (a_copy(), ""),
        (a_copy(None, remote=None), ""),
        (a_copy(remote=None), "it was deleted on the target."),
        (a_copy(at(30, remote_topic_id="another")), "it was deleted on the target and recreated."),
        (
            a_copy(None, leftover=True),
            "an earlier topic of this name was given up, and its positions",
        ),
        (a_copy(None, released=True), "it was given up, and still exists."),
    ],
)
def test_a_topic_is_compared_with_what_was_copied_to(copy: Copy, problem: str) -> None:
    state = copy.state(a_flow(), [])
    assert state.problem.startswith(problem)
    assert state.damaged == bool(problem)
    # What the next run mends by itself is no damage; one that was given up it leaves alone.
    again = copy.state(a_flow(on_target_topic_lost="recopy"), [])
    assert bool(again.problem) == copy.released


def test_all_remote_topics_of_a_name_are_given_up_that_positions_and_mark_are_about() -> None:
    positions = {0: KEPT, 1: at(3, remote_topic_id="older"), 2: Position(9)}
    mark = replace(MARK, remote_topic_id="oldest")
    state = a_copy(positions=positions, mark=mark).state(a_flow(), [])
    assert state.known_ids == (REMOTE.topic_id, "older", "oldest")
    assert a_copy(None, mark=None, released=True).state(a_flow(), []).known_ids == ()


def test_a_topic_of_a_broker_without_ids_cannot_be_told_from_others_of_its_name() -> None:
    assert a_copy().state(a_flow(), [PartitionState(0)]).has_id
    assert a_copy(remote=None).state(a_flow(), []).has_id
    position = replace(KEPT, remote_topic_id="")
    copy = a_copy(position, remote=replace(REMOTE, topic_id=""), mark=None)
    assert not copy.state(a_flow(), [PartitionState(0)]).has_id


@pytest.mark.parametrize(
    ("copy", "copied", "remote", "source", "lost"),
    [
        (a_copy(), [(10, 30)], LOG, LogBounds(10, 50), ()),
        (a_copy(), [(10, 30)], LOG, LogBounds(25, 50), ((10, 25),)),
        (a_copy(), [(10, 30)], LogBounds(20, 30), LogBounds(25, 50), ((20, 25),)),
        (a_copy(), [(10, 30)], LOG, LogBounds(40, 50), ((10, 30),)),
        # A target's log that begins at 0 has nothing there but what stands for nothing.
        (a_copy(), [(10, 30)], LogBounds(0, 30), LogBounds(10, 50), ()),
        # Of translated offsets the target's say nothing of the source's.
        (a_copy(KNOWN, mark=None), [(10, 30)], LogBounds(20, 30), LogBounds(25, 50), ((10, 25),)),
        (a_copy(source=None), [(10, 30)], LOG, None, ((10, 30),)),
        (a_copy(replace(KEPT, topic_id="another")), [(10, 30)], LOG, LogBounds(0, 50), ((10, 30),)),
        # What was lost before it was copied, it does not have; what a backfill has copied, it has.
        (
            a_copy(),
            [(0, 5), (12, 18), (22, 30)],
            LogBounds(0, 30),
            LogBounds(25, 50),
            ((0, 5), (12, 18), (22, 25)),
        ),
        (a_copy(None), [(10, 30)], LOG, LogBounds(25, 50), ()),
    ],
)
def test_offsets_that_only_the_copy_has_are_counted(
    copy: Copy, copied: Any, remote: LogBounds, source: LogBounds | None, lost: Any
) -> None:
    assert only_copy(copy, 0, copied, remote, source) == lost


def test_the_consequences_name_topic_and_offsets() -> None:
    parts = (
        PartitionState(0, only_copy=((10, 20), (30, 35))),
        PartitionState(1),
        PartitionState(2, only_copy=((0, 1200),)),
    )
    state = CopyState("orders", "primary.orders", "id", partitions=parts)
    said = state.consequences(yes=False)
    assert said.startswith("--topic primary.orders --yes gives it up and deletes it; its consumers")
    assert "up to 1,215 offsets" in said
    assert said.endswith("in partition 0 [10, 20) [30, 35), 2 [0, 1200).")
    assert "others" not in said
    done = replace(state, partitions=(), created=False).consequences(yes=True)
    assert done.startswith("primary.orders is given up and deleted; its consumers lose it until")
    assert "records of other producers in it are deleted too" in done
    assert "LOST" not in done
    gone = replace(state, remote_topic_id="", on_source=False).consequences(yes=True)
    assert gone.startswith("primary.orders is given up. No run can copy it again: ")
