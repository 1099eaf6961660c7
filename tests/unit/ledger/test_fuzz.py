"""Whatever lies in the ledger's topic is an entry or a ``LedgerError``, at once."""

import json
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import decode, encode
from kafka_ferry.ledger.record import Entry, LedgerError
from kafka_ferry.ledger.rows import SCHEMA, rows_of
from kafka_ferry.model.positions import PositionMetadata, position_of

from .entries import (
    a_copied_range,
    a_release,
    a_run,
    a_transaction,
    a_verification,
    an_applied,
)
from .test_record import APPLIED

WHERE = "ferry-ledger.primary.internal offset 12"
FULL = a_transaction(
    a_copied_range(10, 50, reasons={"aborted": 3}, rebuilt={"joined": 2}, lost=((10, 12),)),
    a_copied_range(7, 9, partition=3, leader_epoch=4, rewound_from=8),
)
ENTRIES = [a_run(), FULL, a_verification(9), a_release("primary.orders"), an_applied(), APPLIED]
VALUES = [encode(entry)[1] for entry in ENTRIES]

LARGE = ["1e400", "-1e400", "NaN", "Infinity", str(2**31), str(2**63), str(2**100), "9" * 5000]
WRONG = ["-1", "-2", "0.5", "1e3", "true", "null", '"1"', "[]", "{}"]
absurd_numbers = st.sampled_from(LARGE) | st.sampled_from(WRONG)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def decode_quickly(value: bytes) -> Entry | None:
    """The entry, None where it is none; anything but a ``LedgerError`` fails."""
    began = time.monotonic()
    try:
        return decode(value, at=WHERE)
    except LedgerError as error:
        assert error.message.startswith(WHERE)
        return None
    finally:
        assert time.monotonic() - began < 2


def assert_fits_the_table(entry: Entry) -> None:
    """An entry that was read can be stored: no number is larger than its column."""
    pa.Table.from_pylist(list(rows_of(12, entry)), SCHEMA)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a JSON value."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path] * bool(path) + [p for key, item in inside for p in places(item, (*path, key))]


def put(value: bytes, path: tuple[Any, ...], text: str) -> bytes:
    """The JSON ``value`` with ``text``, taken as it is, at ``path``."""
    fields = json.loads(value)
    at = fields
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = "<here>"
    return json.dumps(fields).replace('"<here>"', text).encode()


PLACES = [(value, path) for value in VALUES for path in places(json.loads(value))]


@given(st.sampled_from(PLACES), absurd_numbers | json_values.map(json.dumps))
def test_another_value_anywhere_is_refused_or_can_be_stored(
    place: tuple[bytes, tuple[Any, ...]], text: str
) -> None:
    if (entry := decode_quickly(put(*place, text))) is not None:
        assert_fits_the_table(entry)


NUMBERS = ["1e400", "NaN", str(2**63), str(2**100), "-2", "9" * 5000]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda it: it[:30])
def test_no_number_is_larger_than_kafkas(number: str) -> None:
    for value, path in PLACES:
        is_number = isinstance(at_path(value, path), int)
        entry = decode_quickly(put(value, path, number))
        assert entry is None or not is_number, (value, path)


def at_path(value: bytes, path: tuple[Any, ...]) -> object:
    found: Any = json.loads(value)
    for key in path:
        found = found[key]
    return found


@given(
    st.sampled_from(VALUES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=10)), max_size=4),
)
def test_changed_bytes_are_refused_or_can_be_stored(
    value: bytes, changes: list[tuple[float, int, bytes]]
) -> None:
    for where, cut, new in changes:
        at = int(where * len(value))
        value = value[:at] + new + value[at + cut :]
    if (entry := decode_quickly(value)) is not None:
        assert_fits_the_table(entry)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
@example(b"")
@example(b"\xff\xfe{}")
@example(b"[" * 1_000_000)
@example(b'{"a":' * 200_000 + b"1" + b"}" * 200_000)
@example(b'{"type":"run","writers":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
@example(b'{"type":"run","flow":"\\ud800"}')
def test_anything_else_is_refused(value: bytes) -> None:
    assert decode_quickly(value) is None


def test_of_two_fields_of_one_name_the_last_counts() -> None:
    value = VALUES[0].replace(b'"writers":4', b'"writers":4,"writers":7')
    entry = decode(value, at=WHERE)
    assert entry == a_run(writers=7)


@pytest.mark.parametrize(
    "contradiction",
    [
        {"end": 49},
        {"end": 0},
        {"records": 0},
        {"reasons": {}, "lost": ((0, 1),)},
        {"segments": (Segment(900, 5, 40), Segment(0, 5, 1))},
    ],
)
def test_an_entry_that_contradicts_itself_is_read(contradiction: dict[str, Any]) -> None:
    """The verification says which range it is; an error here would stop copying for good."""
    entry = a_transaction(a_copied_range(10, 50).model_copy(update=contradiction))
    assert decode(encode(entry)[1], at=WHERE) == entry


def test_a_count_below_zero_could_hide_a_contradiction() -> None:
    entry = a_transaction(a_copied_range(0, 10, records=15))
    value = encode(entry)[1].replace(b'"reasons":{}', b'"reasons":{"aborted":-5}')
    with pytest.raises(LedgerError, match=r"ranges\.0\.reasons\.aborted"):
        decode(value, at=WHERE)


METADATA = PositionMetadata("id", "remote id", "run-1", 1_700_000_000_000).encode()


@given(
    st.text()
    | json_values.map(json.dumps)
    | st.tuples(st.sampled_from(places(json.loads(METADATA))), absurd_numbers).map(
        lambda change: put(METADATA.encode(), *change).decode()
    )
)
@example("[" * 100_000)
@example("\ud800")
def test_what_lies_beside_a_position_is_read_or_nothing(text: str) -> None:
    known = PositionMetadata.decode(text)
    position = position_of(7, text)
    assert position.offset == 7
    assert (position.topic_id == "") or known is not None
