"""Says of each array, map and record in a union which of the union's types it has, before fastavro writes it.

For a value that does not say so, fastavro tries one type after the other down to the leaves, and again in each union on
the way: a record of a hundred bytes would take it years.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_ferry.schemas.fields.record_schema import NotReadable


class TypedUnions:
    """Names the types of values.

    Args:
        named_types: the types that a schema names, as fastavro has parsed them.
    """

    def __init__(self, named_types: Mapping[str, Any]) -> None:
        self._named = named_types

    def name_types(self, value: Any, node: Any) -> Any:
        """A value of a type, as fastavro reads it, which names only the types of records, enumerations and fixed."""
        return self._value(value, node, is_default=False)

    def name_default(self, default: Any, node: Any) -> Any:
        """A default of a type, in which a union's object is of the first record or map among its types.

        Raises:
            NotReadable: it is not of that type, or leaves out a field of a record.
        """
        try:
            return self._value(default, node, is_default=True)
        except (AttributeError, KeyError, StopIteration, TypeError) as error:
            raise NotReadable("a default does not fit its schema") from error

    def _value(self, value: Any, node: Any, *, is_default: bool) -> Any:
        node = self._resolve(node)
        if isinstance(node, list):
            return self._of_union(value, node, is_default=is_default)
        kind = kind_of(node)
        if kind == "array":
            return [self._value(item, node["items"], is_default=is_default) for item in value]
        if kind == "map":
            return {
                key: self._value(item, node["values"], is_default=is_default)
                for key, item in value.items()
            }
        if kind == "record":
            return {
                field["name"]: self._value(
                    value[field["name"]], field["type"], is_default=is_default
                )
                for field in node["fields"]
            }
        return value

    def _of_union(self, value: Any, union: list[Any], *, is_default: bool) -> Any:
        branches = [self._resolve(branch) for branch in union]
        if isinstance(value, tuple):
            name, value = value
            branch = next(one for one in branches if _name(one) == name)
        elif isinstance(value, (list, dict)):
            objects = ("record", "map") if is_default else ("map",)
            kinds = ("array",) if isinstance(value, list) else objects
            branch = next(one for one in branches if kind_of(one) in kinds)
        else:
            return value
        return _name(branch), self._value(value, branch, is_default=is_default)

    def _resolve(self, node: Any) -> Any:
        return type_of(node, self._named)


def type_of(node: Any, named_types: Mapping[str, Any]) -> Any:
    """A type, or the one of that name."""
    return named_types.get(node, node) if isinstance(node, str) else node


def kind_of(node: Any) -> str:
    """Which of Avro's types it is; an error is a record."""
    kind = node["type"] if isinstance(node, dict) else node
    return "record" if kind == "error" else str(kind)


def _name(node: Any) -> str:
    """A type's name as fastavro has it in front of a value: an array or a map has none of its own."""
    kind = kind_of(node)
    return kind if kind in ("array", "map") or not isinstance(node, dict) else str(node["name"])
