"""Dataclasses that are stored as JSON text and read back checked, and JSON texts of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreSchema, SchemaValidator, from_json

from kafka_ferry.errors import FerryError

_T = TypeVar("_T")
_CONTAINERS: Final = frozenset({"dict", "frozenset", "list", "set", "tuple"})
# About what a parsed object, list or member takes in memory. An object with one member has 8 bytes as text.
_WEIGHTS: Final = {"{": 550, "[": 350, ",": 45}
_ALWAYS_ALLOWED: Final = 128 * 1024 * 1024
# What a run writes has some seven, or 22 where it is a list of small numbers.
_MOST_A_BYTE: Final = 24
SMALL: Final = 1024 * 1024
"""Up to this length, a text may lack many fields: for each, pydantic makes objects of all that is to have it."""
_HEAVY: Final = "it has too many values for its length"
# What a schema says of values, which may look like schemas.
_NO_SCHEMAS: Final = frozenset({"default", "expected", "metadata", "serialization"})


def _stop_at_first_error(schema: Any) -> None:
    """Have a schema, and those in it, read no more of a container than its first wrong member."""
    if isinstance(schema, Mapping):
        # Of the fields of a model, one may have this name: what it has is no text.
        kind = schema.get("type")
        is_schema = isinstance(kind, str)
        if is_schema and kind in _CONTAINERS:
            schema["fail_fast"] = True  # type: ignore[index]
        for name, part in schema.items():
            if not (is_schema and name in _NO_SCHEMAS):
                _stop_at_first_error(part)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for part in schema:
            _stop_at_first_error(part)


def _first_error_validator(schema: CoreSchema) -> SchemaValidator:
    _stop_at_first_error(schema)
    # What classes in it have made before does not stop at the first error.
    return SchemaValidator(schema, _use_prebuilt=False)


def is_heavy(text: bytes | str) -> bool:
    """Whether a JSON text may take far more memory than its length explains."""
    weight = 0
    for sign, each in _WEIGHTS.items():
        weight += each * (text.count(sign) if isinstance(text, str) else text.count(sign.encode()))
    return weight > _ALWAYS_ALLOWED + _MOST_A_BYTE * len(text)


class FirstErrorOnly:
    """For a model of pydantic that reads foreign text: of a list or a mapping, only the first wrong member is an error.

    Pydantic collects all, each with a path of its own: some KB of empty objects would take gigabytes.
    """

    __slots__ = ()

    @classmethod
    def __pydantic_on_complete__(cls: Any) -> None:
        cls.__pydantic_validator__ = _first_error_validator(cls.__pydantic_core_schema__)


def reader_of(kind: type[_T]) -> TypeAdapter[_T]:
    """Pydantic's reader of a type, which tells errors as ``FirstErrorOnly`` does."""
    made: TypeAdapter[_T] = _made_reader(kind)
    return made


def _make_reader(kind: type) -> TypeAdapter[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    adapter.validator = _first_error_validator(adapter.core_schema)
    return adapter


# Building one takes longer than using it.
_made_reader: Callable[[type], TypeAdapter[Any]] = cache(_make_reader)


def read_checked(reader: TypeAdapter[_T], text: bytes | str) -> _T:
    """What a JSON text holds.

    Raises:
        ValueError: it is something else, a ``ValidationError`` where that is known, or takes too much memory.
    """
    if is_heavy(text):
        raise ValueError(_HEAVY)
    if len(text) <= SMALL:
        return reader.validate_json(text)
    return reader.validate_python(from_json(text))


def why_wrong(error: ValueError, *, places: bool = True) -> str:
    """What ``read_checked`` tells of a text: why it is wrong, and where, if that is known; without its values."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) if places else ""
    return f"{place}: {first['msg']}" if place else first["msg"]


class AsJson:
    """Gives a dataclass ``to_json`` and ``from_json``.

    Attributes:
        WHAT: what an object is, with its article, for the error about text that is not one.
    """

    __slots__ = ()
    WHAT: ClassVar[str]

    def to_json(self) -> str:
        """The object as JSON text."""
        return reader_of(type(self)).dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Reads what ``to_json`` wrote.

        Raises:
            FerryError: if the text is anything else.
        """
        try:
            return read_checked(reader_of(cls), text)
        except ValueError as error:
            raise FerryError(f"Not {cls.WHAT}: {why_wrong(error, places=False)}.") from error


def read_json(text: bytes | str) -> Any:
    """The content of a JSON text from outside.

    Raises:
        ValueError: it is none, by RFC 8259, is nested deeper than Python can follow, or has too many values.
    """
    if is_heavy(text):
        raise ValueError(_HEAVY)
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
