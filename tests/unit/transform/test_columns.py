"""The rows that expressions see of records."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import Record
from kafka_ferry.batches.record_format.content import Content, Header
from kafka_ferry.config.options.transform import TransformRule
from kafka_ferry.model import TopicPartition
from kafka_ferry.transform import Changer, Column, RecordRows, rows_of

PARTITION = TopicPartition("t", 3)
ANY = Changer(TransformRule(topics=("t",), where="size(headers) > 0"))
MARKED: tuple[Header, ...] = ((b"a", b"1"),)
ALIKE: list[frozenset[Column]] = [
    frozenset({"headers"}),
    frozenset({"header_list", "topic", "partition", "secrets"}),
]
OWN: list[frozenset[Column]] = [
    frozenset({"headers", column}) for column in ("offset", "timestamp", "key", "value")
]


def records_with(*headers: tuple[Header, ...]) -> list[Record]:
    return [
        (10 + place, 1_000 + place, b"\0", Content(b"k%d" % place, b"v%d" % place, it).encode())
        for place, it in enumerate(headers)
    ]


def rows(records: list[Record], columns: frozenset[Column], changer: Changer = ANY) -> RecordRows:
    return rows_of([(0, PARTITION, records, changer)], [columns])


@pytest.mark.parametrize("columns", ALIKE)
def test_records_with_the_same_headers_share_a_row(columns: frozenset[Column]) -> None:
    found = rows(records_with((), MARKED, (), MARKED * 2, MARKED), columns)

    assert found.headers == [(), MARKED, MARKED * 2]
    assert found.places == [0, 1, 0, 2, 1]
    assert (found.rules, found.partitions) == ([0] * 3, [PARTITION] * 3)
    assert found.keys == found.values == [None] * 3


@pytest.mark.parametrize("columns", [frozenset({"headers"}), frozenset({"headers", "value"})])
def test_only_headers_that_are_named_count(columns: frozenset[Column]) -> None:
    changer = Changer(TransformRule(topics=("t",), where="headers['a'] is null"))
    repeated = ((MARKED[0][0], b"0"),) * 100
    traced = records_with(
        *((*repeated, *MARKED, (b"trace", b"%d" % number)) for number in range(3))
    )

    found = rows(traced, columns, changer)

    assert found.headers == [MARKED] * (3 if "value" in columns else 1)
    assert found.places == ([0, 1, 2] if "value" in columns else [0, 0, 0])


@pytest.mark.parametrize("columns", OWN)
def test_each_record_has_its_own_row_where_expressions_use_what_is_its_own(
    columns: frozenset[Column],
) -> None:
    found = rows(records_with((), MARKED, ()), columns)

    assert found.places == [0, 1, 2]
    assert (found.offsets, found.timestamps) == ([10, 11, 12], [1_000, 1_001, 1_002])
    assert found.headers == [(), MARKED, ()]
    assert found.keys == ([b"k0", b"k1", b"k2"] if "key" in columns else [None] * 3)
    assert found.values == ([b"v0", b"v1", b"v2"] if "value" in columns else [None] * 3)


@pytest.mark.parametrize("columns", [*ALIKE, *OWN])
def test_nothing_is_seen_of_a_record_that_is_too_large(
    columns: frozenset[Column], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not fit into the JVM, and the task would end with all others of its executor."""
    monkeypatch.setattr("kafka_ferry.transform.record_limits.MOST_BYTES", 30)
    large = Content(b"k" * 10, b"v" * 10, ((b"a", b"1" * 10),)).encode()

    found = rows([(7, 1_000, b"\0", large), *records_with(MARKED)], columns)

    assert found.places == [0, 1]
    assert found.headers == [(), MARKED]
    assert found.keys[0] is found.values[0] is None


def test_without_headers_all_records_of_a_partition_share_a_row() -> None:
    found = rows(records_with((), MARKED, ()), frozenset({"topic"}))

    assert (found.headers, found.places) == ([()], [0, 0, 0])


def test_of_rules_that_use_other_columns_each_row_has_its_own() -> None:
    by_header: frozenset[Column] = frozenset({"headers"})
    by_value: frozenset[Column] = frozenset({"value"})
    records = records_with(MARKED, MARKED)

    found = rows_of(
        [(1, PARTITION, records, ANY), (0, PARTITION, records, ANY), (1, PARTITION, records, ANY)],
        [by_value, by_header],
    )

    assert found.rules == [1, 0, 0, 1]
    assert found.values == [None, b"v0", b"v1", None]
    assert found.places == [0, 0, 1, 2, 3, 3]
