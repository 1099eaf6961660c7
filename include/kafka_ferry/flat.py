"""Dataclasses that are made of others, and are stored and tabulated as if they were one.

A field whose type is a dataclass is a *part*: its values count as the whole's own. A field that counts by
the members of an enumeration, as a ``Counter[Reason]``, is a number for each member, by the member's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import EnumMeta
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Final, get_args, get_type_hints

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

Column = Callable[[Any], Any]
"""Gives a value of an object."""


class Flat:
    """Gives a dataclass a flat stored form.

    Attributes:
        STORED: derived values that are stored as well.
    """

    __slots__ = ()
    STORED: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        parts, counts = _composition(cls)

        def nested(stored: Any) -> Any:
            if not isinstance(stored, dict):
                return stored
            # A part takes what it knows of the whole.
            found = stored | dict.fromkeys(parts, stored)
            for name, members in counts.items():
                found[name] = {one: stored[key] for key, one in members.items() if stored.get(key)}
            return found

        def flat(whole: Flat, serialize: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
            found = {name: getattr(whole, name) for name in cls.STORED}
            for name, value in serialize(whole).items():
                if name in counts:
                    found |= {key: value.get(one, 0) for key, one in counts[name].items()}
                else:
                    found |= value if name in parts else {name: value}
            return found

        made = handler(kind)
        return core_schema.no_info_before_validator_function(
            nested,
            made,
            serialization=core_schema.wrap_serializer_function_ser_schema(flat, schema=made),
        )


def _columns_of(kind: type) -> Mapping[str, Column]:
    """By name, the values of a dataclass: the stored ones, and those that are derived from them."""
    parts, counts = _composition(kind)
    found: dict[str, Column] = {}
    for name in (field.name for field in fields(kind)):
        inner = dict(columns_of(parts[name])) if name in parts else {}
        inner |= {key: itemgetter(one) for key, one in counts.get(name, {}).items()}
        of_it = attrgetter(name)
        found |= {key: _after(of_it, value) for key, value in inner.items()} or {name: of_it}
    derived = (name for name, value in vars(kind).items() if isinstance(value, property))
    return found | {name: attrgetter(name) for name in derived}


columns_of: Final[Callable[[type], Mapping[str, Column]]] = cache(_columns_of)


def _after(part: Column, value: Column) -> Column:
    return lambda whole: value(part(whole))


def _composition(kind: type) -> tuple[dict[str, type], dict[str, dict[str, Any]]]:
    """The fields that are parts, with their types; and those that count, with what, by its name."""
    hints = get_type_hints(kind)
    parts: dict[str, type] = {}
    counts: dict[str, dict[str, Any]] = {}
    for name in (field.name for field in fields(kind)):
        counted, *_ = *get_args(hints[name]), None
        if is_dataclass(hints[name]):
            parts[name] = hints[name]
        elif isinstance(counted, EnumMeta):
            counts[name] = {str(one.name).lower(): one for one in list[Any](counted)}
    return parts, counts
