"""What an audit compares, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kafka_ferry.audit.comparison.walk import BLOCK
from kafka_ferry.config import IsolationLevelName

CompareBy = Literal["order", "keys"]
"""``order``: record by record; ``keys``: the latest record of each key, for compacted topics."""


@dataclass(frozen=True, slots=True)
class AuditTerms:
    """What is the same for all partitions of an audit.

    Attributes:
        isolation: which of both clusters' records count.
        since_ms: the first timestamp that is compared, in milliseconds since 1970; None for no limit.
        until_ms: the first one after them.
        one_in: one block in this many is compared by its content, the others are counted only; 1 for all.
        block: source records to a block.
        recent: the first timestamp, and the first after them, of records that may not have been copied yet at the end
            of a source's log, in milliseconds since 1970; None if all should have been.
        bytes_per_s: the most to read from both clusters together in a second; 0 for no limit.
    """

    isolation: IsolationLevelName = "read_committed"
    since_ms: int | None = None
    until_ms: int | None = None
    one_in: int = 1
    block: int = BLOCK
    recent: tuple[int, int] | None = None
    bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class LogExtent:
    """What is compared of a partition's log.

    Attributes:
        log_start: the first offset that the log held when the audit began.
        since: the first offset that is looked at; after ``log_start`` if a time window begins later.
        end: the offset after the last one that is looked at.
        gone: whether the cluster has no such partition.
        kept: whether the topic's retention deletes nothing: what lay before ``log_start`` is missing.
    """

    log_start: int = 0
    since: int = 0
    end: int = 0
    gone: bool = False
    kept: bool = False

    @property
    def offsets(self) -> int:
        """How many offsets there are to look at."""
        return max(0, self.end - self.since)

    @property
    def lost_head(self) -> bool:
        """Whether the log may have lost records that belong to the comparison."""
        return not self.kept and 0 < self.log_start == self.since


@dataclass(frozen=True, slots=True)
class AuditPair:
    """Two partitions that are compared.

    Attributes:
        topic: the source's topic.
        partition: the partition's number on both sides.
        remote_topic: the topic on the target.
        source: the source's log.
        target: the target's log.
        by: how they are compared.
        times: whether timestamps are compared.
        source_compacts: whether the source compacts the topic, where they are compared by keys.
    """

    topic: str
    partition: int
    remote_topic: str
    source: LogExtent
    target: LogExtent
    by: CompareBy = "order"
    times: bool = True
    source_compacts: bool = True

    @property
    def offsets(self) -> int:
        """How many offsets of both sides there are to look at."""
        return self.source.offsets + self.target.offsets

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
