"""Records get their ids while they are read; what stops a range stops only that range."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    TopicLimits,
    converted_batches,
    records_of,
)
from kafka_ferry.batches.record_format.content import read_content
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.config.options.transform import ErrorPolicy
from kafka_ferry.copy.source.changed import ChangedReader
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.source.schema_ids import (
    HOW_TO_REGISTER,
    WITHOUT_ID,
    MissingSchemas,
    id_changes,
)
from kafka_ferry.model import Range
from kafka_ferry.schemas.ids import FlowSchemas, MirroredSchema
from kafka_ferry.schemas.mirror import SchemaMirror
from kafka_ferry.schemas.subjects import SubjectNames
from kafka_ferry.schemas.translate import IdBytes
from tests.support.records.batches import Record, a_batch
from tests.support.servers.registries import MemoryRegistry
from tests.unit.config.builders import a_flow
from tests.unit.copy.source.test_transformed import Answers

RANGE = Range("t", 0, 0, 40, "id", "t", 0, schema_ids="value 12")
OTHER = replace(RANGE, partition=1)
AS_IT_IS = replace(RANGE, topic="u", schema_ids="")
KNOWN = FlowSchemas((MirroredSchema(1, 101, "t-value", 1),))


def framed(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def a_read(range_: Range, *ids: int, at: int = 0) -> Read:
    batch = a_batch([Record(value=framed(it)) for it in ids], at=at)
    found = converted_batches(batch, AbortFilter(()), at, at + len(ids), TopicLimits(join_below=0))
    return Read(range_, tuple(found))


def reader(answers: Answers, policy: ErrorPolicy = "fail") -> ChangedReader:
    changes = id_changes([RANGE, OTHER, AS_IT_IS], IdBytes(KNOWN, lambda _: None))
    return ChangedReader(answers, changes, {}, policy, WITHOUT_ID, HOW_TO_REGISTER)


def values(read: Read) -> list[int]:
    contents = (read_content(it[3]) for of in read.converted_batches for it in records_of(of))
    return [int.from_bytes(it.value or b"", "big") for it in contents]


def test_only_ranges_with_ids_are_looked_at() -> None:
    as_it_is = a_read(AS_IT_IS, 1)
    found = reader(Answers([a_read(RANGE, 1, 1), as_it_is], [], None))

    first, second = found.next(1) or ()
    assert (values(first), second) == ([101, 101], as_it_is)
    assert found.next(1) == []
    assert found.next(1) is None
    assert found.round_trip_s == 0.25


def test_a_large_batch_is_changed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_ferry.schemas.translate.OPENED_AT_ONCE", 1_500_000)
    value = framed(1) + bytes(700_000)
    batch = a_batch([Record(value=value) for _ in range(5)], codec=4)
    read = Read(RANGE, tuple(converted_batches(batch, AbortFilter(()), 0, 5)))

    (found,) = reader(Answers([read], None)).next(1) or ()

    assert len(found.converted_batches) > 2
    assert found.converted_batches[-1].end == 5
    contents = [read_content(it[3]) for of in found.converted_batches for it in records_of(of)]
    assert [it.value for it in contents] == [framed(101) + bytes(700_000)] * 5


def test_a_record_that_is_too_large_to_be_opened_fails_its_partition_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("schemas.translate", "batches.rejected_records"):
        monkeypatch.setattr(f"kafka_ferry.{module}.OPENED_AT_ONCE", 1_000_000)
    batch = a_batch([Record(value=framed(1)), Record(value=bytes(3_000_000))], codec=4)
    read = Read(RANGE, tuple(converted_batches(batch, AbortFilter(()), 0, 2)))

    changed, other = reader(Answers([read, a_read(OTHER, 1)], None)).next(1) or ()

    assert changed.failure and not changed.failure.transient
    assert "a record of more than 2000000 bytes" in changed.failure.message
    assert values(other) == [101]


def test_fail_stops_the_range_before_the_record_and_reads_no_more_of_it() -> None:
    answers = Answers(
        [a_read(RANGE, 1, 9, 1), a_read(OTHER, 1)], [a_read(RANGE, 1, at=3), a_read(OTHER, 1, at=1)]
    )
    found = reader(answers)

    first, other = found.next(1) or ()
    assert (values(first), values(other)) == ([101], [101])
    assert first.failure
    assert first.failure.offset == 1
    assert "the schema 9 is not known" in first.failure.message
    assert answers.dropped == [RANGE.source]
    # What was read ahead of it is not copied: there would be a gap.
    assert [values(it) for it in found.next(1) or ()] == [[], [101]]


@pytest.mark.parametrize(("policy", "set_aside"), [("dead-letter", [1]), ("pass", [])])
def test_other_policies_go_on(policy: ErrorPolicy, set_aside: list[int]) -> None:
    found = reader(Answers([a_read(RANGE, 1, 9, 1)]), policy)

    (read,) = found.next(1) or ()

    assert values(read) == [101, 9, 101]
    assert list(read.set_aside) == set_aside
    assert read.failure is None


def test_what_was_set_aside_before_stays_so() -> None:
    read = replace(a_read(RANGE, 9, 1), set_aside={0: "a rule failed"})
    (found,) = reader(Answers([read])).next(1) or ()
    assert found.set_aside == {0: "a rule failed"}
    assert found.failure is None


@pytest.mark.parametrize(("ids", "left"), [((9, 1), []), ((1, 9), [0])])
def test_what_was_set_aside_behind_the_record_that_stops_the_range_is_left_out(
    ids: tuple[int, ...], left: list[int]
) -> None:
    read = replace(a_read(RANGE, *ids), set_aside=dict.fromkeys((1 - ids.index(9), 5), "a rule"))

    (found,) = reader(Answers([read])).next(1) or ()

    assert found.failure
    assert [at for errors in found.set_aside_by_epoch().values() for at in errors] == left


def test_a_malformed_batch_stops_the_range_at_its_start() -> None:
    good = a_read(RANGE, 1)
    (batch,) = a_read(RANGE, 1, at=1).converted_batches
    assert batch.batch
    cut = replace(batch, batch=Batch(batch.batch.header, batch.batch.payload[:5]))
    answers = Answers([replace(good, converted_batches=(*good.converted_batches, cut))])

    (read,) = reader(answers).next(1) or ()

    assert values(read) == [101]
    assert read.failure
    assert (read.failure.offset, read.failure.transient) == (1, False)
    assert answers.dropped == [RANGE.source]


def test_closing_it_closes_what_it_reads_from() -> None:
    answers = Answers()
    reader(answers).close()
    assert answers.is_closed


class Connected(MissingSchemas):
    """Mirrors between registries in memory."""

    def __init__(self, source: MemoryRegistry, target: MemoryRegistry) -> None:
        super().__init__(a_flow(), {})
        self._mirror = SchemaMirror(source, target, SubjectNames({"t": "p.t"}), changes=True)


def test_a_missing_schema_is_mirrored_under_its_subject() -> None:
    source, target = MemoryRegistry(first_id=100), MemoryRegistry()
    source.add("t-value", "one")
    missing = Connected(source, target)

    assert missing.resolve(100) == 1
    assert target.requests == ["register p.t-value version 1"]
    assert missing.resolve(101) is None
    assert missing.resolve("0" * 32) is None
    (mirrored,) = missing.mirrored
    assert (mirrored.source_id, mirrored.target_id, mirrored.subject) == (100, 1, "p.t-value")


def test_a_schema_whose_subject_is_deleted_stays_unknown() -> None:
    source, target = MemoryRegistry(first_id=100), MemoryRegistry()
    source.add("t-value", "one")
    source.delete("t-value")
    assert Connected(source, target).resolve(100) is None
    assert not target.requests


def test_a_version_that_was_registered_again_gives_its_new_id_no_other_schema() -> None:
    source, target = MemoryRegistry(first_id=100), MemoryRegistry()
    source.add("t-value", "one")
    missing = Connected(source, target)
    assert missing.resolve(100) == 1
    source.delete("t-value")
    source.add("t-value", "another")

    assert missing.resolve(101) == 2
    assert [(it.source_id, it.target_id) for it in missing.mirrored] == [(100, 1), (101, 2)]


def test_unknown_ids_of_a_topic_take_no_other_topic_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_ferry.schemas.translate.MOST_UNKNOWN", 2)
    other = replace(RANGE, topic="v")
    late = IdBytes(KNOWN, lambda it: 107 if it == 7 else None)
    answers = Answers([a_read(RANGE, 9, 10, 7), a_read(other, 7)])
    changes = id_changes([RANGE, other], late)
    found = ChangedReader(answers, changes, {}, "pass", WITHOUT_ID, HOW_TO_REGISTER)
    assert [values(it) for it in found.next(1) or ()] == [[9, 10, 7], [107]]


def test_what_the_target_refuses_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    source, target = MemoryRegistry(first_id=100), MemoryRegistry()
    target.refused = {"one", "two", "three"}
    for text in target.refused:
        source.add("t-value", text)
    missing = Connected(source, target)
    assert [missing.resolve(schema_id) for schema_id in (100, 101, 102)] == [None] * 3
    assert len(caplog.messages) == 3


def test_an_unconverted_gap_passes() -> None:
    gap = ConvertedBatch(0, 4)
    (read,) = reader(Answers([Read(RANGE, (gap,))])).next(1) or ()
    assert read.converted_batches == (gap,)
