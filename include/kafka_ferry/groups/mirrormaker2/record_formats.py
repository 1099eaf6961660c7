"""MirrorMaker 2's records: checkpoints, heartbeats and offset syncs, byte for byte.

As ``Checkpoint``, ``Heartbeat`` and ``OffsetSync`` in ``org.apache.kafka.connect.mirror`` write and
read them. All numbers are big-endian; a string is its length in bytes, as an INT16, and UTF-8::

    OffsetSync  key    topic (source's) | partition INT32
                value  upstream INT64 | downstream INT64
    Checkpoint  key    group | topic (target's) | partition INT32
                value  version INT16 = 0 | upstream INT64 | downstream INT64 | metadata
    Heartbeat   key    source's alias | target's alias
                value  version INT16 = 0 | timestamp INT64

Only checkpoints and heartbeats have a version; readers ignore bytes after the last field. None of the
topics may ever get a tombstone: MirrorMaker 2's clients fail on a null value.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from kafka_ferry.model.ranges import TopicPartition

VERSION: Final = 0
_MAX_STRING: Final = 2**15 - 1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSETS: Final = struct.Struct(">qq")


class MalformedRecord(ValueError):
    """Bytes that MirrorMaker 2 would not have written."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record of the source, and its offset on the target.

    Attributes:
        source: the partition on the source.
        upstream: the record's offset there.
        downstream: the same record's offset on the target.
    """

    source: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """The record's key."""
        return _partition(self.source)

    def value(self) -> bytes:
        """The record's value."""
        return _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Self:
        """The offset sync in a record.

        Raises:
            MalformedRecord: if it is not one.
        """
        source, fields = _Fields(key).partition(), _Fields(value)
        return cls(source, fields.int64(), fields.int64())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a group may continue on the target.

    Attributes:
        group: the group's id.
        target: the partition on the *target*.
        upstream: the offset that the group has committed on the source, the next one to read.
        downstream: the corresponding offset on the target.
        metadata: what the application stored with its offset.
    """

    group: str
    target: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        """The record's key."""
        return _string(self.group) + _partition(self.target)

    def value(self) -> bytes:
        """The record's value."""
        offsets = _OFFSETS.pack(self.upstream, self.downstream)
        return _INT16.pack(VERSION) + offsets + _string(self.metadata)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Self:
        """The checkpoint in a record.

        Raises:
            MalformedRecord: if it is not one.
        """
        fields = _Fields(key)
        group, target = fields.string(), fields.partition()
        fields = _Fields(value)
        fields.version()
        return cls(group, target, fields.int64(), fields.int64(), fields.string())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign that a flow was alive.

    Attributes:
        source_alias: of the cluster that the flow copies from.
        target_alias: of the cluster that it copies to.
        timestamp: when, in milliseconds since 1970.
    """

    source_alias: str
    target_alias: str
    timestamp: int

    def key(self) -> bytes:
        """The record's key."""
        return _string(self.source_alias) + _string(self.target_alias)

    def value(self) -> bytes:
        """The record's value."""
        return _INT16.pack(VERSION) + _INT64.pack(self.timestamp)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Self:
        """The heartbeat in a record.

        Raises:
            MalformedRecord: if it is not one.
        """
        fields = _Fields(key)
        source_alias, target_alias = fields.string(), fields.string()
        fields = _Fields(value)
        fields.version()
        return cls(source_alias, target_alias, fields.int64())


class _Fields:
    """Reads one field after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def version(self) -> None:
        version = self._number(_INT16)
        if version != VERSION:
            raise MalformedRecord(f"version {version}, where {VERSION} can be read")

    def partition(self) -> TopicPartition:
        return TopicPartition(self.string(), self._number(_INT32))

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        length = self._number(_INT16)
        text = self._data[self._at : self._at + length]
        if length < 0 or len(text) < length:
            raise MalformedRecord(f"a string of {length} bytes, where {len(text)} are left")
        self._at += length
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise MalformedRecord("a string that is not UTF-8") from None

    def _number(self, kind: struct.Struct) -> int:
        if len(self._data) < self._at + kind.size:
            raise MalformedRecord(f"cut off after {len(self._data)} bytes")
        (number,) = kind.unpack_from(self._data, self._at)
        self._at += kind.size
        return int(number)


def _partition(partition: TopicPartition) -> bytes:
    return _string(partition.topic) + _INT32.pack(partition.partition)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _MAX_STRING:
        raise MalformedRecord(f"a string of {len(data)} bytes, where {_MAX_STRING} can be written")
    return _INT16.pack(len(data)) + data
