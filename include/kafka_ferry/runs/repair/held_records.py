"""What both logs hold of a range of the ledger, record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import xxhash

from kafka_ferry.batches import Batch, Segment, each_record
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.cluster_state import HANGING
from kafka_ferry.retry import retry
from kafka_ferry.runs.repair.missing_offsets import Span, missing_offsets, spans_of, without
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.fetch import corrupt_in, fetch_one
from kafka_ferry.wire.partitions.partition_log import PartitionLog, partition_log
from kafka_ferry.wire.partitions.scan import committed_batches, stored_batches

# Spans this close to each other are read as one.
_NEAR: Final = 1000

Digests = Mapping[int, tuple[int, bytes]]
"""By offset, a record's timestamp in milliseconds since 1970 and the digest of its key, value and headers."""


@dataclass(frozen=True)
class HeldRecords:
    """What both logs hold of a range.

    Attributes:
        target: the partition on the target.
        log_start: where its log starts.
        log_end: where it ends.
        claims: where the range's records are in it, by the ledger.
        again: where other ranges of the ledger have records of the same source offsets.
        there: the records in it.
        here: the source's records, by source offset.
    """

    target: TopicPartition
    log_start: int
    log_end: int
    claims: Sequence[Segment]
    again: Sequence[Segment]
    there: Digests
    here: Digests

    @cached_property
    def missing(self) -> list[Span]:
        """The source offsets whose records the target lacks."""
        present = [(-1, self.log_start), *spans_of(sorted(self.there))]
        return missing_offsets(self.claims, self.again, present)

    @cached_property
    def wanted(self) -> list[int]:
        """The missing offsets that the source still has, ascending."""
        return [at for start, end in self.missing for at in range(start, end) if at in self.here]

    @property
    def unavailable(self) -> int:
        """How many of them it no longer has."""
        return sum(end - start for start, end in self.missing) - len(self.wanted)

    @property
    def unchecked(self) -> int:
        """How many records of the range the target has that the source no longer has."""
        return sum(
            target in self.there and source not in self.here for source, target in self._pairs()
        )

    @property
    def is_appended(self) -> bool:
        """Whether the target has all of its records, and some only where another range of the ledger says."""
        return not self.missing and self.lacking > 0

    @property
    def lacking(self) -> int:
        """How many of its records are not at their own places, and have not expired."""
        return sum(
            target >= self.log_start and target not in self.there for _, target in self._pairs()
        )

    @property
    def expired(self) -> int:
        """How many of its records lie before the log's start: retention or DeleteRecords has taken them."""
        return sum(target < self.log_start for _, target in self._pairs())

    @property
    def places(self) -> Span:
        """Where the wanted records were on the target: the first and the last offset."""
        wanted = set(self.wanted)
        places = [target for source, target in self._pairs() if source in wanted]
        return min(places), max(places)

    def first_other(self, *, compare_times: bool) -> tuple[int, int] | None:
        """The source and the target offset of the first record that is not the same on both sides."""
        for source, target in self._pairs():
            held, sent = self.there.get(target), self.here.get(source)
            if held and sent and (held[1] != sent[1] or (compare_times and held[0] != sent[0])):
                return source, target
        return None

    def _pairs(self) -> Iterator[tuple[int, int]]:
        for source, target, records in self.claims:
            yield from ((source + at, target + at) for at in range(records))


def read_held(flow: Flow, entry: LedgerRange, other_segments: Iterable[Segment]) -> HeldRecords:
    """Read what both clusters hold of a range.

    Args:
        flow: the flow.
        entry: the range; its records are as many as a transaction's, and so are their digests in memory.
        other_segments: where other ranges have records of the same partition, by the ledger.

    Raises:
        FerryError: if a partition cannot be read, or an open transaction hides records of the target's.
    """
    copied = entry.copied
    again = [part for other in other_segments if (part := other.within(copied.start, copied.end))]
    with connect(flow.target) as cluster:
        log = retry(lambda: partition_log(cluster, entry.target))
        spans = [_span(segment) for segment in (*copied.segments, *again)]
        _require_visible(cluster, log, max((end for _, end in spans), default=0))
        target_records = _records(cluster, log, spans, committed=True)
    with connect(flow.source) as cluster:
        source = TopicPartition(copied.topic, copied.partition)
        of_source = retry(lambda: partition_log(cluster, source))
        committed = flow.isolation_level == "read_committed"
        source_records = _records(
            cluster, of_source, [(copied.start, copied.end)], committed=committed
        )
    return HeldRecords(
        entry.target, log.start, log.end, copied.segments, again, target_records, source_records
    )


def read_lacking(flow: Flow, entry: LedgerRange) -> list[Span]:
    """The *target* offsets at which a range's records are missing and have not expired, ascending.

    Raises:
        FerryError: if the partition cannot be read.
    """
    spans = sorted(map(_span, entry.copied.segments))
    with connect(flow.target) as cluster:
        log = retry(lambda: partition_log(cluster, entry.target))
        records = _records(cluster, log, spans, committed=not entry.copied.preserved)
    present = [(-1, log.start), *spans_of(sorted(records))]
    return [part for span in spans for part in without(span, present)]


def _require_visible(cluster: WireCluster, log: PartitionLog, end: int) -> None:
    """Check that no open transaction hides what a log has before ``end``: it is not missing.

    Raises:
        FerryError: if one does.
    """
    stable = retry(lambda: fetch_one(cluster, log.leader, log.partition, log.end, max_bytes=1).end)
    if stable < min(end, log.end):
        raise FerryError(
            f"An open transaction hides what {log.partition} on {cluster.alias} has from offset {stable} on: which "
            "of it is missing is not known.",
            advice=f"It may be another producer's. {HANGING}",
        )


def _records(
    cluster: WireCluster, log: PartitionLog, spans: Sequence[Span], *, committed: bool
) -> dict[int, tuple[int, bytes]]:
    """The records of a log at the offsets of ``spans``."""
    records: dict[int, tuple[int, bytes]] = {}
    for start, end in _join(spans):
        begin, until = max(start, log.start), min(end, log.end)
        if begin >= until:
            continue
        for batch in _batches(cluster, log, begin, until, committed=committed):
            with corrupt_in(log.partition, cluster.alias):
                for offset, time, _, content in each_record(batch):
                    if begin <= offset < until:
                        records[offset] = (time, xxhash.xxh3_128_digest(content))
    return records


def _batches(
    cluster: WireCluster, log: PartitionLog, start: int, end: int, *, committed: bool
) -> Iterator[Batch]:
    if not committed:
        stored = stored_batches(cluster, log, start, end)
        yield from (batch for batch in stored if not batch.header.is_control)
        return
    for batch in committed_batches(cluster, log, start):
        if batch.header.base_offset >= end:
            return
        yield batch


def _span(segment: Segment) -> Span:
    return segment.target, segment.target + segment.records


def _join(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start - joined[-1][1] <= _NEAR:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
