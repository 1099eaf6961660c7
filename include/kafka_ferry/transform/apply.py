"""Makes of a converted batch what the rules leave of it.

Promises:

(a) each source offset stays accounted for: a record on the target, or a reason (``filtered``);
(b) a batch that loses no record and changes none is passed on as it was, unopened by the target;
(c) of a record that changes, only what its rule names changes: other fields and headers, the timestamp and
    the offset stay as they are, byte for byte;
(d) a record for which a step fails is left unchanged, and named: it is the caller's what becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from kafka_ferry.config.options.transform import PARTS, TransformRule
from kafka_ferry.config.types.record_path import Part, RecordPath, read_path
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


class Changer:
    """Changes records by one rule, whose paths are read once.

    Args:
        rule: the rule.
        formats: how fields of keys and values are read and changed that are not JSON.

    Attributes:
        steps: as of the rule.
        named_headers: as of the rule.
        formats: how fields of keys and values are read and changed.
    """

    def __init__(
        self, rule: TransformRule, formats: Mapping[str, FieldFormat] = MappingProxyType({})
    ) -> None:
        in_json: Mapping[str, FieldFormat] = {
            part: JsonFields() for part in PARTS if rule.format_of(part) == "json"
        }
        self.steps: Final = rule.steps
        self.named_headers: Final = rule.named_headers
        self.formats: Final[Mapping[str, FieldFormat]] = {**in_json, **formats}
        self._set = [read_path(path) for path, _ in rule.set]
        self._drop = [read_path(path) for path in rule.drop]
        self._parts = {path.part for path in (*self._set, *self._drop)}

    @property
    def changes(self) -> bool:
        """Whether it does more than leaving records out."""
        return bool(self._parts)

    def changed(self, content: bytes, values: Sequence[bytes | None]) -> bytes:
        """The content of a record with what the rule sets and drops.

        Args:
            content: the record's.
            values: what each path of ``set`` becomes.

        Raises:
            NotAnObject: a key or value that has fields to change is no object that can have them.
        """
        key, value, headers = divide_content(content)
        if "key" in self._parts:
            key = self._part(key, "key", values, content)
        if "value" in self._parts:
            value = self._part(value, "value", values, content)
        if "headers" in self._parts:
            given = zip(self._set, values, strict=True)
            headers = encoded_headers(_changed_headers(read_headers(headers), given, self._drop))
        return join_content(key, value, headers)

    def _part(
        self, content: bytes | None, part: Part, values: Sequence[bytes | None], record: bytes
    ) -> bytes | None:
        fields: dict[tuple[str, ...], str | None] = {}
        for path, value in zip(self._set, values, strict=True):
            if path.part == part and not path.names:
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
            return form.with_fields(content, fields, schema_headers(record, form))
        except ValueError as error:
            raise NotAnObject(f"its {part}: {error}") from None


def apply_rule(
    converted: ConvertedBatch,
    records: Sequence[Record],
    evaluated: Evaluated,
    changer: Changer,
    topic_limits: TopicLimits,
) -> TransformedBatch:
    """What a rule leaves of a converted batch.

    Args:
        converted: the converted batch, with a batch to send.
        records: its records, at their source offsets.
        evaluated: what the rule's expressions gave for them.
        changer: the rule.
        topic_limits: what the target topic takes.
    """
    errors = {
        record[0]: f"{changer.steps[step]} failed"
        for record, step in zip(records, evaluated.failed, strict=False)
        if step >= 0
    }
    # A record for which a step failed is left as it is.
    keep = (
        [k or r[0] in errors for k, r in zip(evaluated.keep, records, strict=True)]
        if errors
        else evaluated.keep
    )
    filtered = list(compress(records, map(not_, keep)))
    kept = list(compress(records, keep)) if filtered else list(records)
    changed = 0
    if changer.changes:
        values = evaluated.values or [()] * len(records)
        for place, (record, given) in enumerate(zip(kept, compress(values, keep), strict=True)):
            if record[0] in errors:
                continue
            try:
                content = changer.changed(record[3], given)
            except NotAnObject as error:
                errors[record[0]] = str(error)
            else:
                changed += content != record[3]
                kept[place] = (*record[:3], content)
    if not filtered and not changed:
        return TransformedBatch((converted,), errors)
    became = rebuilt(converted, kept, filtered, topic_limits, changed)
    return TransformedBatch(tuple(became), errors)


def rebuilt(
    converted: ConvertedBatch,
    kept: Sequence[Record],
    filtered: Sequence[Record],
    topic_limits: TopicLimits,
    changed: int,
) -> Iterator[ConvertedBatch]:
    """Converted batches with what is kept of one, in its place.

    Args:
        converted: the converted batch, with a batch to send.
        kept: the records that stay, as they are to be.
        filtered: those that do not.
        topic_limits: what the target topic takes.
        changed: how many of those that stay are not as they were.
    """
    assert converted.batch is not None
    absent = [Absent(first, first + count, Reason.FILTERED) for first, count in runs_of(filtered)]
    known = tuple(sorted((*converted.absent, *absent)))
    if not kept:
        yield replace(converted, batch=None, runs=(), absent=known)
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
        changed=changed,
    )


def _unwrap(value: bytes | None) -> str:
    return "null" if value is None else value.decode()[len(_OPENING) : -1]


def _changed_headers(
    headers: tuple[Header, ...],
    given: Iterable[tuple[RecordPath, bytes | None]],
    dropped: Iterable[RecordPath],
) -> tuple[Header, ...]:
    gone = {path.names[0].encode() for path in dropped if path.part == "headers"}
    values = {path.names[0].encode(): value for path, value in given if path.part == "headers"}
    found: list[Header] = []
    for name, value in headers:
        if name in values:
            found.append((name, values.pop(name)))
            gone.add(name)
        elif name not in gone:
            found.append((name, value))
    return (*found, *values.items())
