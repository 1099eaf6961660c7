"""Values of fields in Protobuf as JSON for Spark, and the other way round.

They are those of Spark's types, and not of Protobuf's own JSON, which writes numbers of 64 bits as texts.
"""

from __future__ import annotations

import base64
import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from kafka_ferry.schemas.fields.limits import MOST_NESTED, Budget, record_budget, schema_budget
from kafka_ferry.schemas.fields.record_schema import TEXT, NotReadable, quoted_name

_F: Final = FieldDescriptor
TIMESTAMP: Final = "google.protobuf.Timestamp"
"""The message that is a timestamp in Spark."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS: Final = 10**9
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")


class _Whole(NamedTuple):
    """A type of whole numbers: Spark's type, the smallest one, and the first one that is too large."""

    sql_type: str
    low: int
    high: int


_INT32: Final = _Whole("int", -(2**31), 2**31)
_UINT32: Final = _Whole("bigint", 0, 2**32)
_INT64: Final = _Whole("bigint", -(2**63), 2**63)
_UINT64: Final = _Whole("decimal(20,0)", 0, 2**64)
_WHOLE: Final = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), _INT32),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), _UINT32),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), _INT64),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), _UINT64),
}
_OTHERS: Final = {
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_BOOL: "boolean",
    _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "binary",
    _F.TYPE_ENUM: "string",
}
_NAMES: Final = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(_F).items()
    if name.startswith("TYPE_")
}
"""The types' names in .proto files."""


def is_map(field: Any) -> bool:
    """Whether a field is a map, which is written as repeated messages."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def is_message(field: Any) -> bool:
    """Whether a field is one message, whose fields have paths of their own."""
    within = field.message_type
    return within is not None and not field.is_repeated and within.full_name != TIMESTAMP


def sql_type(field: Any, total: Budget | None = None) -> str:
    """Spark's type of a field, as DDL; a message within itself is text, and so is a field of too many parts.

    Args:
        field: the field.
        total: the budget of the types of several fields.
    """
    try:
        return _sql_type(field, frozenset(), schema_budget(total))
    except NotReadable:
        return TEXT


def _sql_type(field: Any, above: frozenset[str], budget: Budget) -> str:
    """The same, within the messages ``above``."""
    budget.spend()
    if is_map(field):
        value = field.message_type.fields_by_name["value"]
        return f"map<string,{_sql_type(value, above, budget)}>"
    one = _type_of_one(field, above, budget)
    return f"array<{one}>" if field.is_repeated else one


def _type_of_one(field: Any, above: frozenset[str], budget: Budget) -> str:
    message = field.message_type
    if message is None:
        whole = _WHOLE.get(field.type)
        return whole.sql_type if whole else _OTHERS[field.type]
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name in above:
        return TEXT
    if len(above) >= MOST_NESTED:
        raise NotReadable(f"its schema is nested deeper than {MOST_NESTED}")
    above |= {message.full_name}
    for member in message.fields:
        budget.spend_name(member.name)
    fields = (
        f"{quoted_name(member.name)}: {_sql_type(member, above, budget)}"
        for member in message.fields
    )
    return f"struct<{', '.join(fields)}>"


def readable(message: Any, field: Any, budget: Budget | None = None) -> Any:
    """A field's value as what JSON has; None where it has presence and is absent.

    Raises:
        NotReadable: it has a value that Spark cannot have, or far more values than bytes: a message may have any
            number of fields that are not written.
    """
    budget = budget or record_budget(message.SerializePartialToString())
    budget.spend(1 + len(field.name))
    value = getattr(message, field.name)
    if is_map(field):
        of_value = field.message_type.fields_by_name["value"]
        # Protobuf's own order changes from one process to the next.
        return {
            _key_text(item): _readable_one(value[item], of_value, budget) for item in sorted(value)
        }
    if field.is_repeated:
        return [_readable_one(item, field, budget) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _readable_one(value, field, budget)


def _readable_one(value: Any, field: Any, budget: Budget) -> Any:
    message = field.message_type
    if message is not None:
        if message.full_name == TIMESTAMP:
            return _time_text(value)
        return {member.name: readable(value, member, budget) for member in message.fields}
    if field.type == _F.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if field.type == _F.TYPE_ENUM:
        # A number that the schema has no name for is its digits.
        enum_value = field.enum_type.values_by_number.get(value)
        text = enum_value.name if enum_value else str(value)
        budget.spend(len(text))
        return text
    if field.type == _F.TYPE_STRING and not isinstance(value, str):
        raise NotReadable(f"{field.name} is no text")
    return value


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _time_text(value: Any) -> str:
    """A timestamp with microseconds, which are Spark's smallest."""
    if not 0 <= value.nanos < _NANOS:
        raise NotReadable(f"a timestamp has {value.nanos} nanoseconds")
    try:
        moment = _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise NotReadable("a timestamp is not within the years 1 to 9999") from None
    return moment.isoformat()


def put(message: Any, field: Any, value: Any) -> None:
    """Give a field a value of JSON, which is not null; the message has had none.

    Raises:
        NotReadable: the field cannot have it.
    """
    if is_map(field):
        _put_map(getattr(message, field.name), field, value)
    elif field.is_repeated:
        if not isinstance(value, list):
            raise _unlike(field)
        values = getattr(message, field.name)
        for one in value:
            if field.message_type is not None:
                _fill(values.add(), one)
            else:
                values.append(_scalar(one, field))
    elif field.message_type is not None:
        within = getattr(message, field.name)
        within.SetInParent()
        _fill(within, value)
    else:
        setattr(message, field.name, _scalar(value, field))


def _put_map(values: Any, field: Any, value: Any) -> None:
    if not isinstance(value, dict):
        raise _unlike(field)
    of_key, of_value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    for text, one in value.items():
        key = _key(text, of_key)
        if of_value.message_type is not None:
            _fill(values[key], one)
        else:
            values[key] = _scalar(one, of_value)


def _fill(message: Any, value: Any) -> None:
    """Give a message that has nothing yet the fields of a JSON object."""
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == TIMESTAMP:
        message.seconds, message.nanos = _instant(value)
        return
    if not isinstance(value, dict):
        raise NotReadable(f"the value is no {descriptor.name}")
    for name, one in value.items():
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise NotReadable(f"{descriptor.name} has no field {name}")
        if one is None:
            continue
        chosen = field.containing_oneof and message.WhichOneof(field.containing_oneof.name)
        if chosen:
            raise NotReadable(f"the value has {chosen} and {name}, of which only one can be")
        put(message, field, one)
    for field in descriptor.fields:
        if field.is_required and not message.HasField(field.name):
            raise NotReadable(f"{field.name} is required")


def _key(text: str, field: Any) -> Any:
    if field.type == _F.TYPE_STRING:
        return text
    if field.type == _F.TYPE_BOOL:
        if text in ("true", "false"):
            return text == "true"
        raise _unlike(field)
    try:
        return _scalar(int(text), field)
    except ValueError:
        raise _unlike(field) from None


def _scalar(value: Any, field: Any) -> Any:
    whole = _WHOLE.get(field.type)
    if whole:
        if type(value) is int and whole.low <= value < whole.high:
            return value
    elif field.type in (_F.TYPE_FLOAT, _F.TYPE_DOUBLE):
        if type(value) in (int, Decimal) or value in _NO_NUMBERS:
            return _float_of(value, field)
    elif field.type == _F.TYPE_BOOL:
        if isinstance(value, bool):
            return value
    elif field.type == _F.TYPE_BYTES and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise _unlike(field) from None
    elif field.type == _F.TYPE_ENUM and isinstance(value, str):
        return _enum(value, field)
    elif field.type == _F.TYPE_STRING and isinstance(value, str):
        return _text(value, field)
    raise _unlike(field)


def _float_of(value: Any, field: Any) -> float:
    try:
        number = float(value)
        if field.type == _F.TYPE_FLOAT:
            struct.pack("<f", number)
    except OverflowError:
        raise _unlike(field) from None
    if math.isinf(number) and value not in _NO_NUMBERS:
        raise _unlike(field)
    return number


def _enum(value: str, field: Any) -> int:
    enum_value = field.enum_type.values_by_name.get(value)
    if enum_value:
        return int(enum_value.number)
    digits = value.removeprefix("-")
    if digits.isdecimal() and digits.isascii() and not field.enum_type.is_closed:
        number = int(value)
        if _INT32.low <= number < _INT32.high:
            return number
    raise _unlike(field)


def _text(value: str, field: Any) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _unlike(field) from None
    return value


def _instant(value: Any) -> tuple[int, int]:
    """The seconds and nanoseconds of a time as Spark writes it, with its zone."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise NotReadable("the value is no timestamp")
    since = moment - _EPOCH
    return since.days * 86_400 + since.seconds, since.microseconds * 1000


def _unlike(field: Any) -> NotReadable:
    of = field.message_type or field.enum_type
    kind = of.name if of is not None else _NAMES[field.type]
    return NotReadable(f"the value is no {'map' if is_map(field) else kind}")
