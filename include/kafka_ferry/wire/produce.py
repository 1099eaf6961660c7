"""Batches sent to the leaders of partitions, in a transaction or outside of any (Produce)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka.protocol.producer import ProduceRequest

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.by_topic import entries_of, in_topics
from kafka_ferry.wire.cluster import WireCluster

_ALL_REPLICAS: Final = -1
_TIMEOUT_MS: Final = 30_000
_Topic = ProduceRequest.TopicProduceData
_Partition = ProduceRequest.TopicProduceData.PartitionProduceData


def produce_request(
    batches: Mapping[TopicPartition, bytes], transactional_id: str | None = None
) -> Any:
    """A produce request (v9, acks=all) with exactly one batch for each partition in it.

    Args:
        batches: the batches, as ``for_producer`` makes them.
        transactional_id: of the producer whose transaction they belong to, None for no transaction.
    """
    entries = {tp: _Partition(index=tp.partition, records=batch) for tp, batch in batches.items()}
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=_ALL_REPLICAS,
        timeout_ms=_TIMEOUT_MS,
        topic_data=in_topics(_Topic, entries, partitions="partition_data"),
    )


def produce(
    cluster: WireCluster,
    node: int,
    partition: TopicPartition,
    batch: bytes,
    transactional_id: str | None = None,
) -> Any:
    """What a broker says of one batch, which it is sent alone: ``PartitionProduceResponse``, with an error or without.

    Args:
        cluster: the cluster.
        node: the number of the partition's leader.
        partition: where the batch goes.
        batch: as ``for_producer`` makes it.
        transactional_id: as for ``produce_request``.

    Raises:
        ClusterUnreachable: it says nothing of that partition.
    """
    answer = cluster.connection(node).call(produce_request({partition: batch}, transactional_id))
    entries = dict(partition_answers(answer))
    cluster.require_answers([partition], entries)
    return entries[partition]


def partition_answers(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """What a broker says of each partition's batch: ``PartitionProduceResponse``."""
    return entries_of(answer.responses, partitions="partition_responses", number="index")
