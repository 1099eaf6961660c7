"""Changes records by one rule, and counts what became something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from kafka_ferry.batches.record_format.content import (
    Header,
    divide_content,
    encoded_headers,
    join_content,
    read_headers,
)
from kafka_ferry.batches.rule_counts import FieldCounts, RuleUse, SimilarNames
from kafka_ferry.config.options.transform import PARTS, TransformRule
from kafka_ferry.config.types.record_path import Part, RecordPath, read_path
from kafka_ferry.transform.field_format import FieldFormat, schema_headers
from kafka_ferry.transform.json_fields import JsonFields, NotAnObject

WRAPPED: Final = "it"
"""The name of the only field of the JSON object in which a field's new value comes."""

_OPENING: Final = f'{{"{WRAPPED}":'


@dataclass(slots=True)
class PathCounts:
    """In how many records a rule's paths became something else; what a record has twice counts twice.

    Attributes:
        changed: whole keys and values.
        of_fields: fields, by the part that they are in.
        headers: headers that records had, by name; what is dropped beside the one that is set counts too.
        added_headers: those that they had not.
    """

    changed: Counter[RecordPath] = field(default_factory=Counter)
    of_fields: Mapping[str, FieldCounts] = field(
        default_factory=lambda: {part: FieldCounts() for part in PARTS}
    )
    headers: Counter[bytes] = field(default_factory=Counter)
    added_headers: Counter[bytes] = field(default_factory=Counter)

    def of(self, path: RecordPath) -> tuple[int, int]:
        """In how many records a path was changed, and in how many it was added."""
        if path.part == "headers":
            name = path.names[0].encode()
            return self.headers[name], self.added_headers[name]
        if not path.names:
            return self.changed[path], 0
        fields = self.of_fields[path.part]
        return fields.changed[path.names], fields.added[path.names]

    def near(self, path: RecordPath) -> str:
        """The path of a field with a similar name in records to which a path was added, "" for none."""
        near = self.of_fields[path.part].near if path.part in PARTS else SimilarNames()
        name = near.found.get(path.names)
        return str(RecordPath(path.part, (*path.names[:-1], name))) if name else ""


class Changer:
    """Changes records by one rule, whose paths are read once.

    Args:
        rule: the rule.
        formats: how fields of keys and values are read and changed that are not JSON.
        decimals: the names of the fields that are decimals in rows, also by a registry's schemas; None for the
            rule's own.

    Attributes:
        steps: as of the rule.
        named_headers: as of the rule.
        formats: how fields of keys and values are read and changed.
    """

    def __init__(
        self,
        rule: TransformRule,
        formats: Mapping[str, FieldFormat] = MappingProxyType({}),
        decimals: Mapping[Part, Collection[str]] | None = None,
    ) -> None:
        self._json: dict[str, JsonFields] = {
            part: JsonFields(rule.decimals(part) if decimals is None else decimals[part])
            for part in PARTS
        }
        in_json: Mapping[str, FieldFormat] = {
            part: self._json[part] for part in PARTS if rule.format_of(part) == "json"
        }
        self.steps: Final = rule.steps
        self.named_headers: Final = rule.named_headers
        self.formats: Final[Mapping[str, FieldFormat]] = {**in_json, **formats}
        self._set = [read_path(path) for path, _ in rule.set]
        self._drop = [read_path(path) for path in rule.drop]
        self._parts = {path.part for path in (*self._set, *self._drop)}
        self._near = {part: SimilarNames() for part in PARTS}

    @property
    def changes(self) -> bool:
        """Whether it does more than leaving records out."""
        return bool(self._parts)

    def new_counts(self) -> PathCounts:
        """Counts of nothing yet, which know the similar names that were met before."""
        fields: dict[str, FieldCounts] = {
            part: FieldCounts(near=near) for part, near in self._near.items()
        }
        return PathCounts(of_fields=fields)

    def uses(self, counts: PathCounts) -> Iterator[tuple[RuleUse, int]]:
        """What the rule sets, adds and drops, and in how many records; what it adds nowhere is not among it."""
        for path in self._set:
            changed, added = counts.of(path)
            yield RuleUse("set", str(path)), changed
            if added:
                yield RuleUse("added", str(path)), added
                if near := counts.near(path):
                    yield RuleUse("near", f"{path}={near}"), added
        for path in self._drop:
            yield RuleUse("drop", str(path)), counts.of(path)[0]

    def as_json(self, part: Part, content: bytes, record: bytes) -> bytes:
        """A key or value with a format as rows have it; what is no JSON where it cannot be read.

        Args:
            part: which of them.
            content: it.
            record: the content of the whole record.
        """
        form = self.formats[part]
        json = form.as_json(content, schema_headers(record, form))
        return json if form is self._json[part] else self._json[part].as_json(json)

    def change(self, content: bytes, values: Sequence[bytes | None], counts: PathCounts) -> bytes:
        """The content of a record with what the rule sets and drops.

        Args:
            content: the record's.
            values: what each path of ``set`` becomes.
            counts: where to count the paths that become something else.

        Raises:
            NotAnObject: a key or value that has fields to change is no object that can have them.
        """
        key, value, headers = divide_content(content)
        if "key" in self._parts:
            key = self._part(key, "key", values, content, counts)
        if "value" in self._parts:
            value = self._part(value, "value", values, content, counts)
        if "headers" in self._parts:
            pairs = zip(self._set, values, strict=True)
            became = _changed_headers(read_headers(headers), pairs, self._drop, counts)
            headers = encoded_headers(became)
        return join_content(key, value, headers)

    def _part(
        self,
        content: bytes | None,
        part: Part,
        values: Sequence[bytes | None],
        record: bytes,
        counts: PathCounts,
    ) -> bytes | None:
        fields: dict[tuple[str, ...], str | None] = {}
        for path, value in zip(self._set, values, strict=True):
            if path.part == part and not path.names:
                counts.changed[path] += value != content
                return value
            if path.part == part:
                fields[path.names] = _unwrap(value)
        if content is None:
            return None
        for path in self._drop:
            if path.part == part:
                fields[path.names] = None
        try:
            form = self.formats[part]
            return form.with_fields(
                content, fields, schema_headers(record, form), counts.of_fields[part]
            )
        except ValueError as error:
            raise NotAnObject(f"its {part}: {error}") from None


def _unwrap(value: bytes | None) -> str:
    return "null" if value is None else value.decode()[len(_OPENING) : -1]


def _changed_headers(
    headers: tuple[Header, ...],
    pairs: Iterable[tuple[RecordPath, bytes | None]],
    dropped: Iterable[RecordPath],
    counts: PathCounts,
) -> tuple[Header, ...]:
    gone = {path.names[0].encode() for path in dropped if path.part == "headers"}
    values = {path.names[0].encode(): value for path, value in pairs if path.part == "headers"}
    changed: list[Header] = []
    dropped_names: set[bytes] = set()
    for name, value in headers:
        if name in values:
            changed.append((name, values.pop(name)))
            gone.add(name)
            counts.headers[name] += value != changed[-1][1]
        elif name not in gone:
            changed.append((name, value))
        else:
            dropped_names.add(name)
    counts.headers.update(dropped_names)
    counts.added_headers.update(values.keys())
    return (*changed, *values.items())
