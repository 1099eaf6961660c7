"""Gives the records of a converted batch the ids that their schemas have on the target.

Promises:

(a) only ids change: four bytes after the magic byte 0, or sixteen after 1 in a header, so that no record changes
    its length; nothing is decoded, and Protobuf's message indexes, which follow the id, stay as they are;
(b) a batch in which no id changes is passed on as it was, unopened by the target;
(c) a record with an id that has none on the target is left unchanged, and named: it is the caller's what becomes
    of it.

The layout is that of Confluent's serializers: a key or value begins with the magic byte 0 and the id, unless the
headers ``__key_schema_id`` or ``__value_schema_id`` have it, with the magic byte 0 and an id, or 1 and a GUID.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_ferry.batches import ConvertedBatch, MalformedBatch, Rebuilt, TopicLimits
from kafka_ferry.batches.converted_batch import assemble
from kafka_ferry.batches.record_format.codecs import OPENED_AT_ONCE, decompress
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.batches.record_format.records import fitting_batches, packed_batch
from kafka_ferry.batches.record_format.varint import decode_varint
from kafka_ferry.batches.rejected_records import offsets_at, records_of
from kafka_ferry.model.ranges import IdPart
from kafka_ferry.schemas.ids import ID_HEADERS, FlowSchemas

_ID_BYTES: Final = 4
# After so many ids that no registry knows, a task asks for no other one: a producer could have it ask for each record.
MOST_UNKNOWN: Final = 1_000
_GUID_BYTES: Final = 16
_PREFIX: Final = 1 + _ID_BYTES

Resolve = Callable[[int | str], int | str | None]
"""Gives the target's id of an id of the source (int), or its GUID of a GUID (str); None if it has none."""


class IdBytes:
    """Ids as records have them, each resolved once.

    Args:
        known: the schemas that are known.
        resolve: asked for those that are not.
    """

    def __init__(self, known: FlowSchemas, resolve: Resolve) -> None:
        self._resolve = resolve
        self._unknown = 0
        self.known: dict[bytes, bytes | None] = {
            id_bytes(source): id_bytes(target) for source, target in known.ids.items()
        }
        self.known |= {id_bytes(source): id_bytes(guid) for source, guid in known.guids.items()}

    def of(self, source: bytes) -> bytes | None:
        """What an id (4 bytes) or a GUID (16 bytes) becomes, None if it is unknown."""
        if source in self.known:
            return self.known[source]
        if self._unknown == MOST_UNKNOWN:
            return None
        target = self._resolve(id_text(source))
        self._unknown += target is None
        self.known[source] = None if target is None else id_bytes(target)
        return self.known[source]


def id_text(source: bytes) -> int | str:
    """An id or a GUID as people write it."""
    if len(source) == _ID_BYTES:
        return int.from_bytes(source, "big")
    return str(uuid.UUID(bytes=source))


def id_bytes(id_or_guid: int | str) -> bytes:
    """An id (4 bytes) or a GUID (16 bytes) as records have it, without its magic byte."""
    return (
        id_or_guid.to_bytes(_ID_BYTES, "big")
        if isinstance(id_or_guid, int)
        else uuid.UUID(id_or_guid).bytes
    )


@dataclass(frozen=True, slots=True)
class TranslatedBatch:
    """What became of a converted batch.

    Attributes:
        converted: one or more that take its place.
        unknown: by source offset, the unknown id of a record, which is unchanged in ``converted``.
    """

    converted: tuple[ConvertedBatch, ...]
    unknown: dict[int, int | str] = field(default_factory=dict)


def with_target_ids(
    converted: ConvertedBatch,
    parts: Collection[IdPart],
    ids: IdBytes,
    topic_limits: TopicLimits,
) -> TranslatedBatch:
    """The converted batch with the target's ids.

    Args:
        converted: the converted batch.
        parts: which parts of its records hold ids.
        ids: what ids become.
        topic_limits: what the target topic takes.

    Raises:
        MalformedBatch: if its batch cannot be read; ``TooLarge`` if it has more than ``OPENED_AT_ONCE``.
    """
    batch = converted.batch
    if batch is None:
        return TranslatedBatch((converted,))
    header = batch.header
    patches = _Patches(decompress(batch.payload, header.codec, OPENED_AT_ONCE), parts, ids)
    try:
        patches.walk(header.records)
    except IndexError as error:
        raise MalformedBatch(
            f"a batch at offset {converted.first} that cannot be read: records are cut off"
        ) from error
    indices = list(patches.unknown)
    unknown = dict(
        zip(offsets_at(converted, indices), map(id_text, patches.unknown.values()), strict=True)
    )
    if patches.patched is None:
        return TranslatedBatch((converted,), unknown)
    packed = packed_batch(
        patches.patched,
        header.codec,
        records=header.records,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
    )
    return TranslatedBatch(tuple(_fit(converted, packed, topic_limits)), unknown)


def _fit(
    converted: ConvertedBatch, packed: Batch, topic_limits: TopicLimits
) -> Iterator[ConvertedBatch]:
    """The converted batch with another batch; more than one if its codec made it too large."""
    # A batch that was rebuilt before keeps that reason.
    rebuilt = converted.rebuilt or {Rebuilt.SCHEMA_IDS: 1}
    whole = replace(converted, batch=packed, rebuilt=rebuilt)
    if packed.header.size <= topic_limits.max_batch_bytes:
        yield whole
        return
    pieces = fitting_batches(records_of(whole), packed.header.codec, topic_limits.max_batch_bytes)
    yield from assemble(
        converted.start,
        converted.end,
        pieces,
        known=converted.absent,
        rebuilt=rebuilt,
        leader_epoch=converted.leader_epoch,
        rule_counts=converted.rule_counts,
        last_crc=converted.last_crc,
    )


class _Patches:
    """The records of a batch, one after the other, and the ids that change in them.

    Attributes:
        patched: all records with the target's ids, None as long as none has changed.
        unknown: by the record's index, the id that is unknown.
    """

    def __init__(self, plain: bytes, parts: Collection[IdPart], ids: IdBytes) -> None:
        self._plain, self._ids = plain, ids
        self._in_key, self._in_value = "key" in parts, "value" in parts
        self._named: dict[bytes, str] | None = None
        self.patched: bytearray | None = None
        self.unknown: dict[int, bytes] = {}

    @property
    def _headers(self) -> dict[bytes, str]:
        """The headers with ids that any of the records has, and what they are for: mostly none, as one search tells."""
        if self._named is None:
            looked_for = (
                (ID_HEADERS["key"], "key", self._in_key),
                (ID_HEADERS["value"], "value", self._in_value),
            )
            self._named = {
                name: part for name, part, is_in in looked_for if is_in and name in self._plain
            }
        return self._named

    def walk(self, count: int) -> None:  # noqa: PLR0912, PLR0915
        """Look at ``count`` records.

        Numbers of one and two bytes are decoded in place, since a call for each costs more than all else.
        """
        plain, known, in_key, in_value = self._plain, self._ids.known, self._in_key, self._in_value
        at, size, unknown, patched = 0, len(plain), self.unknown, self.patched
        for index in range(count):
            begin = at
            if (number := plain[at]) < 0x80:
                at, length = at + 1, number >> 1
            elif (second := plain[at + 1]) < 0x80:
                at, length = at + 2, (number & 0x7F | second << 7) >> 1
            else:
                length, at = decode_varint(plain, at)
            end = at + length
            at += 1  # attributes
            while plain[at] > 0x7F:  # timestamp
                at += 1
            at += 1
            while plain[at] > 0x7F:  # offset
                at += 1
            if (number := plain[at + 1]) < 0x80:
                key = at + 2
                key_end = key if number & 1 else key + (number >> 1)
            else:
                key, key_end = self._field(at + 1)
            if (number := plain[key_end]) < 0x80:
                value = key_end + 1
                value_end = value if number & 1 else value + (number >> 1)
            elif (second := plain[key_end + 1]) < 0x80 and not number & 1:
                value = key_end + 2
                value_end = value + ((number & 0x7F | second << 7) >> 1)
            else:
                value, value_end = self._field(key_end)
            if not value_end < end <= size:
                raise IndexError
            if plain[value_end] and self._headers:
                self._patch_with_headers(index, (key, key_end), (value, value_end), end)
            else:
                if in_key and not plain[key] and key_end - key >= _PREFIX:
                    source = plain[key + 1 : key + _PREFIX]
                    if known.get(source) != source:
                        self._patch(index, key + 1, source)
                if in_value and not plain[value] and value_end - value >= _PREFIX:
                    source = plain[value + 1 : value + _PREFIX]
                    if (target := known.get(source)) != source:
                        if target and patched:
                            patched[value + 1 : value + _PREFIX] = target
                        else:
                            self._patch(index, value + 1, source)
                            patched = self.patched
            if unknown and index in unknown and self.patched:
                self.patched[begin:end] = plain[begin:end]
            at = end
        if at != size:
            raise MalformedBatch(f"{size - at} bytes after the last record")

    def _field(self, at: int) -> tuple[int, int]:
        """Where a key or value begins and ends; both are the same where it is null."""
        plain = self._plain
        if (number := plain[at]) < 0x80:
            at, length = at + 1, -1 if number & 1 else number >> 1
        elif (second := plain[at + 1]) < 0x80 and not number & 1:
            at, length = at + 2, (number & 0x7F | second << 7) >> 1
        else:
            length, at = decode_varint(plain, at)
        return at, at + max(length, 0)

    def _patch(self, index: int, at: int, source: bytes) -> None:
        target = self._ids.of(source)
        if target is None:
            self.unknown.setdefault(index, source)
        elif target != source:
            if self.patched is None:
                self.patched = bytearray(self._plain)
            self.patched[at : at + len(target)] = target

    def _patch_with_headers(
        self, index: int, key: tuple[int, int], value: tuple[int, int], end: int
    ) -> None:
        """Patch a record whose ids may be in its headers; what has its id there has none in front."""
        prefixed = {"key": key, "value": value}
        if not self._in_key:
            prefixed.pop("key")
        if not self._in_value:
            prefixed.pop("value")
        count, at = decode_varint(self._plain, value[1])
        for _ in range(count):
            name, name_end = self._field(at)
            begin, at = self._field(name_end)
            part = self._headers.get(self._plain[name:name_end])
            if part and self._patch_header(index, begin, at):
                prefixed.pop(part, None)
        if at != end:
            raise IndexError
        for begin, stop in prefixed.values():
            if stop - begin >= _PREFIX and not self._plain[begin]:
                self._patch(index, begin + 1, self._plain[begin + 1 : begin + _PREFIX])

    def _patch_header(self, index: int, begin: int, end: int) -> bool:
        """Patch what a header holds; whether that is an id."""
        magic = self._plain[begin] if begin < end else None
        size = {0: _ID_BYTES, 1: _GUID_BYTES}.get(magic) if magic is not None else None
        if size and end - begin > size:
            self._patch(index, begin + 1, self._plain[begin + 1 : begin + 1 + size])
            return True
        return False
