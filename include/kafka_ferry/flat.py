"""Dataclasses that are made of others, and are stored and tabulated as if they were one.

A field whose type is a dataclass is a *part*: its values count as the whole's own. A field that counts by
the members of an enumeration, as a ``Counter[Reason]``, is a number for each member, by the member's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import EnumMeta
from functools import cache, partial
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Final, get_args, get_type_hints

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

Column = Callable[[Any], Any]
"""Gives a value of an object."""

_Composition = tuple[dict[str, type], dict[str, dict[str, Any]]]


class Flat:
    """Gives a dataclass a flat stored form.

    Attributes:
        STORED: derived values that are stored as well.
        NESTED: fields that are dataclasses and no parts: they are stored as they are.
    """

    __slots__ = ()
    STORED: ClassVar[tuple[str, ...]] = ()
    NESTED: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        stored = core_schema.typed_dict_schema(_stored_fields(cls, handler))
        composed = core_schema.no_info_after_validator_function(partial(_compose, cls), stored)
        # JSON is read and written by fields, so that a large object is never a tree of Python's.
        return core_schema.json_or_python_schema(
            composed,
            core_schema.union_schema([core_schema.is_instance_schema(cls), composed]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                flat_values, return_schema=stored
            ),
        )


def _stored_fields(
    kind: type, handler: GetCoreSchemaHandler
) -> dict[str, core_schema.TypedDictField]:
    """By name, the values of the stored form."""
    parts, counts = _stored_composition(kind)
    hints = get_type_hints(kind, include_extras=True)
    stored = dict.fromkeys(_derived_names(kind), _optional(core_schema.any_schema()))
    for field in fields(kind):
        if field.name in parts:
            stored |= _stored_fields(parts[field.name], handler)
        elif field.name in counts:
            stored |= dict.fromkeys(counts[field.name], _optional(core_schema.int_schema()))
        else:
            stored[field.name] = core_schema.typed_dict_field(
                handler.generate_schema(hints[field.name]),
                required=field.default is MISSING and field.default_factory is MISSING,
            )
    return stored


def _optional(schema: core_schema.CoreSchema) -> core_schema.TypedDictField:
    return core_schema.typed_dict_field(schema, required=False)


def _compose(kind: Any, values: Mapping[str, Any]) -> Any:
    """An object from the values of its stored form."""
    parts, counts = _stored_composition(kind)
    arguments = {}
    for name in (field.name for field in fields(kind)):
        if name in parts:
            arguments[name] = _compose(parts[name], values)
        elif name in counts:
            members = counts[name].items()
            arguments[name] = Counter({one: values[key] for key, one in members if values.get(key)})
        elif name in values:
            arguments[name] = values[name]
    return kind(**arguments)


def flat_values(whole: Any) -> dict[str, Any]:
    """The values of an object's stored form, by their names."""
    parts, counts = _stored_composition(type(whole))
    values = {name: getattr(whole, name) for name in _derived_names(type(whole))}
    for name in (field.name for field in fields(whole)):
        value = getattr(whole, name)
        if name in parts:
            values |= flat_values(value)
        elif name in counts:
            values |= {key: value.get(one, 0) for key, one in counts[name].items()}
        else:
            values[name] = value
    return values


def _derived_names(kind: type) -> tuple[str, ...]:
    return kind.STORED if issubclass(kind, Flat) else ()


def _stored_composition(kind: type) -> _Composition:
    """``_composition`` for the stored form: a value that is not ``Flat`` is stored as it is."""
    return _composition(kind) if issubclass(kind, Flat) else ({}, {})


def _columns_of(kind: type) -> Mapping[str, Column]:
    """By name, the values of a dataclass: the stored ones, and those that are derived from them."""
    parts, counts = _composition(kind)
    columns: dict[str, Column] = {}
    for name in (field.name for field in fields(kind)):
        inner = dict(columns_of(parts[name])) if name in parts else {}
        inner |= {key: itemgetter(one) for key, one in counts.get(name, {}).items()}
        of_it = attrgetter(name)
        columns |= {key: _after(of_it, value) for key, value in inner.items()} or {name: of_it}
    derived = (name for name, value in vars(kind).items() if isinstance(value, property))
    return columns | {name: attrgetter(name) for name in derived}


columns_of: Final[Callable[[type], Mapping[str, Column]]] = cache(_columns_of)


def _after(part: Column, value: Column) -> Column:
    return lambda whole: value(part(whole))


def _find_composition(kind: type) -> _Composition:
    """The fields that are parts, with their types; and those that count, with what, by its name."""
    hints = get_type_hints(kind)
    nested = kind.NESTED if issubclass(kind, Flat) else ()
    parts: dict[str, type] = {}
    counts: dict[str, dict[str, Any]] = {}
    for name in (field.name for field in fields(kind)):
        counted, *_ = *get_args(hints[name]), None
        if name in nested:
            continue
        if is_dataclass(hints[name]):
            parts[name] = hints[name]
        elif isinstance(counted, EnumMeta):
            counts[name] = {str(one.name).lower(): one for one in list[Any](counted)}
    return parts, counts


_composition: Final[Callable[[type], _Composition]] = cache(_find_composition)
