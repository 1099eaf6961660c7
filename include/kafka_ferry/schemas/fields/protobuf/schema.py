"""Fields of records in Protobuf: read as JSON for expressions, and changed where they stand.

Promises:

(a) a record is read by the message that its own indexes name, in the file that its schema's id has;
(b) of a record that changes, only the bytes of the fields that change: unknown fields, the order of fields and how
    they are written stay as their producer wrote them, which writing the whole message again would not keep;
(c) a field that is set or cleared leaves nothing of what it was: all that is written under its number goes, and so
    do the others of its oneof if it is set;
(d) what cannot be done so is refused.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import Any, Final

from google.protobuf.message_factory import GetMessageClass

from kafka_ferry.batches import MalformedBatch
from kafka_ferry.batches.record_format.varint import decode_varint
from kafka_ferry.batches.rule_counts import FieldCounts
from kafka_ferry.schemas.fields.limits import (
    Budget,
    record_budget,
    schema_budget,
    types_budget,
)
from kafka_ferry.schemas.fields.protobuf.files import ProtobufFiles
from kafka_ferry.schemas.fields.protobuf.values import (
    is_map,
    is_message,
    put,
    readable,
    sql_type,
)
from kafka_ferry.schemas.fields.protobuf.walk import ProtobufWalk, most_steps
from kafka_ferry.schemas.fields.protobuf.wire import (
    GROUP,
    LENGTH,
    WireField,
    replace_fields,
    wire_fields,
    with_content,
)
from kafka_ferry.schemas.fields.record_schema import (
    DEEPEST,
    TEXT,
    Names,
    NotReadable,
    Reference,
    SchemaField,
    load_json,
)
from kafka_ferry.schemas.registered import RegisteredSchema

_MOST_INDEXES: Final = 100
"""Protobuf's own limit for messages within messages."""
_Indexes = tuple[int, ...]


class ProtobufSchema:
    """A ``RecordSchema`` of Protobuf.

    Args:
        schema: the schema.
        references: those that it refers to, each after its own.

    Raises:
        NotReadable: it is not a schema.
    """

    def __init__(self, schema: RegisteredSchema, references: Iterable[Reference]) -> None:
        self._files = ProtobufFiles(schema, references)
        self._messages: dict[_Indexes, tuple[Any, ProtobufWalk]] = {}
        self._declared: dict[_Indexes, Sequence[Any]] = {}

    def prefix_size(self, payload: bytes) -> int:
        """See ``RecordSchema``."""
        return _indexes(payload)[1]

    def fields(self, words: Collection[str]) -> dict[Names, SchemaField]:
        """See ``RecordSchema``; of all messages of the file.

        Which of them records are is in the records alone. A field has its type in those that no other one has a
        field of, or else in the others; text if they differ.
        """
        everywhere = list(_messages(self._files.pool, self._files.root))
        parts = {name for one in everywhere for name in _parts(one)}
        top: list[Any] = []
        inner_messages: list[Any] = []
        for message in everywhere:
            is_inner = message.containing_type or message.full_name in parts
            (inner_messages if is_inner else top).append(message)
        return _merge(inner_messages, words) | _merge(top, words)

    def as_json(self, payload: bytes, names: Collection[str]) -> bytes:
        """See ``RecordSchema``."""
        descriptor, record = self._message(payload)
        message, budget = _parse(descriptor, record), record_budget(record)
        # A message may have thousands of fields, and a record a few bytes.
        known = filter(None, map(descriptor.fields_by_name.get, names))
        wanted = sorted(known, key=attrgetter("index"))
        return json.dumps(
            {field.name: readable(message, field, budget) for field in wanted}
        ).encode()

    def change(
        self,
        payload: bytes,
        changes: Mapping[Names, str | None],
        counts: FieldCounts | None = None,
    ) -> bytes:
        """See ``RecordSchema``; null clears a field, as leaving it out does."""
        counts = counts or FieldCounts()
        descriptor, record = self._message(payload)
        indexes = payload[: len(payload) - len(record)]
        _parse(descriptor, record)
        for names, value in changes.items():
            before = record
            record = _change(descriptor, record, names, None if value is None else load_json(value))
            counts.changed[names] += record != before
        return indexes + record

    def _message(self, payload: bytes) -> tuple[Any, bytes]:
        """The message that a record is, and the record, which takes no more than its length explains."""
        indexes, at = _indexes(payload)
        if indexes not in self._messages:
            name = self._message_name(indexes)
            descriptor = self._files.pool.FindMessageTypeByName(name)
            self._messages[indexes] = descriptor, ProtobufWalk(descriptor, self._most_steps)
        descriptor, walk = self._messages[indexes]
        record = payload[at:]
        walk.check(record)
        return descriptor, record

    @cached_property
    def _most_steps(self) -> int:
        """What a message takes at most, of all files: to follow the fields of each message takes much longer."""
        files = self._files
        return most_steps(one for file in files.all for one in _messages(files.pool, file))

    def _message_name(self, indexes: _Indexes) -> str:
        """The full name of the message that indexes lead to.

        Clients differ in whether the messages that maps are made of count: where both ways lead to a message, the
        record is not read, rather than wrongly.
        """
        file = self._files.root
        names, messages = [file.package] if file.package else [], file.message_type
        for depth, index in enumerate(indexes):
            declared = self._messages_in(indexes[:depth], messages)
            matches = {
                counted[index].name: counted[index]
                for counted in (messages, declared)
                if 0 <= index < len(counted) and not counted[index].options.map_entry
            }
            if len(matches) != 1:
                which = " or ".join(matches) or "none"
                raise NotReadable(f"the indexes {indexes} of its message lead to {which}")
            ((name, message),) = matches.items()
            names.append(name)
            messages = message.nested_type
        return ".".join(names)

    def _messages_in(self, above: _Indexes, messages: Sequence[Any]) -> Sequence[Any]:
        """The messages within ``above`` that no map is made of, looked for once, and not for each record."""
        if above not in self._declared:
            self._declared[above] = [one for one in messages if not one.options.map_entry]
        return self._declared[above]


def _indexes(payload: bytes) -> tuple[_Indexes, int]:
    """The indexes of a record's message, from the file inwards, and where the record begins."""
    try:
        count, at = decode_varint(payload, 0)
        if not 0 <= count <= _MOST_INDEXES:
            raise NotReadable("it does not begin with the indexes of its message")
        indexes = []
        for _ in range(count):
            index, at = decode_varint(payload, at)
            indexes.append(index)
    except MalformedBatch:
        raise NotReadable("it does not begin with the indexes of its message") from None
    # The first message has a short form.
    return tuple(indexes) or (0,), at


def _messages(pool: Any, file: Any) -> Iterator[Any]:
    """All messages of a file, also within others."""
    waiting = deque(pool.FindFileByName(file.name).message_types_by_name.values())
    while waiting:
        message = waiting.popleft()
        if not message.GetOptions().map_entry:
            yield message
            waiting += message.nested_types


def _parts(message: Any) -> Iterator[str]:
    """The names of the messages that a message's fields are, without its own."""
    for field in message.fields:
        within = field.message_type
        if within is not None and is_map(field):
            within = within.fields_by_name["value"].message_type
        if within is not None and within is not message:
            yield within.full_name


def _merge(messages: Iterable[Any], words: Collection[str]) -> dict[Names, SchemaField]:
    fields_by_names: dict[Names, set[SchemaField]] = defaultdict(set)
    budget, types = schema_budget(), cache(partial(sql_type, total=types_budget()))
    for message in messages:
        for names, field in _paths(message, words, (), budget, types):
            fields_by_names[names].add(field)
    return {
        names: SchemaField(
            next(iter(fields)).sql_type
            if len({schema_field.sql_type for schema_field in fields}) == 1
            else TEXT,
            all(schema_field.has_default for schema_field in fields),
        )
        for names, fields in fields_by_names.items()
    }


def _paths(
    message: Any,
    words: Collection[str],
    above: Names,
    budget: Budget,
    type_of: Callable[[Any], str],
) -> Iterator[tuple[Names, SchemaField]]:
    for field in message.fields:
        if field.name not in words:
            continue
        budget.spend()
        names = (*above, field.name)
        yield names, SchemaField(type_of(field), not field.is_required)
        if is_message(field) and len(names) < DEEPEST:
            yield from _paths(field.message_type, words, names, budget, type_of)


def _parse(descriptor: Any, record: bytes) -> Any:
    try:
        return _class_of(descriptor).FromString(record)
    except Exception as error:
        raise NotReadable(f"it does not fit its schema: {error or type(error).__name__}") from error


def _class_of(descriptor: Any) -> Any:
    """A message's class, which the library makes with those of all messages that it leads to, by recursion."""
    try:
        return GetMessageClass(descriptor)
    except RecursionError:
        # It is there by now, and those that are not are made when they are needed.
        return GetMessageClass(descriptor)


def _change(descriptor: Any, record: bytes, names: Names, value: Any) -> bytes:
    """A message with another value of a field, or without one if that is None."""
    name, *below = names
    field = descriptor.fields_by_name.get(name)
    if field is None:
        if value is not None:
            raise NotReadable(f"its schema has no field {name}")
        return record
    fields = wire_fields(record)
    own = [part for part in fields if part.number == field.number]
    if below:
        return _change_within(field, record, own, tuple(below), value)
    if value is None:
        if field.is_required:
            raise NotReadable(f"{name} is required")
        return replace_fields(record, {field.number}, field.number, b"")
    wanted = _class_of(descriptor)()
    put(wanted, field, value)
    group = field.containing_oneof.fields if field.containing_oneof else [field]
    gone = {part.number for part in group}
    is_written_once = field.is_repeated or len(own) == 1
    if is_written_once and own == [part for part in fields if part.number in gone]:
        before = _parse(descriptor, b"".join(record[part.start : part.end] for part in own))
        if json.dumps(readable(before, field)) == json.dumps(readable(wanted, field)):
            return record
    written = wanted.SerializePartialToString(deterministic=True)
    return replace_fields(record, gone, field.number, written)


def _change_within(
    field: Any, record: bytes, own: list[WireField], names: Names, value: Any
) -> bytes:
    """A message with another value of what is within one of its fields; the same if it has none."""
    if not is_message(field):
        raise NotReadable(f"{field.name} is no message")
    if not own:
        return record
    if len(own) > 1:
        raise NotReadable(f"{field.name} is written in several parts")
    (at,) = own
    if at.wire_type != (GROUP if field.type == field.TYPE_GROUP else LENGTH):
        raise NotReadable(f"{field.name} is not written as a message")
    within = _change(field.message_type, record[at.begin : at.stop], names, value)
    return with_content(record, at, within)
