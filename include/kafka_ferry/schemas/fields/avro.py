"""Fields of records in Avro: read as JSON for expressions, changed, and written again under the writer's schema.

A record is decoded without logical types, so that nothing of it is lost: a date is its days, a timestamp its
milliseconds. Only a decimal is read as one, since its bytes say nothing. Whatever else a record holds stays byte
for byte: one that would be written otherwise than its producer did is refused.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from kafka_ferry.batches.rule_counts import FieldCounts
from kafka_ferry.schemas.fields.avro_decimals import decimal_of, is_decimal, unscaled_bytes
from kafka_ferry.schemas.fields.avro_unions import TypedUnions, kind_of, type_of
from kafka_ferry.schemas.fields.avro_walk import AvroWalk
from kafka_ferry.schemas.fields.limits import (
    MOST_BRANCHES,
    Budget,
    check_size,
    record_budget,
    schema_budget,
    types_budget,
)
from kafka_ferry.schemas.fields.record_schema import (
    DEEPEST,
    TEXT,
    Names,
    NotReadable,
    Reference,
    SchemaField,
    load_json,
    quoted_name,
)
from kafka_ferry.schemas.registered import RegisteredSchema

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
_LONGEST_DEFAULT: Final = 1_000
_BOUNDS: Final = {"int": 2**31, "long": 2**63}


class AvroSchema:
    """A ``RecordSchema`` of Avro.

    Args:
        schema: the schema.
        references: those that it refers to, each after its own.

    Raises:
        NotReadable: it is not a schema.
    """

    def __init__(self, schema: RegisteredSchema, references: Collection[Reference]) -> None:
        # Only flows with such records need it.
        import fastavro  # noqa: PLC0415

        self._fastavro = fastavro
        self._named: dict[str, Any] = {}
        self._root: Any
        self._types: dict[int, str] = {}
        self._types_budget = types_budget()
        self._is_long: dict[int, bool] = {}
        self._unions = TypedUnions(self._named)
        plain: dict[str, Any] = {}
        try:
            # What two schemas refer to by other names is one schema here.
            referred = {reference.schema.at: reference.schema for reference in references}
            for one in (*referred.values(), schema):
                text = json.loads(one.text)
                check_size(text)
                self._root = fastavro.parse_schema(text, named_schemas=self._named)
                self._codec = fastavro.parse_schema(_without_logical(text), named_schemas=plain)
            self._walk = AvroWalk(self._codec, plain)
            if self._walk.widest > MOST_BRANCHES:
                raise NotReadable(f"a union has more than {MOST_BRANCHES} types")
        except Exception as error:
            raise NotReadable(f"{schema.at} is no schema of Avro: {error}") from error

    def prefix_size(self, _: bytes) -> int:
        """See ``RecordSchema``."""
        return 0

    def fields(self, words: Collection[str]) -> dict[Names, SchemaField]:
        """See ``RecordSchema``."""
        return dict(self._fields(self._root, words, (), schema_budget()))

    def as_json(self, payload: bytes, names: Collection[str]) -> bytes:
        """See ``RecordSchema``."""
        record, budget = self._decode(payload), record_budget(payload)
        types = {field["name"]: field["type"] for field in self._root["fields"]}
        values = {
            name: self._readable(record[name], types[name], budget)
            for name in names
            if name in types
        }
        return json.dumps(values).encode()

    def change(
        self,
        payload: bytes,
        changes: Mapping[Names, str | None],
        counts: FieldCounts | None = None,
    ) -> bytes:
        """See ``RecordSchema``."""
        counts = counts or FieldCounts()
        record = self._decode(payload)
        if self._encode(record) != payload:
            raise NotReadable("it is not written as Avro's libraries write it")
        for names, value in changes.items():
            counts.changed[names] += self._change(record, self._root, names, value)
        return self._encode(record)

    def _decode(self, payload: bytes) -> dict[str, Any]:
        self._walk.check(payload)
        stream = io.BytesIO(payload)
        try:
            decoded = self._fastavro.schemaless_reader(
                stream, self._codec, None, return_named_type=True
            )
        except Exception as error:
            raise NotReadable(
                f"it does not fit its schema: {error or type(error).__name__}"
            ) from error
        if stream.read(1):
            raise NotReadable("it does not fit its schema: more follows")
        if not isinstance(decoded, dict) or kind_of(self._root) != "record":
            raise NotReadable("its schema is no record")
        return decoded

    def _encode(self, record: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        try:
            if self._walk.has_unnamed_types:
                record = self._unions.name_types(record, self._root)
            self._fastavro.schemaless_writer(stream, self._codec, record)
        except Exception as error:
            # Its text would quote the record, and all of the schema.
            raise NotReadable(f"it cannot be written again: {type(error).__name__}") from error
        return stream.getvalue()

    def _change(self, record: dict[str, Any], node: Any, names: Names, value: str | None) -> bool:
        """Give a field another value; whether it had a different one."""
        name, *below = names
        field = next((candidate for candidate in node["fields"] if candidate["name"] == name), None)
        if field is None:
            if value not in (None, "null"):
                raise NotReadable(f"its schema has no field {name}")
            return False
        if not below:
            before = record[name]
            record[name] = (
                self._default(field)
                if value is None
                else self._avro_value(
                    load_json(value), field["type"], record_budget(value.encode())
                )
            )
            return bool(before != record[name])
        within = _named_value(record[name])
        if within is None:
            return False
        inner = self._branch(record[name], field["type"])
        if kind_of(inner) != "record":
            raise NotReadable(f"{name} is no record")
        return self._change(within, inner, tuple(below), value)

    def _default(self, field: Mapping[str, Any]) -> Any:
        if "default" not in field:
            raise NotReadable(f"{field['name']} has no default")
        default = field["default"]
        # Every record of some bytes would get it.
        if id(field) not in self._is_long:
            self._is_long[id(field)] = len(str(default)) > _LONGEST_DEFAULT
        if self._is_long[id(field)]:
            raise NotReadable(
                f"{field['name']} has a default of more than {_LONGEST_DEFAULT} characters"
            )
        # A union's default is of its first branch (Avro's specification).
        first = field["type"][0] if isinstance(field["type"], list) else field["type"]
        if kind_of(self._resolve(first)) in ("bytes", "fixed"):
            return default.encode("latin-1")
        return self._unions.name_default(default, field["type"])

    def _fields(
        self, node: Any, words: Collection[str], above: Names, budget: Budget
    ) -> Iterator[tuple[Names, SchemaField]]:
        if kind_of(node) != "record" or len(above) >= DEEPEST:
            return
        for field in node["fields"]:
            if field["name"] not in words:
                continue
            budget.spend()
            names = (*above, field["name"])
            yield names, SchemaField(self._type_or_text(field["type"]), "default" in field)
            if inner := self._only(field["type"]):
                yield from self._fields(inner, words, names, budget)

    def _only(self, node: Any) -> Any:
        """The type itself, or the only one of a union besides null; None if there are several."""
        if not isinstance(node, list):
            return self._resolve(node)
        non_null = [branch for branch in map(self._resolve, node) if kind_of(branch) != "null"]
        return non_null[0] if len(non_null) == 1 else None

    def _type_or_text(self, node: Any) -> str:
        """Spark's type; text for one that has no end, or is as good as without."""
        # By identity: a field that many paths lead to has its type once.
        if id(node) not in self._types:
            try:
                self._types[id(node)] = self._sql_type(node, schema_budget(self._types_budget))
            except NotReadable:
                self._types[id(node)] = TEXT
        return self._types[id(node)]

    def _sql_type(self, node: Any, budget: Budget, depth: int = 0) -> str:
        budget.spend()
        only = self._only(node)
        kind = kind_of(only) if only is not None else ""
        if depth > DEEPEST:
            return TEXT
        if kind == "array":
            return f"array<{self._sql_type(only['items'], budget, depth + 1)}>"
        if kind == "map":
            return f"map<string,{self._sql_type(only['values'], budget, depth + 1)}>"
        if kind == "record":
            for field in only["fields"]:
                budget.spend_name(field["name"])
            fields = (
                f"{quoted_name(field['name'])}: {self._sql_type(field['type'], budget, depth + 1)}"
                for field in only["fields"]
            )
            return f"struct<{', '.join(fields)}>"
        if is_decimal(only):
            return f"decimal({only['precision']},{only.get('scale', 0)})"
        return _PRIMITIVES.get(kind, TEXT)

    def _resolve(self, node: Any) -> Any:
        return type_of(node, self._named)

    def _branch(self, value: Any, node: Any) -> Any:
        """The type that a value has, of a union's."""
        if not isinstance(node, list):
            return self._resolve(node)
        branches = [self._resolve(branch) for branch in node]
        if isinstance(value, tuple):
            return next(
                branch
                for branch in branches
                if isinstance(branch, dict) and branch.get("name") == value[0]
            )
        return next(branch for branch in branches if _fits(value, kind_of(branch)))

    def _readable(self, value: Any, node: Any, budget: Budget) -> Any:  # noqa: PLR0911  (a table of types)
        """A value as what JSON has."""
        budget.spend()
        if value is None:
            return None
        if isinstance(node, list):
            budget.spend(len(node))
        type_, value = self._branch(value, node), _named_value(value)
        kind = kind_of(type_)
        if is_decimal(type_):
            return str(decimal_of(value, type_))
        if kind in ("bytes", "fixed"):
            return base64.b64encode(value).decode()
        if kind == "enum":
            # A byte names a symbol of any length.
            budget.spend(len(value))
        if kind == "array":
            return [self._readable(item, type_["items"], budget) for item in value]
        if kind == "map":
            return {
                key: self._readable(item, type_["values"], budget) for key, item in value.items()
            }
        if kind == "record":
            budget.spend(sum(len(item["name"]) for item in type_["fields"]))
            return {
                item["name"]: self._readable(value[item["name"]], item["type"], budget)
                for item in type_["fields"]
            }
        return value

    def _avro_value(self, value: Any, node: Any, budget: Budget) -> Any:
        """What a value of JSON is in a record, for a field of a type."""
        budget.spend()
        if not isinstance(node, list):
            return self._of_type(value, self._resolve(node), budget)
        for branch in map(self._resolve, node):
            try:
                converted = self._of_type(value, branch, budget)
            except NotReadable:
                continue
            return (
                (branch["name"], converted)
                if kind_of(branch) in ("record", "enum", "fixed")
                else converted
            )
        raise NotReadable(f"the value fits none of {', '.join(map(kind_of, node))}")

    def _of_type(self, value: Any, type_: Any, budget: Budget) -> Any:  # noqa: PLR0911, PLR0912  (a table of types)
        kind = kind_of(type_)
        if is_decimal(type_):
            return unscaled_bytes(value, type_)
        if kind in ("bytes", "fixed") and isinstance(value, str):
            decoded = base64.b64decode(value)
            if kind == "bytes" or len(decoded) == type_["size"]:
                return decoded
        elif kind in _BOUNDS and isinstance(value, int) and not isinstance(value, bool):
            if -_BOUNDS[kind] <= value < _BOUNDS[kind]:
                return value
        elif kind in ("float", "double") and isinstance(value, (int, Decimal)):
            if not isinstance(value, bool):
                return float(value)
        elif kind == "enum":
            if value in type_["symbols"]:
                return value
        elif kind == "array" and isinstance(value, list):
            return [self._avro_value(item, type_["items"], budget) for item in value]
        elif kind == "map" and isinstance(value, dict):
            return {
                key: self._avro_value(item, type_["values"], budget) for key, item in value.items()
            }
        elif kind == "record" and isinstance(value, dict):
            return {
                item["name"]: self._avro_value(value.get(item["name"]), item["type"], budget)
                for item in type_["fields"]
            }
        elif _fits(value, kind):
            return value
        raise NotReadable(f"the value is no {kind}")


def _fits(value: Any, kind: str) -> bool:
    wanted: Any = {
        "null": type(None),
        "boolean": bool,
        "int": int,
        "long": int,
        "float": float,
        "double": float,
        "string": str,
        "bytes": bytes,
        "array": list,
        "map": dict,
    }.get(kind, ())
    return isinstance(value, wanted) and (not isinstance(value, bool) or kind == "boolean")


def _named_value(value: Any) -> Any:
    """A value without its type's name, which those of unions come with."""
    return value[1] if isinstance(value, tuple) else value


def _without_logical(node: Any) -> Any:
    """A schema without logical types, whose values are read as they are stored."""
    if isinstance(node, list):
        return [_without_logical(child) for child in node]
    if isinstance(node, dict):
        # A default is a value, and no schema.
        return {
            key: child if key in ("default", "doc", "symbols") else _without_logical(child)
            for key, child in node.items()
            if key != "logicalType"
        }
    return node
