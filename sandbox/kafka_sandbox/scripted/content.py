"""What a scripted cluster holds: topics of equal partitions, whose records are computed when they are fetched."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

REPLICAS: Final = 3
EPOCH: Final = 0
"""The leader epoch of every partition."""
_OFFSET_BYTES: Final = 8
_HOUR_MS: Final = 3_600_000
# Base offset and length, which the length does not count; then the leader epoch.
_BEFORE_LENGTH: Final = 12
_LAST_OFFSET_DELTA: Final = slice(23, 27)
_CHECKSUM: Final = slice(17, 21)
_ATTRIBUTES_END: Final = 23
_CONTROL: Final = 0x20
# Version 0, and Kafka's number of a commit.
_COMMIT: Final = b"\0\0\0\1"


UNKNOWN_TOPIC_OR_PARTITION: Final = 3


class BrokerAddress(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


class ReceivedRequest(NamedTuple):
    """A request that a broker was sent.

    Attributes:
        message: the request, decoded.
        version: its version.
        node: the broker's node id.
    """

    message: Any
    version: int
    node: int


class ScriptedPartition(NamedTuple):
    """A partition."""

    topic: str
    partition: int


@dataclass(frozen=True)
class ScriptedTopic:
    """A topic whose partitions all hold the same number of equal batches.

    Attributes:
        name: its name.
        partitions: how many partitions it has.
        batches: how many batches each of them holds.
        records: how many records a batch has.
        value_bytes: the size of a record's value.
        stored: whether what clients write to it is stored, and can be fetched; markers are in any case.
    """

    name: str
    partitions: int
    batches: int = 0
    records: int = 10
    value_bytes: int = 100
    stored: bool = False

    @property
    def end(self) -> int:
        """The offset after the last record of each partition."""
        return self.batches * self.records

    @property
    def topic_id(self) -> uuid.UUID:
        """The same id for the same name."""
        return uuid.uuid5(uuid.NAMESPACE_URL, self.name)

    @cached_property
    def first_ms(self) -> int:
        """The time of all records, in milliseconds since 1970."""
        return int(time.time() * 1000) - _HOUR_MS

    @cached_property
    def batch(self) -> bytes:
        """A batch without its base offset, which no checksum covers."""
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 30,
        )
        for number in range(self.records):
            value = bytes(self.value_bytes)
            builder.append(number, timestamp=self.first_ms, key=None, value=value, headers=[])
        return _as_stored(bytes(builder.build()))

    def fetch(self, offset: int, max_bytes: int) -> bytes:
        """The batches from the one with ``offset`` on, at least one where there is one."""
        first = offset // self.records
        size = len(self.batch) + _OFFSET_BYTES
        last = min(self.batches, first + max(1, max_bytes // size))
        bases = (number * self.records for number in range(first, last))
        return b"".join(base.to_bytes(_OFFSET_BYTES, "big") + self.batch for base in bases)


@dataclass
class _Log:
    """What clients have written to a partition: its end, and its batches if they are stored."""

    end: int
    batches: list[tuple[int, bytes]] = field(default_factory=list)


class ScriptedContent:
    """The topics of a scripted cluster, and the little that it remembers of writers.

    Args:
        topics: the topics.
        addresses: of the brokers, by node id from 1 on; they lead partitions in turn.
        cluster_id: the cluster's id.

    Attributes:
        topics: by name.
        addresses: as given.
        cluster_id: as given.
        committed: by group, the offset, leader epoch and metadata of each partition.
        producers: by transactional id, the producer's id and epoch.
        transactions: by transactional id, the partitions of the open transaction.
    """

    def __init__(
        self,
        topics: Iterable[ScriptedTopic],
        addresses: Mapping[int, BrokerAddress],
        cluster_id: str,
    ) -> None:
        self.topics = {topic.name: topic for topic in topics}
        self.addresses = addresses
        self.cluster_id = cluster_id
        self.committed: dict[str, dict[ScriptedPartition, tuple[int, int, str]]] = {}
        self.producers: dict[str, tuple[int, int]] = {}
        self.transactions: dict[str, set[ScriptedPartition]] = {}
        self._names = {topic.topic_id: topic.name for topic in self.topics.values()}
        self._first = {name: number for number, name in enumerate(self.topics)}
        self._logs: dict[ScriptedPartition, _Log] = {}

    def name_of(self, topic_id: uuid.UUID | None) -> str:
        """The name of the topic with this id, "" where there is none."""
        return self._names.get(topic_id, "") if topic_id else ""

    def replicas(self, place: ScriptedPartition) -> list[int]:
        """The brokers that have a partition, its leader first."""
        first = self._first[place.topic] + place.partition
        brokers = len(self.addresses)
        return [(first + number) % brokers + 1 for number in range(min(REPLICAS, brokers))]

    def coordinator(self, key: str) -> tuple[int, BrokerAddress]:
        """The broker that coordinates a group or a transactional id."""
        node = sum(key.encode()) % len(self.addresses) + 1
        return node, self.addresses[node]

    def knows(self, place: ScriptedPartition) -> bool:
        """Whether there is such a partition."""
        topic = self.topics.get(place.topic)
        return topic is not None and 0 <= place.partition < topic.partitions

    def end(self, place: ScriptedPartition) -> int:
        """The end of a partition's log."""
        log = self._logs.get(place)
        return log.end if log else self.topics[place.topic].end

    def fetch(self, place: ScriptedPartition, offset: int, max_bytes: int) -> bytes:
        """The batches of a partition from an offset on, about so many bytes."""
        topic = self.topics[place.topic]
        if log := self._logs.get(place):
            return b"".join(_until(_from(log.batches, offset), max_bytes))
        return topic.fetch(offset, max_bytes) if offset < topic.end else b""

    def append(self, place: ScriptedPartition, batch: bytes) -> int:
        """Write a batch to a partition; returns its base offset."""
        topic = self.topics[place.topic]
        log = self._logs.setdefault(place, _Log(topic.end))
        base = log.end
        log.end += int.from_bytes(batch[_LAST_OFFSET_DELTA], "big") + 1
        if topic.stored or batch[_ATTRIBUTES_END - 1] & _CONTROL:
            stored = base.to_bytes(_OFFSET_BYTES, "big") + _as_stored(batch)
            log.batches.append((log.end, stored))
        return base

    def end_transaction(self, transactional_id: str) -> None:
        """Add the marker of a transaction, which has an offset, to each of its partitions."""
        places = self.transactions.pop(transactional_id, ())
        marker = _marker(*self.producers[transactional_id])
        for place in places:
            self.append(place, marker)

    def commit(self, group: str, offsets: Mapping[ScriptedPartition, tuple[int, int, str]]) -> None:
        """Commit offsets of a group."""
        self.committed.setdefault(group, {}).update(offsets)


def _marker(producer_id: int, epoch: int) -> bytes:
    """The batch of a commit marker, as a coordinator writes it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1,
        batch_size=1 << 10,
    )
    builder.append(0, timestamp=0, key=_COMMIT, value=bytes(6), headers=[])
    batch = bytearray(builder.build())
    batch[_ATTRIBUTES_END - 1] |= _CONTROL
    batch[_CHECKSUM] = calc_crc32c(batch[_CHECKSUM.stop :]).to_bytes(4, "big")
    return bytes(batch)


def _as_stored(batch: bytes) -> bytes:
    """A batch with the leader epoch and without its base offset, neither of which its checksum covers."""
    epoch = EPOCH.to_bytes(4, "big")
    return batch[_OFFSET_BYTES:_BEFORE_LENGTH] + epoch + batch[_BEFORE_LENGTH + len(epoch) :]


def _from(batches: Iterable[tuple[int, bytes]], offset: int) -> Iterator[bytes]:
    return (batch for end, batch in batches if end > offset)


def _until(batches: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Batches of about so many bytes, at least one."""
    for batch in batches:
        yield batch
        max_bytes -= len(batch)
        if max_bytes <= 0:
            return
