"""The fields of a message in Protobuf's wire format, found and replaced without touching the others' bytes.

https://protobuf.dev/programming-guides/encoding says what they look like.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from kafka_ferry.schemas.fields.record_schema import NotReadable

LENGTH: Final = 2
"""The wire type of what has a length: messages, texts and packed numbers."""
GROUP: Final = 3
"""The wire type that begins a group."""
_VARINT: Final = 0
END_GROUP: Final = 4
"""The wire type that ends one."""
_FIXED: Final = {1: 8, 5: 4}
_VARINT_BYTES: Final = 10


class WireField(NamedTuple):
    """A field as it is written, once.

    Attributes:
        number: the field's number.
        wire_type: how it is written.
        start: its first byte, that of its tag.
        begin: where its content begins.
        stop: where its content ends.
        end: where the next field begins.
    """

    number: int
    wire_type: int
    start: int
    begin: int
    stop: int
    end: int


def wire_fields(message: bytes) -> list[WireField]:
    """The fields of a message, in their order; those of a group are its content.

    Raises:
        NotReadable: it is no message.
    """
    try:
        return list(_fields(message, 0, None))
    except IndexError:
        raise NotReadable("it is cut off") from None


def with_content(message: bytes, field: WireField, content: bytes) -> bytes:
    """The message with another content of a field that has a length, or is a group."""
    after_tag = varint(message, field.start)[1]
    length = b"" if field.wire_type == GROUP else _encode(len(content))
    tag, rest = message[field.start : after_tag], message[field.stop :]
    return message[: field.start] + tag + length + content + rest


def replace_fields(message: bytes, gone: Collection[int], number: int, written: bytes) -> bytes:
    """The message without some fields, and with another one.

    Args:
        message: the message.
        gone: the numbers of the fields that go.
        number: that of the field that comes, in its own place, or before the first one with a greater number.
        written: it, with its tag; nothing if there is none.
    """
    fields = wire_fields(message)
    own = [field.start for field in fields if field.number == number]
    later = [field.start for field in fields if field.number > number]
    place = (own or later or [len(message)])[0]
    parts = [
        (field.start, message[field.start : field.end])
        for field in fields
        if field.number not in gone
    ]
    before = b"".join(part for start, part in parts if start < place)
    return before + written + b"".join(part for start, part in parts if start >= place)


def _fields(message: bytes, at: int, group: int | None) -> Iterator[WireField]:
    """The fields from a byte on, up to the end of the message, or that of a group, which comes last."""
    while at < len(message) or group is not None:
        start = at
        tag, at = varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        begin = at
        if wire_type == GROUP:
            *_, last = _fields(message, at, number)
            stop, at = last.start, last.end
        elif wire_type == END_GROUP and number == group:
            yield WireField(number, wire_type, start, begin, begin, at)
            return
        else:
            begin, at = content_bounds(message, at, wire_type)
            stop = at
        yield WireField(number, wire_type, start, begin, stop, at)


def content_bounds(message: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Where the content of a field begins and ends whose tag ends at a byte; not of a group.

    Raises:
        NotReadable: it is no field.
        IndexError: the message is cut off.
    """
    if wire_type == _VARINT:
        begin, end = at, varint(message, at)[1]
    elif wire_type in _FIXED:
        begin, end = at, at + _FIXED[wire_type]
    elif wire_type == LENGTH:
        length, begin = varint(message, at)
        end = begin + length
    else:
        raise NotReadable(f"no field begins before its byte {at}")
    if end > len(message):
        raise IndexError
    return begin, end


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The number without a sign at a byte, and where the next byte is."""
    number = 0
    for place in range(_VARINT_BYTES):
        byte = message[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise NotReadable(f"its byte {at} begins no number")


def _encode(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
