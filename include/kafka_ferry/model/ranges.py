"""Ranges, the unit of work, and the arithmetic over them.

An offset is always the next one to read: a range includes ``start`` and excludes ``end``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import xxhash

NEIGHBOURS: Final = 4
"""How many consecutive partitions of a topic share a writer."""

IdPart = Literal["key", "value"]
"""A part of a record that may hold the id of a schema."""

ID_PARTS: Final[tuple[IdPart, ...]] = ("key", "value")


def parts_of(schema_ids: str) -> tuple[IdPart, ...]:
    """The parts of records that get other ids by ``Range.schema_ids``."""
    parts = schema_ids.partition(" ")[0].split("+")
    return tuple(part for part in ID_PARTS if part in parts)


@dataclass(frozen=True, order=True, slots=True)
class TopicPartition:
    """A partition of a topic, on the source or on the target."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, order=True, slots=True)
class Settled:
    """Source offsets ``[start, end)`` of which some records are already accounted for.

    Attributes:
        start: the first offset.
        end: the offset after the last one.
        since: the first timestamp of these records, in milliseconds since 1970.
        until: the first one after them.
    """

    start: int
    end: int
    since: int
    until: int


@dataclass(frozen=True, order=True, slots=True)
class Backfill:
    """What a backfill copies of its range: the records of a time window that the target lacks.

    Attributes:
        since: the first timestamp in the window, in milliseconds since 1970.
        until: the first one after it.
        ledger_since: the ledger offset from which on backfills may have settled more than ``settled``.
        settled: what the target has by the ledger before that, or has a reason not to have; the
            rectangles of offsets and timestamps are disjoint.
        leader_epoch: the source's before the flow's position, which no batch below the position exceeds; -1 where
            that is not known.
    """

    since: int
    until: int
    ledger_since: int
    settled: tuple[Settled, ...] = ()
    leader_epoch: int = -1


@dataclass(frozen=True, order=True, slots=True)
class Range:
    """The offsets ``[start, end)`` of one source partition, and where they go.

    An empty range (``start == end``) copies nothing; it refreshes the partition's position, which
    would otherwise expire after ``offsets.retention.minutes``.

    Attributes:
        topic: the source's topic.
        partition: the partition, the same number on both clusters.
        start: the first source offset to copy.
        end: the source offset after the last one to copy.
        topic_id: the source topic's id (KIP-516), as Kafka's tools print it.
        remote_topic: the topic's name on the target.
        writer: the number of the writer that the target partition belongs to.
        remote_topic_id: the remote topic's id when the range was planned, or when the run had created the topic;
            "" before that: ``start`` does not apply to another topic of the same name.
        preserved: whether its records keep their offsets on the target.
        log_start: where the remote partition's log is to start then; -1 leaves it unchanged.
        start_epoch: the source's leader epoch of the last batch before ``start``, where copying begins there; -1
            where that is not known, or by an earlier range.
        begin: what ``topics.start`` says of the topic, if copying begins by that here; "" otherwise.
        replaces: the id of an earlier topic of that name on the source, whose position the plan has found and this
            range's takes the place of; "" where there is none.
        origins: the ids of all clusters that the topic's records came through, the source's too.
        returned_since: the offset in the opposite flow's ledger, on the source, from which on it names
            records that came from the target and are left out; -1 where none are.
        is_hidden: whether an open transaction on the target hides what was copied before, or the end of it.
        expires_at: about when the source may delete the first of its records, in milliseconds since
            1970; -1 for never or unknown.
        transform: the fingerprint of the rule that its records go through, "" for none.
        schema_ids: what of its records gets the ids of schemas on the target, as ``id_parts`` reads it, with the
            fingerprint of how; "" for nothing.
        backfill: of a backfill's range, which of its records are copied; None of an ordinary one,
            whose end becomes the partition's position.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    remote_topic: str
    writer: int
    remote_topic_id: str = ""
    preserved: bool = False
    log_start: int = -1
    start_epoch: int = -1
    begin: str = ""
    replaces: str = ""
    origins: tuple[str, ...] = ()
    returned_since: int = -1
    is_hidden: bool = False
    expires_at: int = -1
    transform: str = ""
    schema_ids: str = ""
    backfill: Backfill | None = None

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)

    @property
    def owner(self) -> tuple[bool, int]:
        """What the ranges of one writer have in common: how offsets are kept, and the writer's number."""
        return self.preserved, self.writer

    @property
    def id_parts(self) -> tuple[IdPart, ...]:
        """The parts of its records that get other ids of schemas."""
        return parts_of(self.schema_ids)

    @property
    def is_work(self) -> bool:
        """Whether it changes anything other than the age of a position."""
        return self.start < self.end or (self.log_start >= 0 and self.start > 0)

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        # An empty range is true as well: truth does not mean its length.
        return True

    def __str__(self) -> str:
        return f"{self.source} [{self.start}, {self.end})"


def writer_of(target: TopicPartition, writers: int) -> int:
    """The one writer, 0 to ``writers - 1``, that ``target`` belongs to for as long as ``writers`` stays.

    Neighbouring partitions of a topic share a writer: a produce request holds one batch of each of
    its partitions, so that several partitions fill it where batches are small. The next ones go to
    the next writer, so that a large topic spreads evenly.
    """
    topic = xxhash.xxh3_64_intdigest(target.topic.encode())
    return (topic + target.partition // NEIGHBOURS) % writers
