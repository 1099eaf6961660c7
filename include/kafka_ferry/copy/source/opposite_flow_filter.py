"""Looks up the records on the source that the opposite flow has copied there, and leaves them out.

With kept names and a flow in each direction, a topic of the source holds its own records and copies
of the target's::

    source   a0 b0 M a1 b1 M       b0, b1: copied there by the flow target->source; M: its markers
    target   b0 a0 M b1            its own, and what this flow has copied
    a1 is copied next; b0 and b1 are *returned*

A record is left out only if that flow's ledger says so, and the producer of that ledger record has written it: the
log may have been truncated since, and hold the source's own records at these offsets. Where that flow preserves
offsets, it is the producer that the ledger names, and what it has written after the ledger's last range counts too.
What another mirror had written before that flow took over has no producer there, but a leader epoch: no batch of a
later one is that mirror's. The ledger is read after the ends of the ranges: what a committed reader sees below these
is in it by then.

What the target has lost since it came from it is copied back: its topic was recreated, or its log was truncated below
what the opposite flow had copied, by its leader epochs or by that flow's ledger; or, where it was restored from a
backup and counts its epochs once more, by the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from kafka_ferry.batched import batched
from kafka_ferry.batches import Segment
from kafka_ferry.batches.epochs import EpochEnd, branch_end
from kafka_ferry.batches.returned_records import (
    ANY_PRODUCER,
    LogSeen,
    Returned,
    ReturnedSpan,
)
from kafka_ferry.batches.segments import first_lost, without_overlaps
from kafka_ferry.config.flow import names_of
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied, CorruptBatch, FerryError
from kafka_ferry.ledger import CopiedRange, CopyingEntry, TransactionEntry, ledger_topic
from kafka_ferry.ledger.epochs import epoch_history
from kafka_ferry.ledger.topic import entries_with_producers, wait_until_settled
from kafka_ferry.model.positions import ProducerState, is_writers_id
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.at_offset import LOGS_AT_ONCE, batch_at, has_copied, with_batches
from kafka_ferry.wire.partitions.epochs import epoch_ends
from kafka_ferry.wire.partitions.list_offsets import LATEST, READ_COMMITTED, log_offsets
from kafka_ferry.wire.partitions.partition_log import led_logs, partition_log
from kafka_ferry.wire.partitions.scan import stored_batches
from kafka_ferry.wire.transactions.endings import transactional_ids

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.wire.partitions.partition_log import PartitionLog


@dataclass
class _Named:
    """What the opposite flow's ledger names, by the partition here.

    Attributes:
        spans: all that it has written here.
        copies: what of that the target may still have, by its own offsets.
        lost: where the copies are of what the target has lost.
        last: the last range that moved a position.
        adopted_epochs: the leader epoch of what another mirror had written before.
        changed: the partitions in which copies may be other records.
    """

    spans: dict[TopicPartition, list[ReturnedSpan]] = field(
        default_factory=lambda: defaultdict(list)
    )
    copies: dict[TopicPartition, list[Segment]] = field(default_factory=lambda: defaultdict(list))
    lost: dict[TopicPartition, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    last: dict[TopicPartition, CopiedRange] = field(default_factory=dict)
    adopted_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    changed: set[TopicPartition] = field(default_factory=set)

    def add_spans(
        self, tp: TopicPartition, copied: CopiedRange, writer: int, start: int
    ) -> list[tuple[int, int]]:
        """Add what a range has written at ``start`` or later; gives its offsets."""
        written = [
            (segment.target, segment.target + segment.records)
            for segment in copied.segments
            if segment.target + segment.records > start
        ]
        if written:
            self.spans[tp] += [ReturnedSpan(first, end, writer) for first, end in written]
        return written

    def add(
        self, tp: TopicPartition, copied: CopiedRange, writer: int, start: int, *, is_ordinary: bool
    ) -> None:
        """Add a range from a topic that the target still has."""
        if copied.rewound_from >= 0:
            # These had been copied of a branch that the target has lost.
            self.lost[tp] += _images_from(copied.start, self.copies.pop(tp, []))
        if self.add_spans(tp, copied, writer, start):
            self.copies[tp] += [it for it in copied.segments if it.target + it.records > start]
        if copied.transform or copied.schema_ids:
            self.changed.add(tp)
        if is_ordinary:
            self.last[tp] = copied
        if copied.remote_epoch >= 0:
            self.adopted_epochs[tp] = copied.remote_epoch


class ReturnedRecords:
    """What the opposite flow's ledger says of the source partitions of ``ranges``, read once, when needed.

    Args:
        flow: the flow.
        ranges: all that are to be read, by one task.
    """

    def __init__(self, flow: Flow, ranges: Sequence[Range]) -> None:
        self._flow = flow
        self._wanted = {range_.source: range_ for range_ in ranges if range_.returned_since >= 0}
        self._known: Mapping[TopicPartition, Returned] | None = None

    def of(self, ranges: Collection[Range]) -> Mapping[TopicPartition, Returned]:
        """The records to leave out, by source partition; none where the plan says that there are none.

        Raises:
            FerryError: if that ledger cannot be read to its end.
        """
        if self._wanted.keys().isdisjoint(range_.source for range_ in ranges):
            return {}
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[TopicPartition, Returned]:
        with connect(self._flow.source) as cluster:
            seen = retry(lambda: _logs_now(cluster, self._wanted))
        wait_until_settled(self._flow.source, ledger_topic(self._flow.target.alias))
        named = _Named()
        for tp, copied, producer_id, is_ordinary in self._ranges():
            writer, start = _writer_of(copied, producer_id), self._wanted[tp].start
            if not self._is_there(tp, copied):
                # What was copied from a topic that was recreated since is nowhere else.
                named.lost[tp] += named.add_spans(tp, copied, writer, start)
                continue
            named.add(tp, copied, writer, start, is_ordinary=is_ordinary)
        spans, copies, lost, last = named.spans, named.copies, named.lost, named.last
        preserved = {tp: copied for tp, copied in last.items() if copied.preserved}
        for tp, uncommitted in self._uncommitted_spans(preserved).items():
            spans[tp] += uncommitted
        # Last, so that what is lost while the ledger is read counts too.
        diverged = self._divergences({tp: last[tp] for tp in spans.keys() & last.keys()})
        diverged |= self._divergences_by_record(last, copies, diverged, named.changed)
        for tp, since in diverged.items():
            lost[tp] += _images_from(since or 0, copies[tp])
        unknown = {tp for tp, since in diverged.items() if since is None}
        # One client writes to many partitions.
        is_writers = cache(self._is_writers)
        return {
            tp: Returned(
                of_partition,
                partial(_is_by, self._flow.source, tp, epoch),
                epoch,
                None if tp in unknown else lost[tp],
                # Of one without a leader nothing was seen.
                seen.get(tp, LogSeen(0, -1)),
                is_writers,
            )
            for tp, of_partition in ((tp, spans[tp]) for tp in self._wanted)
            for epoch in (named.adopted_epochs.get(tp, -1),)
        }

    def _ranges(self) -> Iterator[tuple[TopicPartition, CopiedRange, int, bool]]:
        """What the opposite flow has copied.

        Yields:
            The partition, the range, the producer of its ledger record, and whether it is not a backfill's.
        """
        flow = self._flow
        since = min(range_.returned_since for range_ in self._wanted.values())
        ledger = ledger_topic(flow.target.alias)
        if not since and not ClusterControl(flow.source).topic_ids([ledger]):
            # It has never copied anything.
            return
        for _, entry, producer_id in entries_with_producers(flow.source, ledger, since):
            if not isinstance(entry, CopyingEntry) or entry.flow != opposite_name(flow):
                continue
            for copied in entry.ranges:
                tp = TopicPartition(copied.remote_topic, copied.partition)
                range_ = self._wanted.get(tp)
                if range_ and copied.remote_topic_id in ("", range_.topic_id):
                    yield tp, copied, producer_id, isinstance(entry, TransactionEntry)

    def _is_there(self, tp: TopicPartition, copied: CopiedRange) -> bool:
        """Whether the target still has the topic from which a range was copied."""
        remote_topic_id = self._wanted[tp].remote_topic_id
        return copied.topic_id in ("", remote_topic_id) or not remote_topic_id

    def _is_writers(self, producer_id: int) -> bool:
        """Whether a producer is a writer of the opposite flow, or the source does not answer."""
        opposite = opposite_name(self._flow)
        try:
            with connect(self._flow.source) as cluster:
                names = retry(lambda: transactional_ids(cluster, producer_id))
        except AccessDenied:
            return False
        except FerryError:
            return True
        return any(is_writers_id(opposite, name) for name in names)

    def _divergences(
        self, last: Mapping[TopicPartition, CopiedRange]
    ) -> dict[TopicPartition, int | None]:
        """Where the target's own logs part from those that the opposite flow has copied, by the partition here.

        Args:
            last: the last range of each partition, which was copied up to there.

        Returns:
            Offsets of the target's logs, None where they part and that is unknown.
        """
        own = {
            TopicPartition(copied.topic, copied.partition): tp
            for tp, copied in last.items()
            if copied.leader_epoch >= 0
        }
        diverged: dict[TopicPartition, int | None] = {}
        if not own:
            return diverged
        with connect(self._flow.target) as cluster:
            epochs = {there: last[tp].leader_epoch for there, tp in own.items()}
            ends = retry(lambda: epoch_ends(cluster, epochs))
            for there, epoch_end in ends.items():
                copied = last[tp := own[there]]
                if epoch_end.epoch == copied.leader_epoch and epoch_end.end >= copied.end:
                    continue
                ranges = (
                    it
                    for at, it, _, is_ordinary in self._ranges()
                    if at == tp and is_ordinary and self._is_there(at, it)
                )

                def end_of(epoch: int, there: TopicPartition = there) -> EpochEnd | None:
                    return retry(lambda: epoch_ends(cluster, {there: epoch})).get(there)

                first = branch_end(epoch_history(ranges), end_of)
                diverged[tp] = None if first is None else min(first, copied.end)
        return diverged

    def _divergences_by_record(
        self,
        last: Mapping[TopicPartition, CopiedRange],
        copies: Mapping[TopicPartition, Sequence[Segment]],
        diverged: Mapping[TopicPartition, int | None],
        changed: Container[TopicPartition],
    ) -> dict[TopicPartition, int | None]:
        """As ``_divergences``, by records: a cluster that was restored from a backup counts its epochs once more.

        Args:
            last: as of ``_divergences``.
            copies: what the opposite flow has copied, by the partition here.
            diverged: where leader epochs say that the logs part.
            changed: the partitions in which copies may be other records.
        """
        restored: dict[TopicPartition, int | None] = {}
        own = {
            tp: TopicPartition(last[tp].topic, tp.partition)
            for tp, segments in copies.items()
            if segments and tp in last
        }
        if not own:
            return restored
        with connect(self._flow.target) as target, connect(self._flow.source) as source:
            logs = retry(lambda: led_logs(target, own.values()))
            copy_logs = retry(lambda: led_logs(source, own))
            # What this cluster has lost of the copies leaves nothing to look at.
            before_ends = {
                tp: _images_before(copy_logs[tp].end, copies[tp]) for tp in own.keys() & copy_logs
            }
            kept = {
                tp: list(without_overlaps(it, diverged.get(tp))) for tp, it in before_ends.items()
            }
            ends = {tp: it[-1] for tp, it in kept.items() if it and own[tp] in logs}
            for some in batched(ends, LOGS_AT_ONCE):
                here = with_batches(target, logs, {own[tp]: ends[tp].last_source for tp in some})
                images = with_batches(source, copy_logs, {tp: ends[tp].last_target for tp in some})
                for tp in some:
                    has = partial(
                        _still_has, target, here[own[tp]], source, images[tp], tp in changed
                    )
                    has_last = has(ends[tp].last_source, ends[tp].last_target)
                    end = ends[tp].last_source + 1
                    if has_last is False:
                        restored[tp] = first_lost(kept[tp], has)
                    elif has_last and diverged.get(tp, end) is None:
                        restored[tp] = end
        return restored

    def _uncommitted_spans(
        self, last: Mapping[TopicPartition, CopiedRange]
    ) -> dict[TopicPartition, list[ReturnedSpan]]:
        """What a preserving writer has written and never committed, since its own source was lost.

        Args:
            last: the last range of each partition, which names the producer that wrote all of them.
        """
        spans: dict[TopicPartition, list[ReturnedSpan]] = {}
        if not last:
            return spans
        source = self._flow.source
        with connect(source) as cluster:
            for tp, copied in last.items():
                assert copied.producer is not None
                spans[tp] = retry(partial(_after, cluster, tp, copied.end, copied.producer))
        return spans


def _logs_now(
    cluster: WireCluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, LogSeen]:
    """The logs as they are now, of the partitions that have a leader."""
    with cluster.forget_on_error():
        led = {tp: it for tp, it in cluster.leaders(partitions).items() if it.node >= 0}
        nodes = {tp: it.node for tp, it in led.items()}
        ends = log_offsets(cluster, nodes, (LATEST,), READ_COMMITTED)
    return {tp: LogSeen(end, led[tp].epoch) for tp, (end,) in ends.items()}


def _images_from(first: int, copies: Iterable[Segment]) -> list[tuple[int, int]]:
    """Where the copies of what the other cluster has lost are, which is all from its offset ``first`` on."""
    return [
        (target + max(0, first - source), target + records)
        for source, target, records in copies
        if source + records > first
    ]


def _still_has(
    target: WireCluster,
    log: PartitionLog,
    source: WireCluster,
    copy_log: PartitionLog,
    is_changed: bool,
    offset: int,
    image: int,
) -> bool | None:
    """``has_copied``; None also where damage hides it."""
    with suppress(CorruptBatch):
        return has_copied(target, log, offset, (source, copy_log, image), is_changed=is_changed)
    return None


def _images_before(end: int, copies: Iterable[Segment]) -> Iterator[Segment]:
    """The parts of copies that lie before an offset of their log."""
    for segment in copies:
        if segment.target < end:
            yield segment._replace(records=min(segment.records, end - segment.target))


def _writer_of(copied: CopiedRange, producer_id: int) -> int:
    """The producer of a range's records, given the producer of its ledger record."""
    if copied.preserved:
        return copied.producer.producer_id if copied.producer else ANY_PRODUCER
    # The records of a range that was taken over are another mirror's.
    return ANY_PRODUCER if copied.adopted else producer_id


def _is_by(
    source: Cluster, partition: TopicPartition, adopted_epoch: int, offset: int, producer_id: int
) -> bool:
    """Whether a producer has written the batch at an offset; false if there is none, or the log cannot be asked."""
    with suppress(FerryError), connect(source) as cluster:
        batch = batch_at(cluster, retry(partial(partition_log, cluster, partition)), offset)
        if batch is not None and producer_id == ANY_PRODUCER:
            return batch.header.leader_epoch <= adopted_epoch
        return batch is not None and batch.header.producer_id == producer_id
    return False


def _after(
    cluster: WireCluster, partition: TopicPartition, end: int, producer: ProducerState
) -> list[ReturnedSpan]:
    """The batches of ``producer`` from ``end`` on, up to the first one of another producer."""
    log = partition_log(cluster, partition)
    spans = []
    for batch in stored_batches(cluster, log, max(end, log.start), log.end):
        header = batch.header
        if header.is_control:
            continue
        if header.producer_id != producer.producer_id or header.is_transactional:
            break
        spans.append(ReturnedSpan(header.base_offset, header.next_offset, header.producer_id))
    return spans


def opposite_name(flow: Flow) -> str:
    """The name of the flow from ``flow``'s target to its source."""
    return names_of(flow.target.alias, flow.source.alias)[0]
