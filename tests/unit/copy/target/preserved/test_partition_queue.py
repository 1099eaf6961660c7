"""What comes next in a log that keeps its source's offsets: a record, a gap, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import ConvertedBatch, gap, next_sequence
from kafka_ferry.batches.empty_batches import empty_batch
from kafka_ferry.batches.topic_limits import TopicLimits
from kafka_ferry.copy.target.preserved.partition_queue import PreservedQueue, first_position
from kafka_ferry.copy.target.preserved.uncommitted_tail import Misplaced
from kafka_ferry.copy.target.produce.partition_queue import Outgoing
from kafka_ferry.model import Position, ProducerState, Range
from kafka_ferry.wire import PartitionLeader

RANGE = Range("orders", 0, 10, 10**6, "id", "primary.orders", 3, preserved=True)
PRODUCER = ProducerState(7, 0, 4)


def a_queue(start: int = 10, producer: ProducerState = PRODUCER) -> PreservedQueue:
    queue = PreservedQueue(1, RANGE, "remote-id", leader=PartitionLeader(1, "remote-id", 0))
    queue.open(Position(start, producer=producer), start)
    return queue


def a_converted_batch(start: int, before: int, records: int, after: int) -> ConvertedBatch:
    """Offsets without a record, records, and offsets without a record."""
    first = start + before
    end = first + records + after
    if not records:
        return gap(start, end)
    return ConvertedBatch(start, end, empty_batch(records), ((first, records),))


@dataclass
class Log:
    """A target's log as far as it matters: what is at each offset, and whose sequence numbers."""

    content: dict[int, str]
    end: int
    sequence: int

    def fill(self, queue: PreservedQueue, some: int) -> None:
        for _ in range(some):
            self.content[self.end] = "control"
            self.end += 1
        queue.end = self.end

    def append(self, queue: PreservedQueue, out: Outgoing) -> None:
        batch = out.converted.batch
        assert batch is not None
        assert queue.sequence == self.sequence
        assert out.converted.runs[0][0] == self.end
        for offset in range(self.end, self.end + batch.header.records):
            self.content[offset] = "record"
        self.end += batch.header.records
        self.sequence = next_sequence(self.sequence, batch.header.records)
        out.base_offset, queue.end, queue.is_sending = out.converted.first, self.end, False
        queue.sequence = self.sequence


# Converted batches that join, each at most one run: offsets before it, its records, offsets after it.
STRETCHES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)).filter(any), max_size=12
)


@given(
    stretches=STRETCHES,
    at_once=st.integers(1, 4),
    sequence=st.sampled_from([0, 4, 2**31 - 3]),
    filled_at_a_time=st.integers(1, 5),
)
def test_each_record_is_written_at_its_own_offset_and_every_other_offset_is_filled(
    stretches: list[tuple[int, int, int]], at_once: int, sequence: int, filled_at_a_time: int
) -> None:
    queue = a_queue(producer=replace(PRODUCER, sequence=sequence))
    log = Log({}, 10, sequence)
    converted_batches, at = [], 10
    for stretch in stretches:
        converted_batches.append(a_converted_batch(at, *stretch))
        at = converted_batches[-1].end
    waiting = list(converted_batches)
    while waiting or queue.waiting:
        some, waiting = waiting[:at_once], waiting[at_once:]
        queue.waiting.extend(Outgoing(converted, RANGE) for converted in some)
        while True:
            if out := queue.next_to_send():
                assert queue.next_to_send() is None, "one batch is on its way at a time"
                log.append(queue, out)
            elif queue.missing:
                log.fill(queue, min(queue.missing, filled_at_a_time))
            else:
                break
        queue.settle()
        assert not queue.waiting

    records = {
        offset
        for p in converted_batches
        for first, n in p.runs
        for offset in range(first, first + n)
    }
    assert log.end == at
    assert {offset for offset, what in log.content.items() if what == "record"} == records
    assert queue.producer == replace(PRODUCER, sequence=next_sequence(sequence, len(records)))
    if converted_batches:
        copied = queue.copied_range()
        assert (copied.start, copied.end, copied.records) == (10, at, len(records))
        assert all(segment.source == segment.target for segment in copied.segments)
        assert copied.preserved


def test_a_gap_after_a_batch_on_its_way_waits_for_it() -> None:
    queue = a_queue()
    queue.waiting.append(Outgoing(a_converted_batch(10, 0, 2, 3), RANGE))
    assert queue.next_to_send()
    assert queue.is_sending
    assert queue.missing == 0, "the log has not heard of the batch yet"


def test_what_is_counted_is_only_what_is_accounted_for() -> None:
    """A batch that is there, and whose gap is not: the next writer has to find it after the position."""
    queue = a_queue()
    queue.waiting.append(Outgoing(a_converted_batch(10, 0, 2, 3), RANGE))
    Log({}, 10, 4).append(queue, queue.next_to_send() or pytest.fail())
    assert queue.tally is None
    assert queue.producer.sequence == 4
    assert queue.sequence == 6
    assert queue.missing == 3


class TestWhereItGoesOn:
    def test_after_the_position_where_the_log_ends_there(self) -> None:
        assert a_queue(30).missing == 0

    def test_not_in_a_log_that_ends_before_it(self) -> None:
        with pytest.raises(Misplaced, match="ends at 20, before the position 30") as caught:
            a_queue().open(Position(30, producer=PRODUCER), 20)
        assert caught.value.offset == 30

    def test_not_after_translated_offsets(self) -> None:
        with pytest.raises(Misplaced, match="translated"):
            a_queue().open(Position(30), 30)

    def test_after_what_is_known_an_earlier_attempt_may_have_written(self) -> None:
        assert a_queue().open(Position(30, producer=PRODUCER), 35) == 30

    @pytest.mark.parametrize(("end", "left"), [(0, 1500), (700, 800), (1500, 0), (1600, 0)])
    def test_a_start_that_was_not_filled_to_its_end(self, end: int, left: int) -> None:
        range_ = replace(RANGE, start=1600, log_start=1500)
        first = first_position(range_)
        assert first.producer == ProducerState(-1, 0, 1500, unfilled_to=1500)
        queue = a_queue()
        assert queue.open(first, end) == 1500
        converted_batches = list(queue.start_batches(TopicLimits()))
        assert sum(len(range(p.start, p.end)) for p in converted_batches) == left
        assert queue.sequence == (end if left else 1500)
        assert queue.missing == max(0, 1600 - end)

    def test_the_sequence_of_a_start_far_up_has_wrapped(self) -> None:
        first = first_position(replace(RANGE, start=2**33, log_start=2**33 + 5))
        assert first.producer
        assert first.producer.sequence == 5


def test_a_new_epoch_counts_no_records_of_the_one_before_it() -> None:
    queue, log = a_queue(), Log({}, 10, 4)
    queue.waiting.append(Outgoing(a_converted_batch(10, 0, 3, 2), RANGE))
    out = queue.next_to_send()
    assert out is not None
    log.append(queue, out)

    queue.begin_epoch()
    log.fill(queue, 2)
    queue.settle()

    assert queue.producer == ProducerState(7, 1, 0)
