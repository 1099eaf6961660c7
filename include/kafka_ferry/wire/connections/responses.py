"""Decodes responses from a broker's bytes without trusting them.

kafka-python's compiled decoder trusts them: a varint may be as long as the frame (whose decoding then
takes hours), a field that reaches beyond the end is returned short, unread bytes are ignored, and null
is accepted where Kafka has none. Its other decoder asks a stream for each field, and the stream here
refuses to read beyond the end. That costs some 10 µs for each partition in a response, and nothing for
the bytes of its batches.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Final

from kafka_ferry.printable import excerpt

# A partition has some twenty; millions of tiny fields would become objects of 30 times their size.
_MAX_FIELDS: Final = 4_000_000
_SENTENCE: Final = "error_message"
_LONGEST_SENTENCE: Final = 2_000
# Kafka's own limit (``Short.MAX_VALUE``), which compact strings could exceed: a request could not name it again.
_LONGEST_STRING: Final = 32_767
# A character has four bytes at most.
_SURELY_SHORT: Final = _LONGEST_STRING // 4
# kafka-python returns the zero id, and operations that were not requested, as None.
_NONE_AT_TIMES: Final = frozenset({"uuid", "[]uuid", "bitfield"})


@cache
def response_class_of(request_class: Any) -> Any:
    """kafka-python's class of the responses to requests of a class.

    Its own registry may have lost that: it holds a class of each version weakly, and where two threads make
    one of a version at once, one of the two is collected (3.0.12).
    """
    module = sys.modules[request_class.__module__]
    return getattr(module, request_class.name.replace("Request", "Response"))


def decode_response(response_class: Any, version: int, body: memoryview) -> Any:
    """The response in ``body``.

    Args:
        response_class: kafka-python's class of it, for all versions.
        version: of the request.
        body: everything after the response's header.

    Raises:
        Exception: of many kinds (kafka-python's own, ``struct.error``, ``ValueError``), if the
            bytes are not such a response, or have more than that.
    """
    if response_class.name == "ApiVersionsResponse" and any(body[:2]):
        version = 0  # An error comes in the oldest version (KIP-511).
    fields = _Fields(body)
    flexible = response_class.flexible_version_q(version)
    response = response_class._struct.decode(
        fields, version=version, compact=flexible, tagged=flexible, data_class=response_class
    )
    if fields.left:
        raise ValueError(f"{fields.left} bytes after its end")
    _check(response, version)
    return response


class _Fields:
    """A stream that returns exactly what is asked for or raises, up to a limit of fields."""

    __slots__ = ("_at", "_body", "_reads")

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0
        self._reads = 0

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._body) - self._at

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, no fewer."""
        end = self._at + size
        self._reads += 1
        if not self._at <= end <= len(self._body):
            raise ValueError(f"a field of {size} bytes where {self.left} are left")
        if self._reads > _MAX_FIELDS:
            raise ValueError(f"more than {_MAX_FIELDS} fields")
        piece = self._body[self._at : end].tobytes()
        self._at = end
        return piece


def _check(message: Any, version: int) -> None:
    """Raise if a field is null that must not be: callers may loop over arrays. Shorten what people will read."""
    for field in message._struct.untagged_fields(version):
        value = getattr(message, field.name)
        if field.name == _SENTENCE and value and len(value) > _LONGEST_SENTENCE:
            setattr(message, field.name, excerpt(value, _LONGEST_SENTENCE))
        elif value is None:
            if field.type_str not in _NONE_AT_TIMES and not field.nullable_for_version_q(version):
                raise ValueError(f"{field.name} is null")
        elif field.is_struct():
            _check(value, version)
        elif field.is_struct_array():
            for entry in value:
                _check(entry, version)
        elif isinstance(value, str):
            _check_length(field.name, value)
        elif field.is_array() and field.type_str not in _NONE_AT_TIMES:
            if None in value:
                raise ValueError(f"an entry of {field.name} is null")
            for entry in value:
                if isinstance(entry, str):
                    _check_length(field.name, entry)


def _check_length(name: str, text: str) -> None:
    if len(text) > _SURELY_SHORT and len(text.encode()) > _LONGEST_STRING:
        raise ValueError(f"{name} has more than {_LONGEST_STRING:,} bytes")
