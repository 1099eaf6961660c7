"""A walk over a record in Protobuf before its library reads it, which makes room for all fields of each message in it.

A message within a record may take two bytes of it, and kilobytes of memory: as much as its type has fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kafka_ferry.schemas.fields.limits import MOST_STEPS, OBJECT_STEPS, record_budget
from kafka_ferry.schemas.fields.protobuf.wire import (
    END_GROUP,
    GROUP,
    LENGTH,
    content_bounds,
    varint,
)
from kafka_ferry.schemas.fields.record_schema import NotReadable

# Protobuf's own limit.
_MOST_NESTED: Final = 100
# A tag, and a value.
_LEAST_BYTES: Final = 2
_FIELDS_A_STEP: Final = 4


class ProtobufWalk:
    """Checks records of a message.

    Args:
        message: the message's descriptor.
        most_steps: the most that any message within it may take.
    """

    def __init__(self, message: Any, most_steps: int) -> None:
        self._root, self._most_steps = message, most_steps

    def check(self, record: bytes) -> None:
        """Does nothing if a record is neither nested too deep nor has too many values.

        Raises:
            NotReadable: it is or has, or it is no message.
        """
        if len(record) // _LEAST_BYTES * self._most_steps > MOST_STEPS:
            try:
                self._walk(record)
            except IndexError:
                raise NotReadable("it is cut off") from None

    def _walk(self, record: bytes) -> None:
        budget, at = record_budget(record), 0
        # The messages that it is within: their types, where they end, and the numbers of groups.
        within: list[tuple[Any, int, int | None]] = [(self._root, len(record), None)]
        while within:
            message, end, group = within[-1]
            if at == end and group is None:
                within.pop()
                continue
            tag, at = varint(record, at)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == END_GROUP and number == group:
                within.pop()
                continue
            field = message and message.fields_by_number.get(number)
            inner = field.message_type if field else None
            budget.spend(_steps(inner) if inner else OBJECT_STEPS)
            if wire_type == GROUP:
                within.append((inner, end, number))
            else:
                begin, stop = content_bounds(record, at, wire_type)
                if stop > end:
                    raise NotReadable(f"its byte {at} begins what ends outside of it")
                at = stop
                if inner and wire_type == LENGTH:
                    at = begin
                    within.append((inner, stop, None))
            if len(within) > _MOST_NESTED:
                raise NotReadable(f"it is nested deeper than {_MOST_NESTED}")


def most_steps(messages: Iterable[Any]) -> int:
    """The most that one of several messages takes."""
    return max(map(_steps, messages), default=OBJECT_STEPS)


def _steps(message: Any) -> int:
    """What a message takes: Protobuf's library has 8 bytes or more for each of its fields."""
    return OBJECT_STEPS + len(message.fields) // _FIELDS_A_STEP
