"""What a broker answers about the logs that it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_ferry.batches import split_batches
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import error_codes as errors
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.log import Log
from tests.simulation.brokers.messages import Fields, by_leader, each

_UNKNOWN_TOPIC_ID: Final = 100


def fetch(cluster: SimCluster, node: int, request: Any) -> Fields:
    """Fetch: batches up to the sizes that are asked for, and at least one."""
    most = min(request.max_bytes, cluster.answer_bytes or request.max_bytes)
    committed, room = request.isolation_level == 1, [most]
    responses = []
    for topic in request.topics:
        by_name = request.API_VERSION < 13
        name = topic.topic if by_name else cluster.name_of(topic.topic_id)
        partitions = []
        for asked in topic.partitions:
            log = (
                cluster.led(node, TopicPartition(name, asked.partition))
                if name
                else _UNKNOWN_TOPIC_ID
            )
            fields = (
                _refused(log)
                if isinstance(log, int)
                else _fetched(log, asked, room, committed=committed)
            )
            partitions.append({"partition_index": asked.partition, **fields})
        key = {"topic": topic.topic} if by_name else {"topic_id": topic.topic_id}
        responses.append({**key, "partitions": partitions})
    return {"responses": responses}


def _refused(code: int) -> Fields:
    return {"error_code": code, "high_watermark": -1}


def _fetched(log: Log, asked: Any, room: list[int], *, committed: bool) -> Fields:
    at = asked.fetch_offset
    fields: dict[str, Any] = {
        "high_watermark": log.end,
        "last_stable_offset": log.stable,
        "log_start_offset": log.start,
        "aborted_transactions": None,
    }
    if asked.last_fetched_epoch >= 0:
        epoch, end = log.epoch_end(asked.last_fetched_epoch)
        if epoch < 0:
            return _refused(errors.OFFSET_OUT_OF_RANGE)
        if epoch < asked.last_fetched_epoch or end < at:
            return {**fields, "diverging_epoch": {"epoch": epoch, "end_offset": end}}
    if not log.start <= at <= log.end:
        return _refused(errors.OFFSET_OUT_OF_RANGE)
    first = room[0] == max(room)
    limit = min(asked.partition_max_bytes, room[0])
    records, end = log.read(at, limit, committed=committed)
    if not first and len(records) > max(limit, 0):
        records, end = b"", at
    if records:
        room.insert(0, room[0] - len(records))
    fields["records"] = records
    if committed:
        fields["aborted_transactions"] = [
            {"producer_id": it.producer, "first_offset": it.first} for it in log.aborted_in(at, end)
        ]
    return fields


def list_offsets(cluster: SimCluster, node: int, request: Any) -> Fields:
    """ListOffsets, with the special values of KIP-79, KIP-734 and KIP-405."""

    def found(log: Log, asked: Any) -> Fields:
        wanted = asked.timestamp
        if wanted == -1:
            return {"offset": log.stable if request.isolation_level == 1 else log.end}
        if wanted == -2:
            return {"offset": log.start}
        if wanted == -4:
            return {"offset": max(log.start, log.remote_to)}
        if wanted == -5:
            return {"offset": log.remote_to - 1 if log.remote_to else -1}
        if wanted == -3:
            wanted = max((it.batch.header.max_timestamp for it in log.stored), default=-1)
        offset, timestamp = log.at_time(wanted) if wanted >= 0 else (-1, -1)
        return {"offset": offset, "timestamp": timestamp}

    return {"topics": each(request.topics, by_leader(cluster, node, found))}


def offset_for_leader_epoch(cluster: SimCluster, node: int, request: Any) -> Fields:

    def found(log: Log, asked: Any) -> Fields:
        epoch, end = log.epoch_end(asked.leader_epoch)
        return {"leader_epoch": epoch, "end_offset": end}

    of = by_leader(cluster, node, found)
    return {"topics": each(request.topics, of, "partition", "topic")}


def produce(cluster: SimCluster, node: int, request: Any) -> Fields:
    """Produce, with acks=all."""

    def written(tp: TopicPartition, asked: Any) -> Fields:
        log = cluster.led(node, tp)
        if isinstance(log, int):
            return {"error_code": log, "base_offset": -1}
        if log is cluster.stale_log(node, tp):
            return {"error_code": errors.NOT_ENOUGH_REPLICAS, "base_offset": -1}
        code, base = _append(cluster, log, tp, asked, request)
        return {"error_code": code, "base_offset": base, "log_start_offset": log.start}

    topics = each(
        request.topic_data, written, "index", "name", "partition_data", "partition_responses"
    )
    return {"responses": topics}


def _append(
    cluster: SimCluster, log: Log, tp: TopicPartition, asked: Any, request: Any
) -> tuple[int, int]:
    (batch,) = split_batches(bytes(asked.records))
    header = batch.header
    if header.size > int(cluster.topics[tp.topic].config("max.message.bytes")):
        return errors.MESSAGE_TOO_LARGE, -1
    if header.is_transactional:
        name = request.transactional_id
        log.begin(batch)
        code = cluster.transactions.may_write(name, header.producer_id, header.producer_epoch, tp)
        if code:
            return code, -1
    return log.append(batch, cluster.now_ms())


def describe_producers(cluster: SimCluster, node: int, request: Any) -> Fields:

    def found(log: Log, _: int) -> Fields:
        return {
            "active_producers": [
                {
                    "producer_id": producer,
                    "producer_epoch": it.epoch,
                    "last_sequence": it.recent[-1][1] if it.recent else -1,
                    "last_timestamp": it.at_ms,
                    "coordinator_epoch": it.coordinator_epoch,
                    "current_txn_start_offset": it.open_from,
                }
                for producer, it in log.producers.items()
            ]
        }

    of = by_leader(cluster, node, found)
    return {"topics": each(request.topics, of, partitions="partition_indexes")}


def delete_records(cluster: SimCluster, node: int, request: Any) -> Fields:

    def move(log: Log, asked: Any) -> Fields:
        to = log.end if asked.offset == -1 else asked.offset
        if to > log.end:
            return {"error_code": errors.OFFSET_OUT_OF_RANGE, "low_watermark": -1}
        log.move_start(to)
        return {"low_watermark": log.start}

    return {"topics": each(request.topics, by_leader(cluster, node, move, low_watermark=-1))}


def write_markers(cluster: SimCluster, node: int, request: Any) -> Fields:
    """WriteTxnMarkers, of a client that may."""

    def write(marker: Any) -> Callable[[Log, int], Fields]:
        return lambda log, _: {
            "error_code": log.mark(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=cluster.now_ms(),
            )
        }

    return {
        "markers": [
            {
                "producer_id": it.producer_id,
                "topics": each(
                    it.topics, by_leader(cluster, node, write(it)), partitions="partition_indexes"
                ),
            }
            for it in request.markers
        ]
    }


def describe_log_dirs(cluster: SimCluster, node: int, request: Any) -> Fields:
    """DescribeLogDirs: sizes of what the broker leads."""
    wanted = None if request.topics is None else {it.topic for it in request.topics}
    topics: dict[str, list[Fields]] = {}
    for tp in cluster.partitions():
        log = cluster.led(node, tp)
        if not isinstance(log, int) and (wanted is None or tp.topic in wanted):
            size = sum(len(it.bytes) for it in log.stored)
            entry = {"partition_index": tp.partition, "partition_size": size}
            topics.setdefault(tp.topic, []).append(entry)
    found = [{"name": name, "partitions": of} for name, of in topics.items()]
    return {"results": [{"log_dir": "/logs", "topics": found}]}
