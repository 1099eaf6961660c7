"""Ids change, and nothing else does."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    ConvertedBatch,
    MalformedBatch,
    Rebuilt,
    TopicLimits,
    converted_batches,
    records_of,
)
from kafka_ferry.batches.record_format.content import read_content
from kafka_ferry.batches.record_format.records import packed_batch
from kafka_ferry.model.ranges import IdPart
from kafka_ferry.schemas.ids import FlowSchemas, MirroredSchema
from kafka_ferry.schemas.translate import MOST_UNKNOWN, IdBytes, TranslatedBatch, with_target_ids
from tests.support.records.batches import CODECS, Record, a_batch, consumed

ONE, TWO = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
KNOWN = FlowSchemas(
    (
        MirroredSchema(7, 70_000, "a", 1, ONE, TWO),
        MirroredSchema(8, 8, "a", 2),
    )
)
LIMITS = TopicLimits(join_below=0)


def framed(number: int, rest: bytes = b"rest") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + rest


def a_converted(records: list[Record], **options: Any) -> ConvertedBatch:
    batch = a_batch(records, at=10, **options)
    (converted,) = converted_batches(batch, AbortFilter(()), 10, 10 + len(consumed(batch)), LIMITS)
    return converted


def translated(
    converted: ConvertedBatch,
    *parts: IdPart,
    limits: TopicLimits = LIMITS,
    asked: list[int | str] | None = None,
) -> TranslatedBatch:
    def resolve(found: int | str) -> None:
        (asked if asked is not None else []).append(found)

    return with_target_ids(converted, parts or ("value",), IdBytes(KNOWN, resolve), limits)


def contents(found: TranslatedBatch) -> list[tuple[Any, ...]]:
    return [(it[0], it[1], *read_content(it[3])) for of in found.converted for it in records_of(of)]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_only_the_id_changes_whatever_the_codec(codec: int) -> None:
    records = [
        Record(1_000 + i, b"k%d" % i, framed(7, b"x" * i), (("h", b"v"), ("n", None)))
        for i in range(300)
    ]
    converted = a_converted(records, codec=codec, base_timestamp=990)

    found = translated(converted)

    assert contents(found) == [
        (10 + i, r.timestamp, r.key, framed(70_000, b"x" * i), ((b"h", b"v"), (b"n", None)))
        for i, r in enumerate(records)
    ]
    (became,) = found.converted
    assert became.batch
    assert became.batch.crc_matches
    assert became.batch.header.codec == codec
    assert became.rebuilt == {Rebuilt.SCHEMA_IDS: 1}
    assert (became.start, became.end, became.runs) == (10, 310, converted.runs)


def test_a_batch_in_which_no_id_changes_is_passed_on_as_it_was() -> None:
    values = [framed(8), b"", None, b"\0\0\0\7", b"{}", b"\1" + framed(7)]
    converted = a_converted([Record(value=it) for it in values])

    assert translated(converted).converted == (converted,)
    assert translated(converted).converted[0] is converted
    assert not translated(converted).unknown


def test_ids_change_in_the_parts_that_have_them() -> None:
    converted = a_converted([Record(key=framed(7), value=framed(7))])
    new, old = framed(70_000), framed(7)
    assert [it[2:4] for it in contents(translated(converted, "key"))] == [(new, old)]
    assert [it[2:4] for it in contents(translated(converted, "value"))] == [(old, new)]
    assert [it[2:4] for it in contents(translated(converted, "key", "value"))] == [(new, new)]


def test_an_id_in_a_header_changes_and_what_the_value_begins_with_is_none() -> None:
    guid = b"\1" + uuid.UUID(ONE).bytes + b"\2\4"
    records = [
        Record(value=framed(7), headers=(("__value_schema_id", framed(7, b"")), ("x", b"y"))),
        Record(value=framed(7), headers=(("__value_schema_id", guid),)),
        Record(value=framed(7), headers=(("__key_schema_id", framed(7, b"")),)),
        Record(value=framed(7), headers=(("__value_schema_id", None),)),
        Record(value=framed(7), headers=(("__value_schema_id", b"\0\0"),)),
    ]

    found = contents(translated(a_converted(records)))

    assert [it[3] for it in found] == [framed(7)] * 2 + [framed(70_000)] * 3
    assert [it[4][0][1] for it in found] == [
        framed(70_000, b""),
        b"\1" + uuid.UUID(TWO).bytes + b"\2\4",
        framed(7, b""),
        None,
        b"\0\0",
    ]


def test_a_record_with_an_unknown_id_stays_as_it_is_and_is_named_once() -> None:
    records = [
        Record(key=framed(7), value=framed(7)),
        Record(key=framed(7), value=framed(9)),
        Record(key=framed(9), value=framed(7)),
        Record(headers=(("__value_schema_id", b"\1" + uuid.UUID(int=5).bytes),)),
    ]
    asked: list[int | str] = []

    found = translated(a_converted(records), "key", "value", asked=asked)

    assert found.unknown == {11: 9, 12: 9, 13: str(uuid.UUID(int=5))}
    assert asked == [9, str(uuid.UUID(int=5))]
    new = framed(70_000)
    assert [it[2:4] for it in contents(found)] == [
        (new, new),
        (framed(7), framed(9)),
        (framed(9), framed(7)),
        (b"key", b"value"),
    ]


def test_an_id_that_the_registry_tells_is_used() -> None:
    converted = a_converted([Record(value=framed(9))])
    found = with_target_ids(converted, ("value",), IdBytes(KNOWN, lambda _: 90), LIMITS)
    assert [it[3] for it in contents(found)] == [framed(90)]


def test_a_batch_that_its_codec_makes_too_large_is_split() -> None:
    values = [framed(7, bytes((i * 37 + j * j) % 256 for j in range(300))) for i in range(40)]
    converted = a_converted([Record(value=it) for it in values], codec=CODECS["zstd"])

    found = translated(converted, limits=TopicLimits(max_batch_bytes=2_000, join_below=0))

    assert len(found.converted) > 1
    assert sum(sum(it.rebuilt.values()) for it in found.converted) == 1
    assert [it[0] for it in contents(found)] == [*range(10, 50)]
    assert (found.converted[0].start, found.converted[-1].end) == (10, 50)


def test_records_that_are_cut_off_are_told() -> None:
    converted = a_converted([Record(value=framed(7))] * 3)
    assert converted.batch
    for size in range(len(converted.batch.payload)):
        header = converted.batch.header
        cut = packed_batch(
            converted.batch.payload[:size],
            0,
            records=3,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
        )
        with pytest.raises(MalformedBatch):
            translated(ConvertedBatch(10, 13, cut, ((10, 3),)))


FIELD = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.builds(framed, st.sampled_from([7, 8, 9]), st.binary(max_size=300)),
)


@given(st.lists(st.builds(Record, st.integers(0, 2**40), FIELD, FIELD), min_size=1, max_size=20))
def test_it_does_what_reading_record_by_record_does(records: list[Record]) -> None:
    def expected(field: bytes | None) -> bytes | None:
        return framed(70_000, field[5:]) if field and field.startswith(framed(7, b"")) else field

    def is_unknown(field: bytes | None) -> bool:
        return (
            bool(field)
            and field is not None
            and len(field) >= 5
            and field[0] == 0
            and (field[:5] not in (framed(7, b""), framed(8, b"")))
        )

    found = translated(a_converted(records), "key", "value")

    unknown = [is_unknown(it.key) or is_unknown(it.value) for it in records]
    assert sorted(found.unknown) == [10 + i for i, it in enumerate(unknown) if it]
    assert [it[2:4] for it in contents(found)] == [
        (it.key, it.value) if left else (expected(it.key), expected(it.value))
        for it, left in zip(records, unknown, strict=True)
    ]


def test_a_producer_cannot_have_a_registry_asked_for_each_record() -> None:
    asked: list[int | str] = []
    ids = IdBytes(KNOWN, asked.append)
    for number in range(100, 100 + 3 * MOST_UNKNOWN):
        assert ids.of(number.to_bytes(4, "big")) is None
    assert len(asked) == MOST_UNKNOWN
    assert ids.of(b"\0\0\0\7") == (70_000).to_bytes(4, "big")
