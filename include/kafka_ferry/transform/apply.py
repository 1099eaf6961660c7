"""Makes of a converted batch what the rules leave of it.

Promises:

(a) each source offset stays accounted for: a record on the target, or a reason (``filtered``);
(b) a batch that loses no record and changes none is passed on as it was, unopened by the target;
(c) of a record that changes, only what its rule names changes: other fields and headers, the timestamp and
    the offset stay as they are, byte for byte;
(d) a record for which a step fails is left unchanged, and named: it is the caller's what becomes of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import not_
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import Absent, ConvertedBatch, Reason, Rebuilt, Record, TopicLimits
from kafka_ferry.batches.converted_batch import assemble
from kafka_ferry.batches.record_format.content import (
    Header,
    divide_content,
    encoded_headers,
    join_content,
    read_headers,
)
from kafka_ferry.batches.record_format.records import fitting_batches, runs_of, split_at_gaps
from kafka_ferry.batches.rule_counts import CHANGED, FAILED, FieldCounts, RuleUse, SimilarNames
from kafka_ferry.config.options.transform import PARTS, TransformRule
from kafka_ferry.config.types.record_path import Part, RecordPath, read_path
from kafka_ferry.transform.columns import too_large
from kafka_ferry.transform.evaluator import Evaluated
from kafka_ferry.transform.field_format import FieldFormat, schema_headers
from kafka_ferry.transform.json_fields import JsonFields, NotAnObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WRAPPED: Final = "it"
"""The name of the only field of the JSON object in which a field's new value comes."""

_OPENING: Final = f'{{"{WRAPPED}":'


@dataclass(frozen=True, slots=True)
class TransformedBatch:
    """What became of a converted batch.

    Attributes:
        converted: one or more that take its place.
        errors: by source offset, which step failed for a record, which is unchanged in ``converted``.
    """

    converted: tuple[ConvertedBatch, ...]
    errors: dict[int, str] = field(default_factory=dict)


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

    def counted(self, counts: PathCounts) -> Iterator[tuple[RuleUse, int]]:
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

    def changed(self, content: bytes, values: Sequence[bytes | None], counts: PathCounts) -> bytes:
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


def _read_counts(reads: Sequence[RuleUse], bit_masks: Sequence[int]) -> dict[str, int]:
    """What expressions read by name, and how many records have it.

    Args:
        reads: what they read.
        bit_masks: for each record, which of it the record has, a bit each; empty where nothing is read.
    """
    # Few combinations are met, of however many records.
    kinds = Counter(bit_masks)
    return {
        read.key: sum(records for bits, records in kinds.items() if bits >> place & 1)
        for place, read in enumerate(reads)
    }


def apply_rule(
    converted: ConvertedBatch,
    records: Sequence[Record],
    evaluated: Evaluated,
    changer: Changer,
    topic_limits: TopicLimits,
    reads: Sequence[RuleUse] = (),
) -> TransformedBatch:
    """What a rule leaves of a converted batch.

    Args:
        converted: the converted batch, with a batch to send.
        records: its records, at their source offsets.
        evaluated: what the rule's expressions gave for them.
        changer: the rule.
        topic_limits: what the target topic takes.
        reads: what the rule's expressions read by name.
    """
    errors = {
        record[0]: f"{changer.steps[step]} failed"
        for record, step in zip(records, evaluated.failed, strict=False)
        if step >= 0
    }
    errors |= {record[0]: reason for record in records if (reason := too_large(record))}
    # A record for which a step failed is left as it is.
    keep = (
        [k or r[0] in errors for k, r in zip(evaluated.keep, records, strict=True)]
        if errors
        else evaluated.keep
    )
    filtered = list(compress(records, map(not_, keep)))
    kept = list(compress(records, keep)) if filtered else list(records)
    changed, counts = 0, changer.new_counts()
    if changer.changes:
        values = evaluated.values or [()] * len(records)
        for place, (record, new_values) in enumerate(
            zip(kept, compress(values, keep), strict=True)
        ):
            if record[0] in errors:
                continue
            try:
                content = changer.changed(record[3], new_values, counts)
            except NotAnObject as error:
                errors[record[0]] = str(error)
            else:
                changed += content != record[3]
                kept[place] = (*record[:3], content)
    rule_counts = _read_counts(reads, evaluated.seen)
    if errors:
        rule_counts[FAILED] = len(errors)
    if changer.changes:
        rule_counts[CHANGED] = changed
        rule_counts |= {use.key: records for use, records in changer.counted(counts)}
    if not filtered and not changed:
        same = replace(converted, rule_counts=rule_counts) if rule_counts else converted
        return TransformedBatch((same,), errors)
    became = rebuilt(converted, kept, filtered, topic_limits, rule_counts)
    return TransformedBatch(tuple(became), errors)


def rebuilt(
    converted: ConvertedBatch,
    kept: Sequence[Record],
    filtered: Sequence[Record],
    topic_limits: TopicLimits,
    rule_counts: Mapping[str, int],
) -> Iterator[ConvertedBatch]:
    """Converted batches with what is kept of one, in its place.

    Args:
        converted: the converted batch, with a batch to send.
        kept: the records that stay, as they are to be.
        filtered: those that do not.
        topic_limits: what the target topic takes.
        rule_counts: what the rule did, in how many records.
    """
    assert converted.batch is not None
    absent = [Absent(first, first + count, Reason.FILTERED) for first, count in runs_of(filtered)]
    known = tuple(sorted((*converted.absent, *absent)))
    if not kept:
        yield replace(converted, batch=None, runs=(), absent=known, rule_counts=rule_counts)
        return
    codec = converted.batch.header.codec
    parts = split_at_gaps(kept) if topic_limits.offsets_kept else [kept]
    yield from assemble(
        converted.start,
        converted.end,
        (
            piece
            for part in parts
            for piece in fitting_batches(part, codec, topic_limits.max_batch_bytes)
        ),
        known=known,
        # A batch that was rebuilt before keeps that reason.
        rebuilt=converted.rebuilt or {Rebuilt.TRANSFORMED: 1},
        leader_epoch=converted.leader_epoch,
        rule_counts=rule_counts,
        last_crc=converted.last_crc,
    )


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
