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
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.batches.returned_records import ANY_PRODUCER, Returned, ReturnedSpan
from kafka_ferry.config.flow import names_of
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import CopiedRange, CopyingEntry, ledger_topic
from kafka_ferry.ledger.topic import entries_with_producers, require_settled
from kafka_ferry.model.positions import ProducerState
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import batch_at, stored_batches

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow


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
        flow = self._flow
        opposite = opposite_name(flow)
        ledger = ledger_topic(flow.target.alias)
        require_settled(flow.source, ledger)
        spans: dict[TopicPartition, list[ReturnedSpan]] = defaultdict(list)
        preserved: dict[TopicPartition, CopiedRange] = {}
        adopted_epochs: dict[TopicPartition, int] = {}
        since = min(range_.returned_since for range_ in self._wanted.values())
        for _, entry, producer_id in entries_with_producers(flow.source, ledger, since):
            if not isinstance(entry, CopyingEntry) or entry.flow != opposite:
                continue
            for copied in entry.ranges:
                tp = TopicPartition(copied.remote_topic, copied.partition)
                range_ = self._wanted.get(tp)
                if range_ and copied.remote_topic_id in ("", range_.topic_id):
                    writer = _writer_of(copied, producer_id)
                    spans[tp] += (
                        ReturnedSpan(first, first + count, writer)
                        for _, first, count in copied.segments
                        if first + count > range_.start
                    )
                    if copied.preserved:
                        preserved[tp] = copied
                    if copied.remote_epoch >= 0:
                        adopted_epochs[tp] = copied.remote_epoch
        for tp, uncommitted in self._uncommitted_spans(preserved).items():
            spans[tp] += uncommitted
        return {
            tp: Returned(of_partition, partial(_is_by, flow.source, tp, epoch), epoch)
            for tp, of_partition in spans.items()
            for epoch in (adopted_epochs.get(tp, -1),)
        }

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


def _writer_of(copied: CopiedRange, producer_id: int) -> int:
    """The producer of a range's records, given that of its ledger record."""
    if copied.preserved:
        return copied.producer.producer_id if copied.producer else ANY_PRODUCER
    # The records of a range that was taken over are another mirror's.
    return ANY_PRODUCER if copied.adopted else producer_id


def _is_by(
    source: Cluster, partition: TopicPartition, adopted_epoch: int, offset: int, producer_id: int
) -> bool:
    """Whether the batch at an offset is by a producer; not where the log has none there, or cannot be asked."""
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
