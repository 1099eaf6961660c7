"""The producers that are a flow's own writers, and what they have written."""

from __future__ import annotations

from collections.abc import Collection, Container
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger.queries.run_starts import most_writers
from kafka_ferry.model.positions import is_writers_id, transactional_id
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.log_ends import ask_end
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_batches
from kafka_ferry.wire.transactions.endings import producer_ids, transactional_ids

if TYPE_CHECKING:
    from kafka_ferry.batches.record_format.header import BatchHeader
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import TopicPartition
    from kafka_ferry.wire import WireCluster
    from kafka_ferry.wire.partitions.partition_log import PartitionLog


def own_producers(cluster: WireCluster, flow: Flow, ledger: LedgerTable) -> frozenset[int] | None:
    """The producer ids of the flow's writers as far as runs are known, None where the brokers do not tell."""
    writers = max(flow.writers, most_writers(ledger))
    try:
        names = [transactional_id(flow.name, at) for at in range(writers)]
        # A coordinator that has just been stopped is asked for until another one has its place.
        return retry(lambda: producer_ids(cluster, names))
    except AccessDenied:
        return None


def own_among(flow: Flow, ledger: LedgerTable, producers: Collection[int]) -> frozenset[int]:
    """Which of some producers are the flow's own writers, as far as coordinators tell.

    Raises:
        FerryError: if the target does not answer.
    """
    if not producers:
        return frozenset()
    with connect(flow.target) as cluster:
        own = own_producers(cluster, flow, ledger)
        if own is None:
            return frozenset()
        return frozenset(
            producer
            for producer in producers
            if retry(partial(_is_own, cluster, flow.name, producer, own))
        )


def first_own(
    cluster: WireCluster,
    flow: str,
    partition: TopicPartition,
    first: int,
    producers: frozenset[int] | None,
) -> int:
    """The offset of the first committed batch of the flow's writers from ``first`` on, -1 for none that shows.

    Where they are not known, any that was written in a transaction counts. What was written last lies on the
    leader's own disk: where a log shows nothing there, compaction has taken it, and it was none that matters.
    """

    def ask() -> int:
        known = partition_log(cluster, partition)
        at, foreign = max(first, known.start), set[int]()
        while header := _next_of_others(cluster, known, at, foreign):
            # Nothing is on its way from the log any more, so that its broker can be asked.
            if _is_own(cluster, flow, header.producer_id, producers):
                return max(first, header.base_offset)
            foreign.add(header.producer_id)
            at = header.next_offset
        return -1

    return ask_end(ask, -1)


def _next_of_others(
    cluster: WireCluster, known: PartitionLog, at: int, producers: Container[int]
) -> BatchHeader | None:
    """The first batch from ``at`` on that was written in a transaction, but not by one of ``producers``."""
    for batch in committed_batches(cluster, known, at):
        header = batch.header
        if (
            header.is_transactional
            and header.producer_id not in producers
            and header.next_offset > at
        ):
            return header
    return None


def _is_own(
    cluster: WireCluster, flow: str, producer_id: int, producers: frozenset[int] | None
) -> bool:
    """Whether a producer is one of the flow's writers: also of a run whose record the ledger has lost."""
    if producers is None or producer_id in producers:
        return True
    return any(is_writers_id(flow, name) for name in transactional_ids(cluster, producer_id))
