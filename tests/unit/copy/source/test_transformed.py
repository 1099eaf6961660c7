"""Records wait for their rows to be evaluated, and come in order, whole, and only once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    Reason,
    converted_batches,
    records_of,
    rejected_records,
)
from kafka_ferry.batches import Record as BatchRecord
from kafka_ferry.config.options.transform import ErrorPolicy, TransformRule
from kafka_ferry.copy.source import transformed
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.source.record_errors import RecordErrors
from kafka_ferry.copy.source.transformed import (
    ADVICE,
    WHAT_FAILS,
    NumberedRule,
    TransformedReader,
)
from kafka_ferry.model import Range, TopicPartition
from kafka_ferry.schemas.fields.records import RegistryRecords
from kafka_ferry.transform import Changer, Column, Decimals, Evaluated, Reads, RecordRows
from tests.support.records.batches import Record, a_batch

RULE = TransformRule(topics=("t",), where="true")
RANGE, OTHER, AS_IT_IS = (
    Range(topic, number, 0, 40, "id", topic, 0) for topic, number in (("t", 0), ("t", 1), ("u", 0))
)


Judged = tuple[bool, int]
"""Whether a record is kept, and which step failed for it."""


class Answers:
    """A reader of what a test gives it."""

    round_trip_s = 0.25

    def __init__(self, *answers: Sequence[Read] | None) -> None:
        self._answers = deque(answers)
        self.dropped: list[TopicPartition] = []
        self.is_closed = False

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        del timeout_s
        return self._answers.popleft()

    def drop(self, source: TopicPartition) -> None:
        self.dropped.append(source)

    def close(self) -> None:
        self.is_closed = True


class Judge:
    """Evaluates rows by a function of partition and offset, at once or when it is told to."""

    columns: Sequence[frozenset[Column]] = (frozenset({"partition", "offset"}),)
    decimals: Decimals = ({"key": (), "value": ()},)
    reads: Reads = ((),)

    def __init__(self, judge: Callable[[int, int], Judged], *, at_once: bool = True) -> None:
        self._judge, self._at_once = judge, at_once
        self.asked: list[tuple[Future[Evaluated], Evaluated]] = []

    def evaluate(self, rows: RecordRows) -> Future[Evaluated]:
        places = zip(rows.partitions, rows.offsets, strict=True)
        judged = [self._judge(tp.partition, offset) for tp, offset in places]
        found = Evaluated([keep for keep, _ in judged], [step for _, step in judged])
        future: Future[Evaluated] = Future()
        self.asked.append((future, found))
        if self._at_once:
            future.set_result(found)
        return future


def a_read(range_: Range, start: int, records: int = 4) -> Read:
    batch = a_batch(records, at=start)
    return Read(range_, tuple(converted_batches(batch, AbortFilter(()), start, start + records)))


def reader(answers: Answers, judge: Judge, policy: ErrorPolicy = "fail") -> TransformedReader:
    return TransformedReader(answers, judge, {"t": NumberedRule(0, Changer(RULE))}, {}, policy)


def all_of(found: TransformedReader) -> list[Read]:
    reads: list[Read] = []
    while (more := found.next(1.0)) is not None:
        reads += more
    return reads


def even(_: int, offset: int) -> Judged:
    return offset % 2 == 0, -1


def batches_of(reads: Sequence[Read], range_: Range) -> list[ConvertedBatch]:
    return [it for read in reads if read.range is range_ for it in read.converted_batches]


def test_each_range_is_read_in_order_and_topics_without_a_rule_stay_as_they_are() -> None:
    as_it_is = a_read(AS_IT_IS, 0)
    answers = Answers(
        [a_read(RANGE, 0), as_it_is], [a_read(OTHER, 0)], (), [a_read(RANGE, 4)], None
    )

    reads = all_of(reader(answers, Judge(even)))

    assert [(it.start, it.end) for it in batches_of(reads, RANGE)] == [(0, 4), (4, 8)]
    assert [it.reasons for it in batches_of(reads, OTHER)] == [{Reason.FILTERED: 2}]
    assert batches_of(reads, AS_IT_IS) == [*as_it_is.converted_batches]


def test_records_that_are_alike_for_their_rule_are_evaluated_once() -> None:
    judge = Judge(lambda partition, _: (partition == 1, -1))
    judge.columns = (frozenset({"partition", "headers"}),)

    reads = all_of(reader(Answers([a_read(RANGE, 0), a_read(OTHER, 0)], None), judge))

    assert [len(found) for _, found in judge.asked] == [2]
    assert [it.reasons for it in batches_of(reads, RANGE)] == [{Reason.FILTERED: 4}]
    assert [it.reasons for it in batches_of(reads, OTHER)] == [{}]


def test_a_long_answer_is_evaluated_in_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformed, "_LOT_RECORDS", 4)
    batches = [it for at in range(0, 40, 4) for it in a_read(RANGE, at).converted_batches]
    judge = Judge(even)

    reads = all_of(reader(Answers([Read(RANGE, tuple(batches))], None), judge))

    assert [len(found) for _, found in judge.asked] == [4] * 10
    assert [it.start for it in batches_of(reads, RANGE)] == list(range(0, 40, 4))


def test_a_large_batch_is_opened_in_parts_and_not_before_they_are_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transformed, "OPENED_AT_ONCE", 1_500_000)
    monkeypatch.setattr(transformed, "_LOT_BYTES", 1)
    opened: list[int] = []

    def note(part: ConvertedBatch, *limit: int) -> list[BatchRecord]:
        records = records_of(part, *limit)
        opened.append(part.end)
        return records

    monkeypatch.setattr(transformed, "records_of", note)
    batch = a_batch([Record(value=bytes(700_000)) for _ in range(10)], codec=4)
    read = Read(RANGE, tuple(converted_batches(batch, AbortFilter(()), 0, 10)))
    judge = Judge(even, at_once=False)
    found = reader(Answers([read], None), judge)

    assert found.next(0.01) == ()
    assert len(opened) == len(judge.asked) == 2
    for future, evaluated in judge.asked:
        future.set_result(evaluated)
    judge._at_once = True

    reads = all_of(found)

    assert [it.end for it in batches_of(reads, RANGE)] == opened
    assert sum(it.reasons[Reason.FILTERED] for it in batches_of(reads, RANGE)) == 5


@pytest.mark.parametrize("is_small", [True, False])
def test_records_that_their_schemas_may_spread_are_opened_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, *, is_small: bool
) -> None:
    """Either very many of a few bytes, or a quarter of what is opened of others."""
    monkeypatch.setattr(rejected_records, "_PIECE_RECORDS", 3)
    monkeypatch.setattr(transformed, "_LOT_RECORDS", 9 if is_small else 100)
    monkeypatch.setattr(transformed, "OPENED_AT_ONCE", 1_000_000 if is_small else 399)
    form = RegistryRecords(NotImplemented, "avro", (), b"" if is_small else b"__value_schema_id")
    rules = {"t": NumberedRule(0, Changer(RULE, {"value": form}))}
    batch = a_batch([Record(value=bytes(10)) for _ in range(10)], codec=0 if is_small else 4)
    read = Read(RANGE, tuple(converted_batches(batch, AbortFilter(()), 0, 10)))
    judge = Judge(even)

    reads = all_of(TransformedReader(Answers([read], None), judge, rules, {}, "fail"))

    assert [it.start for it in batches_of(reads, RANGE)] == [0, 3, 6, 9]


def test_records_of_many_headers_are_opened_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected_records, "_PIECE_RECORDS", 3)
    monkeypatch.setattr(transformed, "_LOT_RECORDS", 20)
    monkeypatch.setattr(transformed, "_HEADERS_A_RECORD", 1)
    batch = a_batch([Record(headers=(("h", None),) * 7) for _ in range(10)])
    read = Read(RANGE, tuple(converted_batches(batch, AbortFilter(()), 0, 10)))
    judge = Judge(even)
    judge.columns = (frozenset({"offset", "header_list"}),)

    reads = all_of(reader(Answers([read], None), judge))

    assert [it.start for it in batches_of(reads, RANGE)] == [0, 3, 6, 9]
    assert [len(found) for _, found in judge.asked] == [3, 3, 3, 1]


def test_two_lots_are_evaluated_at_a_time_and_nothing_is_waited_for_too_long() -> None:
    judge = Judge(even, at_once=False)
    answers = Answers(*([a_read(RANGE, at)] for at in range(0, 16, 4)), None)
    found = reader(answers, judge)

    assert found.next(0.01) == ()
    assert len(judge.asked) == 2
    future, evaluated = judge.asked[0]
    future.set_result(evaluated)
    (first,) = found.next(0.01) or ()
    assert first.converted_batches[0].end == 4
    assert len(judge.asked) == 3


def test_a_record_that_fails_ends_its_range_before_it_and_no_other() -> None:
    def judge(partition: int, offset: int) -> Judged:
        return True, 0 if (partition, offset) == (0, 5) else -1

    answers = Answers(
        [a_read(RANGE, 0, 8), a_read(OTHER, 0)], [a_read(RANGE, 8), a_read(OTHER, 4)], None
    )

    reads = all_of(reader(answers, Judge(judge)))

    (failure,) = (read.failure for read in reads if read.failure)
    assert (failure.offset, failure.transient) == (5, False)
    assert "offset 5 of t-0: rule 1: where failed" in failure.message
    assert batches_of(reads, RANGE)[-1].end == 5
    # What is not copied is not counted.
    assert all(not batch.rule_counts for batch in batches_of(reads, RANGE))
    assert batches_of(reads, OTHER)[-1].end == 8
    assert RANGE.source in answers.dropped


@pytest.mark.parametrize("policy", ["dead-letter", "pass"])
def test_by_choice_it_is_set_aside_or_passes(policy: ErrorPolicy) -> None:
    judge = Judge(lambda _, offset: (True, 0 if offset == 1 else -1))

    (read,) = all_of(reader(Answers([a_read(RANGE, 0)], None), judge, policy))

    assert (read.failure, read.converted_batches[0].end) == (None, 4)
    assert dict(read.set_aside) == ({1: "rule 1: where failed"} if policy == "dead-letter" else {})


def test_of_what_is_wrong_with_a_record_no_more_is_told_than_people_read() -> None:
    errors = RecordErrors(RANGE, "dead-letter", WHAT_FAILS, ADVICE)

    errors.add(a_read(RANGE, 0).converted_batches, {1: "of\na \x1b" + "x" * 100_000})

    assert errors.read(None).set_aside == {1: r"of a \x1b" + "x" * 291}


def test_what_is_outside_is_passed_on() -> None:
    answers = Answers(None)
    found = reader(answers, Judge(even))

    found.close()

    assert (found.round_trip_s, answers.is_closed) == (0.25, True)
