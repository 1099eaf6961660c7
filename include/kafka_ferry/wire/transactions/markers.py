"""Writes control records without a transaction (WriteTxnMarkers, KIP-98), like a cluster's own coordinators.

Each takes one offset, which no consumer ever shows. They belong to a producer id without an open
transaction, so that they end nothing; all use one id, so that brokers keep no more state for many than
for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, WriteTxnMarkersRequest

from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire.by_topic import entries_of
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED, NONE, fault
from kafka_ferry.wire.transactions.endings import producers_question

# The broker appends them one after the other, 23 us each, before it answers.
MARKERS_AT_ONCE: Final = 5_000
# Metadata in these versions says what the principal may do on the cluster (KIP-430), with a bit for
# each of org.apache.kafka.common.acl.AclOperation's codes.
_METADATA_WITH_RIGHTS: Final = 10
_CLUSTER_ACTION: Final = 9
_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Topic = WriteTxnMarkersRequest.WritableTxnMarker.WritableTxnMarkerTopic


@dataclass(frozen=True, slots=True)
class Markers:
    """Control records for one partition.

    Attributes:
        records: how many.
        producer_id: their producer's id.
        epoch: its epoch.
        coordinator_epoch: brokers refuse a lower one than they have seen for this producer id in the
            partition, so that the writer with the highest one fences the others.
    """

    records: int
    producer_id: int
    epoch: int
    coordinator_epoch: int


def new_producer_id(cluster: WireCluster) -> int:
    """A unique producer id, for idempotent writing without transactions.

    Raises:
        AccessDenied: without IDEMPOTENT_WRITE on the cluster or WRITE on any topic.
        FerryError: if no broker gives one for a minute.
    """

    def ask() -> int:
        answer = cluster.ask_any(
            lambda: InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout_ms=0,
                producer_id=-1,
                producer_epoch=-1,
            )
        )
        if answer.error_code:
            doing = f"Asking {cluster.alias} for a producer id"
            raise fault(answer.error_code, doing, Right.cluster("IDEMPOTENT_WRITE"))
        return int(answer.producer_id)

    return retry(ask)


def may_write_markers(cluster: WireCluster) -> bool:
    """Whether the flow may use CLUSTER_ACTION; False where brokers do not say (before 2.3), or know no markers.

    Raises:
        ClusterUnreachable: if no broker answers.
    """
    answer = cluster.ask_any(
        lambda: MetadataRequest(
            topics=[],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=False,
        ),
        newest=_METADATA_WITH_RIGHTS,
    )
    knows = cluster.any_connection().offers(WriteTxnMarkersRequest)
    return knows and _CLUSTER_ACTION in (answer.authorized_operations or ())


class Remembered(NamedTuple):
    """What a partition's leader remembers of a producer; both are -1 where it does not.

    Attributes:
        coordinator_epoch: below it, its control records are refused.
        last_sequence: of its last record.
    """

    coordinator_epoch: int = -1
    last_sequence: int = -1


def transactions_in_memory(
    cluster: WireCluster, by_leader: Mapping[int, Mapping[TopicPartition, int]]
) -> dict[TopicPartition, Remembered]:
    """What each partition's leader remembers of a producer.

    Args:
        cluster: the cluster to ask.
        by_leader: by broker, the partitions that it leads, each with the producer's id.

    Returns:
        Without the partitions that the flow may not read, or whose leader is too old to be asked (before 2.8).

    Raises:
        FerryError: if a leader does not answer.
    """
    remembered: dict[TopicPartition, Remembered] = {}
    for node, producer_ids in by_leader.items():
        question = producers_question(cluster, node, producer_ids)
        for tp, states in (question.ask() if question else {}).items():
            own = (state for state in states if state.producer_id == producer_ids[tp])
            remembered[tp] = max(
                (Remembered(state.coordinator_epoch, state.last_sequence) for state in own),
                default=Remembered(),
            )
    return remembered


def write_markers(
    cluster: WireCluster, node: int, markers: Mapping[TopicPartition, Markers]
) -> dict[TopicPartition, int]:
    """Append control records to partitions that the broker ``node`` leads.

    Returns:
        Kafka's error code for each partition that refused some; its log's end says how many it accepted.

    Raises:
        AccessDenied: without CLUSTER_ACTION on the cluster.
        FerryError: if the broker does not answer, or does not support the request.
    """
    request = WriteTxnMarkersRequest(
        markers=[
            _Marker(
                producer_id=wanted.producer_id,
                producer_epoch=wanted.epoch,
                transaction_result=True,
                topics=[_Topic(name=tp.topic, partition_indexes=[tp.partition])],
                coordinator_epoch=wanted.coordinator_epoch,
            )
            for tp, wanted in markers.items()
            for _ in range(wanted.records)
        ]
    )
    connection = cluster.connection(node)
    if not connection.offers(request):
        raise FerryError(
            f"{connection.address} accepts no control records from clients.",
            advice="Set fill: transactions.",
        )
    codes = {
        tp: entry.error_code
        for marker in connection.call(request).markers
        for tp, entry in entries_of(marker.topics)
    }
    if CLUSTER_AUTHORIZATION_FAILED in codes.values():
        raise fault(
            CLUSTER_AUTHORIZATION_FAILED,
            f"Writing control records on {cluster.alias}",
            Right.cluster("CLUSTER_ACTION"),
            advice="Or set fill: transactions.",
        )
    cluster.require_answers(markers, codes)
    return {tp: code for tp, code in codes.items() if code != NONE}
