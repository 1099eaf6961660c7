"""The content of a record: its key, value and headers, read and written.

Layout: ``org.apache.kafka.common.record.DefaultRecord``, from the key's length on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from kafka_ferry.batches.record_format.header import MalformedBatch
from kafka_ferry.batches.record_format.varint import SMALL, decode_varint, encode_varint

_NONE: Final = encode_varint(-1)
_SMALL: Final = len(SMALL)

Header = tuple[bytes, bytes | None]
"""A header's name, which need not be UTF-8, and its value."""


class Content(NamedTuple):
    """A record's key, value and headers, in their order; names may repeat."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    def encode(self) -> bytes:
        """The content as it stands in a record."""
        return join_content(self.key, self.value, encoded_headers(self.headers))


def read_content(content: bytes) -> Content:
    """What the content of a record holds.

    Raises:
        MalformedBatch: if it does not tell, or ends before or after.
    """
    key, value, headers = divide_content(content)
    return Content(key, value, read_headers(headers))


def divide_content(content: bytes) -> tuple[bytes | None, bytes | None, bytes]:
    """The key, the value, and the headers as they are encoded.

    Raises:
        MalformedBatch: as ``read_content``, but for what is wrong with the headers.
    """
    key, at = _field(content, 0)
    value, at = _field(content, at)
    return key, value, content[at:]


def join_content(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """The content with that key, that value, and headers as they are encoded."""
    return _with_size(key) + _with_size(value) + headers


def key_value_of(content: bytes) -> tuple[bytes | None, bytes | None]:
    """The key and the value alone, which is quicker.

    Raises:
        MalformedBatch: as ``divided``.
    """
    key, at = _field(content, 0)
    return key, _field(content, at)[0]


def headers_of(content: bytes) -> bytes:
    """The headers alone, as they are encoded.

    Raises:
        MalformedBatch: if the content does not tell where they begin.
    """
    return content[_headers_at(content) :]


def with_headers(content: bytes, more: Iterable[tuple[str, bytes]]) -> bytes:
    """The content with headers after its own, which need not be readable.

    Raises:
        MalformedBatch: if it does not tell where its headers begin.
    """
    at = _headers_at(content)
    count, after = decode_varint(content, at)
    if count < 0:
        raise MalformedBatch(f"a record with {count} headers")
    added = [(name.encode(), value) for name, value in more]
    parts = [content[:at], encode_varint(count + len(added)), content[after:]]
    for name, value in added:
        parts += (_with_size(name), _with_size(value))
    return b"".join(parts)


def encoded_headers(headers: Collection[Header]) -> bytes:
    """Headers as they stand in a record: how many they are, and each one's name and value."""
    parts = [_number(len(headers))]
    for name, value in headers:
        parts += (_with_size(name), _with_size(value))
    return b"".join(parts)


def read_headers(encoded: bytes) -> tuple[Header, ...]:
    """The headers that are encoded so.

    Raises:
        MalformedBatch: as ``read_content``.
    """
    return tuple(each_header(encoded))


def each_header(encoded: bytes) -> Iterator[Header]:
    """The headers one after the other: all together take some forty times as much memory.

    Raises:
        MalformedBatch: as ``read_content``.
    """
    count, at = decode_varint(encoded, 0)
    if count < 0:
        raise MalformedBatch(f"a record with {count} headers")
    for _ in range(count):
        name, at = _field(encoded, at)
        if name is None:
            raise MalformedBatch("a header without a name")
        value, at = _field(encoded, at)
        yield name, value
    if at != len(encoded):
        raise MalformedBatch(f"{len(encoded) - at} bytes after a record's headers")


def header_count(content: bytes) -> int:
    """How many headers a record says that it has.

    Raises:
        MalformedBatch: if it does not tell.
    """
    return decode_varint(content, _headers_at(content))[0]


def _headers_at(content: bytes) -> int:
    length, at = decode_varint(content, 0)
    length, at = decode_varint(content, at + max(length, 0))
    return at + max(length, 0)


def _field(content: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(content, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(content):
        raise MalformedBatch("a record that is cut off")
    return content[at:end], end


def _with_size(field: bytes | None) -> bytes:
    return _NONE if field is None else _number(len(field)) + field


def _number(value: int) -> bytes:
    return SMALL[value] if value < _SMALL else encode_varint(value)
