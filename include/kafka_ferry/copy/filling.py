"""Filling offsets that have no record with control records, which no consumer ever shows.

``transactions``: an empty transaction moves each of its partitions on by one. Its producer is fenced
by epoch, so that nobody who was taken for dead can fill any more.

``markers``: one request for thousands, where the flow may use CLUSTER_ACTION. Nothing fences it but
the coordinator epoch that brokers keep for each producer id and partition. So the first one of a
writer goes alone: from then on older writers are refused there.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.copy.tracks import Track
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.markers import MARKERS_AT_ONCE, Markers, write_markers
from kafka_ferry.wire.transactions import TransactionalProducer

# Seconds since 2020 fit into 31 bits, and a later writer counts higher.
_COORDINATOR_EPOCH_SINCE_S: Final = 1_577_836_800


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
    def fill(self, tracks: Mapping[TopicPartition, Track]) -> Filled:
        """Fill some of what is missing in ``tracks``, and never more than is missing.

        They may not be in the logs yet when it returns: the logs' ends tell.

        Raises:
            Fenced: if another run took over.
            FerryError: if nobody knows how many there are.
        """


class TransactionFiller(Filler):
    """Fills by empty transactions.

    Args:
        producer: the writer's producer; none of its transactions may be open.
    """

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def take_over(self) -> None:
        """See ``Filler``: starting the producer has fenced it."""

    def fill(self, tracks: Mapping[TopicPartition, Track]) -> Filled:
        """See ``Filler``; the partitions move on together, by one.

        A second transaction at once would find the first one's markers being written, and wait
        longer than for seeing them in the logs.
        """
        if refused := self._producer.add_partitions(tracks):
            # The broker adds all partitions of a request or none.
            return Filled(dict.fromkeys(tracks, 0), refused)
        self._producer.end(commit=True)
        return Filled(dict.fromkeys(tracks, 1))


class MarkerFiller(Filler):
    """Fills by WriteTxnMarkers.

    Args:
        cluster: the target; no answers may be due on its connections.
    """

    def __init__(self, cluster: WireCluster) -> None:
        self._cluster = cluster
        self._coordinator_epoch = 0

    def take_over(self) -> None:
        """See ``Filler``; an older one is refused from the first control record in a partition on."""
        self._coordinator_epoch = int(time.time()) - _COORDINATOR_EPOCH_SINCE_S

    def fill(self, tracks: Mapping[TopicPartition, Track]) -> Filled:
        """See ``Filler``."""
        by_node: dict[int, dict[TopicPartition, Markers]] = defaultdict(dict)
        share = max(1, MARKERS_AT_ONCE // len(tracks))
        for tp, track in tracks.items():
            by_node[track.node][tp] = Markers(
                min(track.missing, share) if track.is_fenced else 1,
                track.producer_id,
                track.epoch,
                self._coordinator_epoch,
            )
            track.is_fenced = True
        filled = Filled({})
        for node, markers in by_node.items():
            filled.refused |= write_markers(self._cluster, node, markers)
            filled.records |= {tp: wanted.records for tp, wanted in markers.items()}
        return filled
