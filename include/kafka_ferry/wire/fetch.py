"""Reading raw record batches: one fetch request after another, many partitions in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from kafka_ferry.batches import AbortedTransaction
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.faults import fault

_READ_COMMITTED: Final = 1
_EARLIEST: Final = -2
_ListTopic = ListOffsetsRequest.ListOffsetsTopic
_ListPartition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
_Topic = FetchRequest.FetchTopic
_Partition = FetchRequest.FetchTopic.FetchPartition


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch request brought for one partition.

    Attributes:
        partition: the partition.
        records: raw batches; the first may begin before the offset that was asked for, the last
            may be cut off; empty where there is nothing (yet).
        aborted: the transactions among them that were aborted.
        stable_end: the last stable offset: the end of what a ``read_committed`` consumer may see.
        error: Kafka's error code, 0 where all is well.
        alone: whether the request asked for this partition only, so that empty means empty.
    """

    partition: TopicPartition
    records: bytes
    aborted: tuple[AbortedTransaction, ...]
    stable_end: int
    error: int
    alone: bool


def fetch(
    cluster: WireCluster,
    node: int,
    offsets: Mapping[TopicPartition, int],
    *,
    max_bytes: int,
    partition_max_bytes: int,
    max_wait_ms: int = 250,
) -> Iterator[Fetched]:
    """Fetch committed batches from one broker (Fetch v12, ``read_committed``, KIP-98).

    Args:
        cluster: the cluster to read from.
        node: the broker that leads the partitions.
        offsets: the next offset to read, by partition; the broker fills the response in this
            order, so a caller rotates them to be fair.
        max_bytes: soft bound of the response; at least one batch always comes.
        partition_max_bytes: the same for each partition.
        max_wait_ms: how long the broker may wait for the first byte.

    Raises:
        ClusterUnreachable: if the broker does not answer.
    """
    response = cluster.connection(node).call(
        _request(offsets, max_bytes, partition_max_bytes, max_wait_ms)
    )
    for topic in response.responses:
        for data in topic.partitions:
            yield Fetched(
                partition=TopicPartition(topic.topic, data.partition_index),
                records=data.records or b"",
                aborted=tuple(
                    AbortedTransaction(entry.producer_id, entry.first_offset)
                    for entry in data.aborted_transactions or ()
                ),
                stable_end=data.last_stable_offset,
                error=data.error_code or response.error_code,
                alone=len(offsets) == 1,
            )


def _request(
    offsets: Mapping[TopicPartition, int],
    max_bytes: int,
    partition_max_bytes: int,
    max_wait_ms: int,
) -> FetchRequest:
    topics: dict[str, list[object]] = defaultdict(list)
    for tp, offset in offsets.items():
        topics[tp.topic].append(
            _Partition(
                partition=tp.partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=partition_max_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=_READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[_Topic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
    )


def log_start(cluster: WireCluster, node: int, partition: TopicPartition) -> int:
    """The first offset that the log of ``partition`` still holds (ListOffsets).

    Args:
        cluster: the cluster to ask.
        node: the broker that leads the partition.
        partition: the partition.

    Raises:
        BrokerError: if the broker does not say.
    """
    asked = _ListPartition(
        partition_index=partition.partition, current_leader_epoch=-1, timestamp=_EARLIEST
    )
    response = cluster.connection(node).call(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=_READ_COMMITTED,
            topics=[_ListTopic(name=partition.topic, partitions=[asked])],
        )
    )
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise fault(answer.error_code, f"Reading the start of {partition} on {cluster.alias}")
    return int(answer.offset)
