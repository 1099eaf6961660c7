"""Decimals in Avro: a type's digits, and a value's bytes, big-endian and in two's complement (Avro's specification)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, Final

from kafka_ferry.schemas.fields.record_schema import NotReadable

# Spark's own limit.
_MOST_DIGITS: Final = 38
# Python's own context rounds to 28 digits.
_EXACT: Final = Context(prec=3 * _MOST_DIGITS, traps=[Inexact, InvalidOperation])


def is_decimal(node: Any) -> bool:
    """Whether a type is a decimal; what a schema says wrongly of one counts for nothing (Avro's specification)."""
    if not isinstance(node, dict) or node.get("logicalType") != "decimal":
        return False
    precision, scale = node.get("precision"), node.get("scale", 0)
    return (
        type(precision) is type(scale) is int
        and 0 <= scale <= precision <= _MOST_DIGITS
        and precision > 0
    )


def decimal_of(value: bytes, node: Mapping[str, Any]) -> Decimal:
    """The number that a value's bytes stand for.

    Raises:
        NotReadable: it has more digits than its type says.
    """
    unscaled = int.from_bytes(value, "big", signed=True)
    # To write a number takes the square of its length.
    if abs(unscaled) >= 10 ** node["precision"]:
        raise NotReadable("a decimal has more digits than its schema says")
    return Decimal(unscaled).scaleb(-node.get("scale", 0), _EXACT)


def unscaled_bytes(value: Any, node: Mapping[str, Any]) -> bytes:
    """The bytes of a number of JSON.

    Raises:
        NotReadable: it is none, or has other digits than the type.
    """
    try:
        number = Decimal(str(value)).scaleb(node.get("scale", 0), _EXACT)
    except DecimalException:
        raise NotReadable("the value is no decimal, or has too many digits") from None
    if isinstance(value, bool) or not number.is_finite() or number != number.to_integral_value():
        raise NotReadable("the value is no decimal of that scale")
    if number.adjusted() >= node["precision"]:
        raise NotReadable("the value has more digits than its decimal")
    whole = int(number)
    size = node.get("size") or max(1, math.ceil((whole.bit_length() + 1) / 8))
    return whole.to_bytes(size, "big", signed=True)
