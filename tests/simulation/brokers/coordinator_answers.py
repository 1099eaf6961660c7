"""What a broker answers about transactional ids and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import error_codes as errors
from tests.simulation.brokers.cluster import UNKNOWN_TOPIC, SimCluster
from tests.simulation.brokers.coordinators import PRODUCER_EPOCH, TXN_STATE, Committed, Offsets
from tests.simulation.brokers.messages import Fields, by_topic, each

_TRANSACTIONAL_ID_NOT_FOUND: Final = 105


def find_coordinator(cluster: SimCluster, node: int, request: Any) -> Fields:

    def found(key: str) -> Fields:
        at = node if cluster.stale_offsets(node, key) is not None else cluster.coordinator(key)
        host, port = cluster.brokers[at]
        return {"node_id": at, "host": host, "port": port}

    if request.API_VERSION < 4:
        return found(request.key)
    return {"coordinators": [{"key": key, **found(key)} for key in request.coordinator_keys]}


def init_producer_id(cluster: SimCluster, _: int, request: Any) -> Fields:
    """InitProducerId, for transactions or idempotence alone."""
    if request.transactional_id is None:
        return {"producer_id": cluster.new_producer()}
    code, producer, epoch = cluster.transactions.start(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    return {"error_code": code, "producer_id": producer, "producer_epoch": epoch}


def add_partitions(cluster: SimCluster, _: int, request: Any) -> Fields:
    topics = request.v3_and_below_topics
    asked = [TopicPartition(it.name, number) for it in topics for number in it.partitions]
    unknown = [tp for tp in asked if cluster.log(tp) is None]
    code = errors.OPERATION_NOT_ATTEMPTED
    if not unknown:
        code = cluster.transactions.join(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            asked,
        )

    def of(tp: TopicPartition, _: int) -> Fields:
        return {"partition_error_code": UNKNOWN_TOPIC if tp in unknown else code}

    return {"results_by_topic_v3_and_below": each(topics, of, into="results_by_partition")}


def add_offsets(cluster: SimCluster, _: int, request: Any) -> Fields:
    code = cluster.transactions.join(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        group=request.group_id,
    )
    return {"error_code": code}


def end_txn(cluster: SimCluster, _: int, request: Any) -> Fields:
    code = cluster.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
    )
    return {"error_code": code}


def _offsets_in(request: Any) -> Iterator[tuple[TopicPartition, Committed]]:
    for topic in request.topics:
        for it in topic.partitions:
            yield (
                TopicPartition(topic.name, it.partition_index),
                Committed(
                    it.committed_offset, it.committed_leader_epoch, it.committed_metadata or ""
                ),
            )


def txn_offset_commit(cluster: SimCluster, _: int, request: Any) -> Fields:
    known = cluster.transactions.by_id.get(request.transactional_id)
    offsets = dict(_offsets_in(request))
    if known is None or known.producer != request.producer_id:
        code = errors.INVALID_PRODUCER_ID_MAPPING
    elif known.epoch != request.producer_epoch:
        code = PRODUCER_EPOCH
    elif known.state != "Ongoing" or request.group_id not in known.groups:
        code = TXN_STATE
    elif (
        sum(len(it.metadata) + len(tp.topic) + 60 for tp, it in offsets.items())
        > cluster.offset_bytes
    ):
        code = errors.INVALID_COMMIT_OFFSET_SIZE
    else:
        code = errors.NONE
        there = {tp: it for tp, it in offsets.items() if cluster.log(tp) is not None}
        cluster.groups.hold(request.group_id, request.producer_id, there)

    def of(tp: TopicPartition, _: Any) -> Fields:
        return {"error_code": code or (UNKNOWN_TOPIC if cluster.log(tp) is None else 0)}

    return {"topics": each(request.topics, of)}


def offset_commit(cluster: SimCluster, _: int, request: Any) -> Fields:
    """OffsetCommit, of a client that is no member."""
    offsets = dict(_offsets_in(request))
    cluster.groups.commit(
        request.group_id, {tp: it for tp, it in offsets.items() if cluster.log(tp) is not None}
    )

    def of(tp: TopicPartition, _: Any) -> Fields:
        return {"error_code": UNKNOWN_TOPIC if cluster.log(tp) is None else 0}

    return {"topics": each(request.topics, of)}


def offset_fetch(cluster: SimCluster, _: int, request: Any) -> Fields:
    """OffsetFetch, of one group to version 7 and of many since."""
    pending = frozenset(cluster.groups.pending()) if request.require_stable else frozenset()
    return offsets_of(cluster.groups.offsets, pending, request)


def offsets_of(
    offsets: Mapping[str, Offsets], pending: frozenset[tuple[str, TopicPartition]], request: Any
) -> Fields:
    def found(group: str, topics: Any) -> list[Fields]:
        known = offsets.get(group, {})
        wanted = (
            by_topic(known)
            if topics is None
            else {it.name: [*it.partition_indexes] for it in topics}
        )
        return [
            {
                "name": name,
                "partitions": [entry(group, known, TopicPartition(name, at)) for at in numbers],
            }
            for name, numbers in wanted.items()
        ]

    def entry(group: str, known: Any, tp: TopicPartition) -> Fields:
        fields = {"partition_index": tp.partition, "committed_offset": -1}
        if (group, tp) in pending:
            return {**fields, "error_code": errors.UNSTABLE_OFFSET_COMMIT}
        it = known.get(tp, Committed(-1, -1, ""))
        return {
            **fields,
            "committed_offset": it.offset,
            "committed_leader_epoch": it.epoch,
            "metadata": it.metadata,
        }

    if request.API_VERSION < 8:
        return {"topics": found(request.group_id, request.topics)}
    return {
        "groups": [
            {"group_id": it.group_id, "topics": found(it.group_id, it.topics)}
            for it in request.groups
        ]
    }


def describe_transactions(cluster: SimCluster, _: int, request: Any) -> Fields:

    def state(name: str) -> Fields:
        known = cluster.transactions.by_id.get(name)
        if known is None:
            return {"error_code": _TRANSACTIONAL_ID_NOT_FOUND, "transactional_id": name}
        topics = by_topic(known.partitions)
        return {
            "transactional_id": name,
            "transaction_state": known.state,
            "transaction_timeout_ms": known.timeout_ms,
            "transaction_start_time_ms": int(known.began * 1000),
            "producer_id": known.producer,
            "producer_epoch": known.epoch,
            "topics": [{"topic": it, "partitions": of} for it, of in topics.items()],
        }

    return {"transaction_states": [state(it) for it in request.transactional_ids]}


def list_transactions(cluster: SimCluster, node: int, request: Any) -> Fields:
    """ListTransactions, of those that this broker coordinates."""
    wanted = request.producer_id_filters
    return {
        "transaction_states": [
            {"transactional_id": name, "producer_id": it.producer, "transaction_state": it.state}
            for name, it in sorted(cluster.transactions.by_id.items())
            if cluster.coordinator(name) == node and (not wanted or it.producer in wanted)
        ]
    }


def list_groups(cluster: SimCluster, node: int, _: Any) -> Fields:
    """ListGroups, of those that this broker coordinates."""
    return {
        "groups": [
            {
                "group_id": name,
                "protocol_type": "consumer",
                "group_state": "Empty",
                "group_type": "classic",
            }
            for name in sorted(cluster.groups.offsets)
            if cluster.coordinator(name) == node and not cluster.lacks_leader(name)
        ]
    }


def describe_groups(cluster: SimCluster, _: int, request: Any) -> Fields:
    """DescribeGroups; none of them has members."""
    return {
        "groups": [
            {
                "group_id": name,
                "group_state": "Empty" if name in cluster.groups.offsets else "Dead",
                "protocol_type": "consumer",
            }
            for name in request.groups
        ]
    }
