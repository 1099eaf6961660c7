"""The content of a record: its key, value and headers, read and written.

Layout: ``org.apache.kafka.common.record.DefaultRecord``, from the key's length on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka_ferry.batches.record_format.header import MalformedBatch
from kafka_ferry.batches.record_format.varint import decode_varint, encode_varint

Header = tuple[bytes, bytes | None]
"""A header's name, which need not be UTF-8, and its value."""


class Content(NamedTuple):
    """A record's key, value and headers, in their order; names may repeat."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    def encoded(self) -> bytes:
        """The content as it stands in a record."""
        parts = [_sized(self.key), _sized(self.value), encode_varint(len(self.headers))]
        for name, value in self.headers:
            parts += (_sized(name), _sized(value))
        return b"".join(parts)


def read_content(content: bytes) -> Content:
    """What the content of a record holds.

    Raises:
        MalformedBatch: if it does not tell, or ends before or after.
    """
    key, at = _field(content, 0)
    value, at = _field(content, at)
    return Content(key, value, _headers(content, at))


def headers_of(content: bytes) -> tuple[Header, ...]:
    """The headers alone, which is quicker.

    Raises:
        MalformedBatch: as ``read_content``.
    """
    length, at = decode_varint(content, 0)
    length, at = decode_varint(content, at + max(length, 0))
    return _headers(content, at + max(length, 0))


def key_value_of(content: bytes) -> tuple[bytes | None, bytes | None]:
    """The key and the value alone, which is quicker.

    Raises:
        MalformedBatch: as ``read_content``.
    """
    key, at = _field(content, 0)
    return key, _field(content, at)[0]


def with_headers(content: bytes, more: Iterable[tuple[str, bytes]]) -> bytes:
    """The content with headers after its own, which need not be readable.

    Raises:
        MalformedBatch: if it does not tell where its headers begin.
    """
    at = 0
    for _ in ("key", "value"):
        length, at = decode_varint(content, at)
        at += max(length, 0)
    count, after = decode_varint(content, at)
    if count < 0:
        raise MalformedBatch(f"a record with {count} headers")
    added = [(name.encode(), value) for name, value in more]
    parts = [content[:at], encode_varint(count + len(added)), content[after:]]
    for name, value in added:
        parts += (_sized(name), _sized(value))
    return b"".join(parts)


def _headers(content: bytes, at: int) -> tuple[Header, ...]:
    count, at = decode_varint(content, at)
    if count < 0:
        raise MalformedBatch(f"a record with {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        name, at = _field(content, at)
        if name is None:
            raise MalformedBatch("a header without a name")
        value, at = _field(content, at)
        headers.append((name, value))
    if at != len(content):
        raise MalformedBatch(f"{len(content) - at} bytes after a record's headers")
    return tuple(headers)


def _field(content: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(content, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(content):
        raise MalformedBatch("a record that is cut off")
    return content[at:end], end


def _sized(field: bytes | None) -> bytes:
    return encode_varint(-1) if field is None else encode_varint(len(field)) + field
