"""Filling offsets that have no record with control records, which no consumer ever shows.

``transactions``: an empty transaction moves each of its partitions on by one. Its producer is fenced
by epoch, so that nobody who was taken for dead can fill any more. When a partition's leader moves
while the coordinator has a transaction ended there, the new leader may get the same end once more
(TransactionMarkerRequestCompletionHandler tries again, and does not know what the old leader did).
That takes an offset, too: where it is a record's, the copy has to be given up.

``markers``: one request for thousands, where the flow may use CLUSTER_ACTION; after an answer that
leaves in doubt what was done, the log's end is looked at first. Nothing fences it but
the coordinator epoch that brokers keep for each producer id and partition, and that only from the
new writer's first control record on. Three things keep an older writer out before it:

- it asks every half second whether it is still the one that writes, and a new writer waits for
  longer than that before its first control record, and chooses its coordinator epoch only then;
- right before it, the new writer looks whether the log still ends where it did;
- the first one in a partition goes alone, and then the ends are looked at again.
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
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.ends import high_watermarks
from kafka_ferry.wire.transactions.endings import is_replicated
from kafka_ferry.wire.transactions.markers import (
    MARKERS_AT_ONCE,
    Markers,
    may_write_markers,
    write_markers,
)
from kafka_ferry.wire.transactions.producer import TransactionalProducer

# Seconds since 2020 fit into 31 bits, and a later writer counts higher.
_COORDINATOR_EPOCH_SINCE_S: Final = 1_577_836_800
# For so long a writer relies on having been the one that writes ...
_SURE_S: Final = 0.5
# ... and so long after a take-over the older one knows; never less than a second, so that the
# coordinator epochs of two writers differ.
_QUIET_S: Final = 1.25
# A transaction is complete within milliseconds; one that is not is looked at where it was to end.
_COMPLETE_S: Final = 2.0


@dataclass(slots=True)
class Filled:
    """What came of filling.

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
        """See to it that a writer before this one fills no more."""

    @abstractmethod
    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """Fill some of what is missing in ``queues``, and never more than is missing.

        They may not be in the logs yet when it returns: the logs' ends tell.

        Raises:
            Fenced: if another run took over.
            FerryError: if nobody knows how many there are.
        """


class TransactionFiller(Filler):
    """Fills by empty transactions.

    Args:
        cluster: the target; no answers may be due on its connections.
        producer: the writer's producer; none of its transactions may be open.
    """

    def __init__(self, cluster: WireCluster, producer: TransactionalProducer) -> None:
        self._cluster = cluster
        self._producer = producer

    def take_over(self) -> None:
        """See ``Filler``: starting the producer has fenced it."""

    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """See ``Filler``; the partitions move on together, by one.

        It returns when the coordinator writes no more: what it wrote twice is in the logs by then,
        where the next records come after it.
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
        cluster: the target; no answers may be due on its connections.
        renew: raises ``Fenced`` if another writer has taken over.
    """

    def __init__(self, cluster: WireCluster, renew: Callable[[], None]) -> None:
        self._cluster = cluster
        self._renew = renew
        self._coordinator_epoch = 0
        self._has_begun = False
        self._taken_over_at: float | None = None
        self._sure_at = 0.0

    def take_over(self) -> None:
        """See ``Filler``; an older one is kept out when there is something to fill."""
        self._has_begun = False
        # Whoever was there before the first of them has been fenced since then.
        self._taken_over_at = self._taken_over_at or time.monotonic()

    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> Filled:
        """See ``Filler``.

        Raises:
            StartOver: if the logs have moved on since the take-over.
        """
        self._make_sure()
        self._require_still({tp: queue for tp, queue in queues.items() if not queue.is_fenced})
        by_node: dict[int, dict[TopicPartition, Markers]] = defaultdict(dict)
        share = max(1, MARKERS_AT_ONCE // len(queues))
        for tp, queue in queues.items():
            by_node[queue.node][tp] = Markers(
                min(queue.missing, share) if queue.is_fenced else 1,
                queue.producer_id,
                queue.epoch,
                self._coordinator_epoch,
            )
            queue.is_fenced = True
        filled = Filled({})
        for node, markers in by_node.items():
            filled.refused |= write_markers(self._cluster, node, markers)
            filled.records |= {tp: wanted.records for tp, wanted in markers.items()}
        return filled

    def _make_sure(self) -> None:
        """Be the only one that fills."""
        if not self._has_begun:
            assert self._taken_over_at is not None
            time.sleep(max(0.0, self._taken_over_at + _QUIET_S - time.monotonic()))
        now = time.monotonic()
        if not self._has_begun or now - self._sure_at > _SURE_S:
            self._renew()
            self._sure_at = now
        if not self._has_begun:
            by_clock = int(time.time()) - _COORDINATOR_EPOCH_SINCE_S
            self._coordinator_epoch = max(by_clock, self._coordinator_epoch + 1)
            self._has_begun = True

    def _require_still(self, new: Mapping[TopicPartition, PreservedQueue]) -> None:
        """That nobody has written since the take-over to ``new``, in which this writer has filled nothing."""
        ends = high_watermarks(self._cluster, {tp: queue.node for tp, queue in new.items()})
        moved = [str(tp) for tp, queue in new.items() if ends[tp] != queue.end]
        if moved:
            raise StartOver(
                f"An earlier writer was still writing to {', '.join(moved)} after the take-over."
            )


class AutoFiller(Filler):
    """Fills by markers where the flow may write them, else by transactions.

    Args:
        cluster: the target; no answers may be due on its connections.
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
