"""What a simulated broker answers to each request: kafka-python's message classes, in and out.

Fields that are left out have the protocol's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import error_codes as errors
from kafka_ferry.wire.connections.responses import response_class_of
from tests.simulation.brokers import coordinator_answers as of_coordinators
from tests.simulation.brokers import log_answers as of_logs
from tests.simulation.brokers.cluster import DEFAULTS, UNKNOWN_TOPIC, SimCluster
from tests.simulation.brokers.messages import Fields, message, name_of, unapplied, with_code

_OFFSETS: Final = "__consumer_offsets"
_EXISTS: Final = 36
_NO_MORE: Final = 37
_TOPIC: Final = 2
_NO_COORDINATOR: Final = 15
_NOT_COORDINATOR: Final = 16

COORDINATED: Final[Mapping[str, str]] = {
    "InitProducerId": "transactional_id",
    "AddPartitionsToTxn": "v3_and_below_transactional_id",
    "AddOffsetsToTxn": "transactional_id",
    "EndTxn": "transactional_id",
    "TxnOffsetCommit": "group_id",
    "OffsetFetch": "group_id",
    "OffsetCommit": "group_id",
}
"""The requests that only a coordinator answers, and whose it is."""

Handler = Callable[[SimCluster, int, Any], Fields]


def answer(cluster: SimCluster, node: int, request: Any) -> Any:
    """The answer of a broker."""
    name = name_of(request)
    kind, version = response_class_of(request.__class__), request.API_VERSION
    key = getattr(request, COORDINATED[name]) if name in COORDINATED else None
    if not key:
        return message(kind, version, HANDLERS[name](cluster, node, request))
    if cluster.coordinator(key) != node:
        stale = cluster.stale_offsets(node, key)
        if name == "OffsetFetch" and stale is not None:
            return message(kind, version, of_coordinators.offsets_of(stale, frozenset(), request))
        return with_code(unapplied(request), _NOT_COORDINATOR)
    if name in ("OffsetFetch", "TxnOffsetCommit") and cluster.lacks_leader(key):
        return with_code(unapplied(request), _NO_COORDINATOR)
    return message(kind, version, HANDLERS[name](cluster, node, request))


def metadata(cluster: SimCluster, node: int, request: Any) -> Fields:
    asked = request.topics
    names = sorted(cluster.topics) if asked is None else [it.name for it in asked]
    alive = [it for it in cluster.brokers if it == node or not cluster.is_away(it)]
    fields: dict[str, Any] = {
        "brokers": [
            {"node_id": it, "host": cluster.brokers[it][0], "port": cluster.brokers[it][1]}
            for it in alive
        ],
        "cluster_id": cluster.id,
        "controller_id": min(alive),
        "topics": [
            _offsets_topic(cluster, alive) if name == _OFFSETS else _described(cluster, node, name)
            for name in names
        ],
    }
    if request.API_VERSION <= 10 and request.include_cluster_authorized_operations:
        fields["authorized_operations"] = {*range(3, 13)}
    return fields


def _offsets_topic(cluster: SimCluster, alive: Sequence[int]) -> Fields:
    """``__consumer_offsets``: here each group has a partition of its own, and only its coordinator has that."""
    coordinators = [
        -1 if cluster.lacks_leader(group) else cluster.coordinator(group)
        for group in sorted(cluster.groups.offsets)
    ]
    leaders = [it if it in alive else -1 for it in coordinators]
    partitions = [
        {"partition_index": number, "leader_id": leader, "leader_epoch": 0}
        for number, leader in enumerate(leaders)
    ]
    return {"name": _OFFSETS, "partitions": partitions}


def _described(cluster: SimCluster, node: int, name: str) -> Fields:
    topic = cluster.topics.get(name)
    if topic is None:
        return {"error_code": UNKNOWN_TOPIC, "name": name}
    partitions = []
    for number, log in enumerate(topic.logs):
        tp = TopicPartition(name, number)
        stale = cluster.stale_log(node, tp)
        leader, epoch = (node, stale.epoch) if stale else (cluster.leader(tp), log.epoch)
        partitions.append(
            {
                "error_code": errors.NONE if leader >= 0 else errors.LEADER_NOT_AVAILABLE,
                "partition_index": number,
                "leader_id": leader,
                "leader_epoch": epoch,
                "replica_nodes": [*cluster.brokers],
                "isr_nodes": [*cluster.brokers],
            }
        )
    return {"name": name, "topic_id": topic.id, "partitions": partitions}


def describe_configs(cluster: SimCluster, _: int, request: Any) -> Fields:
    """DescribeConfigs, of topics; brokers have none of interest."""

    def found(asked: Any) -> Fields:
        fields = {
            "resource_type": asked.resource_type,
            "resource_name": asked.resource_name,
            "error_message": None,
        }
        topic, keys = cluster.topics.get(asked.resource_name), asked.configuration_keys
        if asked.resource_type != _TOPIC:
            return fields
        if topic is None:
            return {**fields, "error_code": UNKNOWN_TOPIC}
        fields["configs"] = [
            {
                "name": name,
                "value": topic.config(name),
                "config_source": 1 if name in topic.configs else 5,
                "documentation": None,
            }
            for name in DEFAULTS
            if keys is None or name in keys
        ]
        return fields

    return {"results": [found(it) for it in request.resources]}


def alter_configs(cluster: SimCluster, _: int, request: Any) -> Fields:
    """IncrementalAlterConfigs, of topics."""

    def alter(asked: Any) -> Fields:
        topic = cluster.topics.get(asked.resource_name)
        if topic and not request.validate_only:
            for it in asked.configs:
                if it.config_operation == 1:
                    topic.configs.pop(it.name, None)
                else:
                    topic.configs[it.name] = it.value
        return {
            "error_code": 0 if topic else UNKNOWN_TOPIC,
            "error_message": None,
            "resource_type": asked.resource_type,
            "resource_name": asked.resource_name,
        }

    return {"responses": [alter(it) for it in request.resources]}


def create_topics(cluster: SimCluster, _: int, request: Any) -> Fields:

    def create(asked: Any) -> Fields:
        code = _EXISTS if asked.name in cluster.topics else 0
        count = len(asked.assignments) or max(asked.num_partitions, 1)
        if not code and not request.validate_only:
            cluster.create(asked.name, count, {it.name: it.value for it in asked.configs})
        return {
            "name": asked.name,
            "error_code": code,
            "error_message": None,
            "num_partitions": count,
            "replication_factor": len(cluster.brokers),
        }

    return {"topics": [create(it) for it in request.topics]}


def create_partitions(cluster: SimCluster, _: int, request: Any) -> Fields:

    def grow(asked: Any) -> Fields:
        topic = cluster.topics.get(asked.name)
        code = UNKNOWN_TOPIC
        if topic:
            code = _NO_MORE if asked.count <= len(topic.logs) else errors.NONE
            if not code and not request.validate_only:
                cluster.grow(asked.name, asked.count)
        return {"name": asked.name, "error_code": code, "error_message": None}

    return {"results": [grow(it) for it in request.topics]}


def delete_topics(cluster: SimCluster, _: int, request: Any) -> Fields:

    def delete(name: str) -> Fields:
        if is_there := name in cluster.topics:
            cluster.on_delete(name)
            cluster.delete(name)
        code = errors.NONE if is_there else UNKNOWN_TOPIC
        return {"name": name, "error_code": code, "error_message": None}

    return {"responses": [delete(it) for it in request.topic_names]}


HANDLERS: Final[Mapping[str, Handler]] = {
    "Metadata": metadata,
    "FindCoordinator": of_coordinators.find_coordinator,
    "Fetch": of_logs.fetch,
    "ListOffsets": of_logs.list_offsets,
    "OffsetForLeaderEpoch": of_logs.offset_for_leader_epoch,
    "Produce": of_logs.produce,
    "InitProducerId": of_coordinators.init_producer_id,
    "AddPartitionsToTxn": of_coordinators.add_partitions,
    "AddOffsetsToTxn": of_coordinators.add_offsets,
    "EndTxn": of_coordinators.end_txn,
    "TxnOffsetCommit": of_coordinators.txn_offset_commit,
    "OffsetCommit": of_coordinators.offset_commit,
    "OffsetFetch": of_coordinators.offset_fetch,
    "DescribeTransactions": of_coordinators.describe_transactions,
    "ListTransactions": of_coordinators.list_transactions,
    "DescribeProducers": of_logs.describe_producers,
    "DescribeConfigs": describe_configs,
    "IncrementalAlterConfigs": alter_configs,
    "CreateTopics": create_topics,
    "CreatePartitions": create_partitions,
    "DeleteTopics": delete_topics,
    "DeleteRecords": of_logs.delete_records,
    "ListGroups": of_coordinators.list_groups,
    "DescribeGroups": of_coordinators.describe_groups,
    "WriteTxnMarkers": of_logs.write_markers,
    "DescribeLogDirs": of_logs.describe_log_dirs,
}
