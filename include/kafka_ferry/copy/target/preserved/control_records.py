"""Fills offsets without a record with control records, which no consumer ever shows.

``transactions``: an empty transaction advances each of its partitions by one. Its producer is fenced
by epoch, so that a writer that was treated as dead can fill no more. When a partition's leader moves
while the coordinator writes a transaction's marker there, the new leader may get the same marker again
(TransactionMarkerRequestCompletionHandler retries, and does not know what the old leader did). That
takes an offset too: where it is a record's, the copy has to be given up.

``markers``: one request for thousands, where the flow may use CLUSTER_ACTION; after an ambiguous
answer, the log's end is read first. Only the coordinator epoch that brokers keep for each producer id
and partition fences it, and only from the new writer's first control record on. Three things keep an
older writer out before that:

- it checks every half second whether it is still the current writer, and a new writer waits longer
  than that before its first control record;
- right before that record, the new writer checks that the log still ends where it did, and chooses a
  coordinator epoch above the one that the partition's leader has, and above any that an earlier writer
  could choose by the same answer (``later_epoch``);
- the first control record in a partition is sent alone, and then the log ends are read again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.copy.target.preserved.partition_queue import PreservedQueue
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.list_offsets import high_watermarks
from kafka_ferry.wire.transactions.endings import is_replicated
from kafka_ferry.wire.transactions.markers import (
    MARKERS_AT_ONCE,
    Markers,
    may_write_markers,
    transactions_in_memory,
    write_markers,
)
from kafka_ferry.wire.transactions.producer import TransactionalProducer

# Seconds since 2020 fit into 31 bits: the coordinator epoch on brokers that do not tell theirs (before 2.8).
_COORDINATOR_EPOCH_SINCE_S: Final = 1_577_836_800
# The epochs of a transactional id's producer: it gets another id before it comes to the last one.
_PRODUCER_EPOCHS: Final = 2**15
_LAST_EPOCH: Final = 2**31 - 1
# For so long a writer relies on still being the current one ...
_SURE_S: Final = 0.5
# ... and so long after a take-over the older one has noticed.
_QUIET_S: Final = 1.25
# A transaction is complete within milliseconds; otherwise its partitions' log ends are read.
_COMPLETE_S: Final = 2.0


@dataclass(slots=True)
class Filled:
    """The result of filling.

    Attributes:
        records: how many control records were written, by partition.
        refused: Kafka's error code for each partition that refuses them.
    """

    records: dict[TopicPartition, int]
    refused: dict[TopicPartition, int] = field(default_factory=dict)


class Filler(ABC):
    """Writes control records."""

    @abstractmethod
    def take_over(self) -> None:
        """Make sure that no earlier writer fills any more."""

    @abstractmethod
    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """Fill some of what is missing in ``queues``, and never more than is missing.

        The records may not be in the logs yet when it returns: the log ends say so.

        Raises:
            Fenced: if another run took over.
            FerryError: if it is unknown how many were written.
        """


class TransactionFiller(Filler):
    """Fills by empty transactions.

    Args:
        cluster: the target; no answers may be pending on its connections.
        producer: the writer's producer; none of its transactions may be open.
    """

    def __init__(self, cluster: WireCluster, producer: TransactionalProducer) -> None:
        self._cluster = cluster
        self._producer = producer

    def take_over(self) -> None:
        """See ``Filler``: starting the producer has fenced it."""

    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """See ``Filler``; all partitions advance by one.

        It returns when the coordinator writes no more: markers that it wrote twice are in the logs by
        then, before the next records.
        """
        if refused := self._producer.add_partitions(queues):
            # The broker adds all partitions of a request or none.
            return Filled(dict.fromkeys(queues, 0), refused)
        self._producer.end(commit=True)
        deadline, pause = time.monotonic() + _COMPLETE_S, 0.0005
        while not is_replicated(self._cluster, self._producer.transactional_id):
            if time.monotonic() > deadline:
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        return Filled(dict.fromkeys(queues, 1))


class MarkerFiller(Filler):
    """Fills by WriteTxnMarkers.

    Args:
        cluster: the target; no answers may be pending on its connections.
        producer: the writer's producer.
        renew: raises ``Fenced`` if another writer has taken over.
    """

    def __init__(
        self, cluster: WireCluster, producer: TransactionalProducer, renew: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._renew = renew
        self._has_begun = False
        self._taken_over_at: float | None = None
        self._sure_at = 0.0

    def take_over(self) -> None:
        """See ``Filler``; an older writer is kept out once there is something to fill."""
        self._has_begun = False
        # Earlier writers have been fenced since the first of these control records.
        self._taken_over_at = self._taken_over_at or time.monotonic()

    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """See ``Filler``.

        Raises:
            StartOver: if the logs have grown since the take-over.
        """
        self._make_sure()
        new = {tp: queue for tp, queue in queues.items() if queue.coordinator_epoch < 0}
        self._require_still(new)
        by_node: dict[int, dict[TopicPartition, Markers]] = defaultdict(dict)
        share = max(1, MARKERS_AT_ONCE // len(queues))
        for tp, queue in queues.items():
            by_node[queue.node][tp] = Markers(
                1 if tp in new else min(queue.missing, share),
                queue.producer_id,
                queue.epoch,
                queue.coordinator_epoch,
            )
        filled = Filled({})
        for node, markers in by_node.items():
            filled.refused |= write_markers(self._cluster, node, markers)
            filled.records |= {tp: wanted.records for tp, wanted in markers.items()}
        return filled

    def _make_sure(self) -> None:
        """Make this writer the only one that fills."""
        if not self._has_begun:
            assert self._taken_over_at is not None
            time.sleep(max(0.0, self._taken_over_at + _QUIET_S - time.monotonic()))
        now = time.monotonic()
        if not self._has_begun or now - self._sure_at > _SURE_S:
            self._renew()
            self._sure_at = now
        self._has_begun = True

    def _require_still(self, new: Mapping[TopicPartition, PreservedQueue]) -> None:
        """Check that no earlier writer wrote to ``new`` since the take-over, and keep it from doing so."""
        nodes = {tp: queue.node for tp, queue in new.items()}
        ends = high_watermarks(self._cluster, nodes)
        moved = [str(tp) for tp, queue in new.items() if ends[tp] != queue.end]
        if moved:
            raise StartOver(
                f"An earlier writer was still writing to {', '.join(moved)} after the take-over."
            )
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for tp, queue in new.items():
            by_leader[queue.node][tp] = queue.producer_id
        known = transactions_in_memory(self._cluster, by_leader)
        by_clock = int(time.time()) - _COORDINATOR_EPOCH_SINCE_S
        for tp, queue in new.items():
            last = known[tp].coordinator_epoch if tp in known else by_clock
            queue.coordinator_epoch = later_epoch(last, self._producer.epoch)
            if tp in known and known[tp].last_sequence < 0:
                queue.begin_epoch()


def later_epoch(last: int, producer_epoch: int) -> int:
    """A coordinator epoch above ``last``, and above that of any earlier writer that saw ``last`` too.

    Each writer's producer has a higher epoch than those it has fenced: so the next number that ends with the
    producer's epoch is higher, too. No clock has a part in it. Where a producer gets another id, after 32,767
    epochs, it begins at 0 again: then only the waiting before the first control record keeps an earlier writer
    out that has written none.

    Args:
        last: the highest coordinator epoch that the partition's leader has seen, -1 for none.
        producer_epoch: the epoch of the writer's producer.

    Raises:
        FerryError: there is none that fits into 31 bits: no writer can be kept out any more.
    """
    epoch = last + 1 + (producer_epoch - last - 1) % _PRODUCER_EPOCHS
    if epoch > _LAST_EPOCH:
        raise FerryError(
            f"A broker says that control records have the coordinator epoch {last}: hardly any is left after it.",
            advice="Set fill: transactions.",
        )
    return epoch


class AutoFiller(Filler):
    """Fills by markers where the flow may write them, else by transactions.

    Args:
        cluster: the target; no answers may be pending on its connections.
        markers: fills by markers.
        transactions: fills by transactions.
    """

    def __init__(self, cluster: WireCluster, markers: Filler, transactions: Filler) -> None:
        self._cluster = cluster
        self._markers = markers
        self._transactions = transactions
        self._chosen: Filler | None = None

    def take_over(self) -> None:
        """See ``Filler``."""
        self._markers.take_over()
        self._transactions.take_over()

    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """See ``Filler``."""
        if self._chosen is None:
            by_markers = may_write_markers(self._cluster)
            self._chosen = self._markers if by_markers else self._transactions
        return self._chosen.fill(queues)


def filler_of(
    fill: str, cluster: WireCluster, producer: TransactionalProducer, renew: Callable[[], None]
) -> Filler:
    """What fills offsets without a record, as the option ``fill`` says.

    Args:
        fill: ``transactions``, ``markers`` or ``auto``.
        cluster: the target.
        producer: the writer's producer.
        renew: raises ``Fenced`` if another writer has taken over.
    """
    markers = MarkerFiller(cluster, producer, renew)
    transactions = TransactionFiller(cluster, producer)
    if fill == "auto":
        return AutoFiller(cluster, markers, transactions)
    return markers if fill == "markers" else transactions
