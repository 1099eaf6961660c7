"""Fields of a message are found and replaced as they are written, and the others' bytes stay."""

from __future__ import annotations

import pytest

from kafka_ferry.schemas.fields.protobuf.wire import replace_fields, wire_fields, with_content
from kafka_ferry.schemas.fields.record_schema import NotReadable

# Of every wire type, among them a group (4) with a group within, and a number that is longer than it needs to be.
NUMBER = b"\x08\x96\x01"
FIXED = b"\x11" + b"8" * 8
TEXT = b"\x1a\x02hi"
GROUP = b"\x23\x08\x01\x2b\x08\x02\x2c\x24"
SHORT = b"\x35" + b"4" * 4
LONG = b"\xb8\x81\x80\x00\x85\x80\x00"
MESSAGE = NUMBER + FIXED + TEXT + GROUP + SHORT + LONG


def test_fields_of_every_wire_type_are_found() -> None:
    found = wire_fields(MESSAGE)
    assert [it.number for it in found] == [1, 2, 3, 4, 6, 23]
    assert b"".join(MESSAGE[it.start : it.end] for it in found) == MESSAGE
    assert [MESSAGE[it.begin : it.stop] for it in found[:4]] == [
        *(NUMBER[1:], FIXED[1:], b"hi", b"\x08\x01\x2b\x08\x02\x2c")
    ]
    assert wire_fields(b"") == []


@pytest.mark.parametrize("cut", [1, 2, 4, 11, 13, 20, 23, 30, len(MESSAGE) - 1])
def test_what_is_cut_off_is_no_message(cut: int) -> None:
    with pytest.raises(NotReadable):
        wire_fields(MESSAGE[:cut])


@pytest.mark.parametrize(
    "message", [b"\x0f\x01", b"\x24", b"\x23\x2c", b"\x08" + b"\xff" * 11, b"\x1a\x05hi"]
)
def test_what_is_no_field_is_refused(message: bytes) -> None:
    with pytest.raises(NotReadable):
        wire_fields(message)


def test_a_field_gets_another_content_and_length() -> None:
    fields = {it.number: it for it in wire_fields(MESSAGE)}
    longer = b"x" * 300
    assert with_content(MESSAGE, fields[3], longer) == MESSAGE.replace(
        TEXT, b"\x1a\xac\x02" + longer
    )
    assert with_content(MESSAGE, fields[4], b"\x08\x07") == MESSAGE.replace(
        GROUP, b"\x23\x08\x07\x24"
    )


def test_a_field_takes_its_own_place_or_that_of_its_number() -> None:
    new = b"\x1a\x01!"
    assert replace_fields(TEXT + NUMBER + TEXT, {3}, 3, new) == new + NUMBER
    assert replace_fields(NUMBER + SHORT, {3}, 3, new) == NUMBER + new + SHORT
    assert replace_fields(NUMBER, {3}, 3, new) == NUMBER + new
    assert replace_fields(MESSAGE, {2, 3, 6}, 3, b"") == NUMBER + GROUP + LONG
