"""What a simulated broker answers to each request: kafka-python's message classes, in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from kafka_ferry.batches import split_batches
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.connections.responses import response_class_of
from tests.simulation.cluster import DEFAULTS, SimCluster
from tests.simulation.coordinators import UNSTABLE, Committed
from tests.simulation.log import Log

UNKNOWN_TOPIC: Final = 3
OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_ID: Final = 100
_EXISTS: Final = 36
_OPERATION_NOT_ATTEMPTED: Final = 55
_GROUP_NOT_FOUND: Final = 69
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_TOO_LARGE: Final = 10
_TOPIC, _BROKER = 2, 4
_BATCH_BYTES: Final = 1_048_576

Handler = Callable[[SimCluster, int, Any], Mapping[str, Any]]


def answer(cluster: SimCluster, node: int, request: Any) -> Any:
    """The answer of a broker."""
    fields = HANDLERS[request.name.removesuffix("Request")](cluster, node, request)
    return message(response_class_of(request.__class__), request.API_VERSION, fields)


def message(kind: Any, version: int, fields: Mapping[str, Any]) -> Any:
    """A message of kafka-python's from plain lists and dictionaries."""
    given = dict(fields)
    for name, (inner, is_array) in _inner(kind).items():
        value = given.get(name)
        if value is not None:
            given[name] = (
                [message(inner, version, it) for it in value]
                if is_array
                else message(inner, version, value)
            )
    return kind(version=version, **given)


@cache
def _inner(kind: Any) -> dict[str, tuple[Any, bool]]:
    """By field, the messages in it, and whether it is an array of them."""
    return {
        name: (field.data_class, field.is_struct_array())
        for name, field in kind.fields.items()
        if field.is_struct() or field.is_struct_array()
    }


def _by_topic(
    topics: Iterable[tuple[str, Iterable[Any]]], name: str = "name"
) -> list[dict[str, Any]]:
    return [{name: topic, "partitions": [*partitions]} for topic, partitions in topics]


def metadata(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """Metadata."""
    asked = request.topics
    names = sorted(cluster.topics) if asked is None else [it.name for it in asked]
    alive = [it for it in cluster.brokers if it == node or not cluster.frozen.get(it)]
    fields: dict[str, Any] = {
        "brokers": [
            {"node_id": it, "host": cluster.brokers[it][0], "port": cluster.brokers[it][1]}
            for it in alive
        ],
        "cluster_id": cluster.id,
        "controller_id": min(alive),
        "topics": [_described(cluster, name) for name in names],
    }
    if request.API_VERSION <= 10 and request.include_cluster_authorized_operations:
        fields["authorized_operations"] = {*range(3, 13)}
    return fields


def _described(cluster: SimCluster, name: str) -> dict[str, Any]:
    topic = cluster.topics.get(name)
    if topic is None:
        return {"error_code": UNKNOWN_TOPIC, "name": name, "partitions": []}
    partitions = []
    for number, log in enumerate(topic.logs):
        leader = cluster.leader(TopicPartition(name, number))
        partitions.append(
            {
                "error_code": 0 if leader >= 0 else 5,
                "partition_index": number,
                "leader_id": leader,
                "leader_epoch": log.epoch,
                "replica_nodes": [*cluster.brokers],
                "isr_nodes": [*cluster.brokers],
                "offline_replicas": [],
            }
        )
    return {"error_code": 0, "name": name, "topic_id": topic.id, "partitions": partitions}


def find_coordinator(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """FindCoordinator."""

    def found(key: str) -> dict[str, Any]:
        node = cluster.coordinator(key)
        host, port = cluster.brokers[node]
        return {"error_code": 0, "node_id": node, "host": host, "port": port}

    if request.API_VERSION < 4:
        return found(request.key)
    return {"coordinators": [{"key": key, **found(key)} for key in request.coordinator_keys]}


def fetch(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """Fetch: batches up to the sizes that are asked for, and at least one."""
    committed, room = request.isolation_level == 1, [request.max_bytes]
    responses = []
    for topic in request.topics:
        name = topic.topic if request.API_VERSION < 13 else cluster.name_of(topic.topic_id)
        partitions = []
        for asked in topic.partitions:
            tp = TopicPartition(name, asked.partition)
            log = cluster.led(node, tp) if name else UNKNOWN_TOPIC_ID
            partitions.append(
                _refused(asked.partition, log)
                if isinstance(log, int)
                else _fetched(log, asked, room, committed=committed)
            )
        fields: dict[str, Any] = {"partitions": partitions}
        if request.API_VERSION < 13:
            fields["topic"] = topic.topic
        else:
            fields["topic_id"] = topic.topic_id
        responses.append(fields)
    return {"responses": responses}


def _refused(number: int, code: int) -> dict[str, Any]:
    return {
        "partition_index": number,
        "error_code": code,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "records": b"",
    }


def _fetched(log: Log, asked: Any, room: list[int], *, committed: bool) -> dict[str, Any]:
    at = asked.fetch_offset
    fields: dict[str, Any] = {
        "partition_index": asked.partition,
        "error_code": 0,
        "high_watermark": log.end,
        "last_stable_offset": log.stable,
        "log_start_offset": log.start,
        "aborted_transactions": None,
        "records": b"",
    }
    if asked.last_fetched_epoch >= 0:
        epoch, end = log.epoch_end(asked.last_fetched_epoch)
        if epoch < 0:
            return _refused(asked.partition, OUT_OF_RANGE)
        if epoch < asked.last_fetched_epoch or end < at:
            return {**fields, "diverging_epoch": {"epoch": epoch, "end_offset": end}}
    if not log.start <= at <= log.end:
        return _refused(asked.partition, OUT_OF_RANGE)
    first = room[0] == max(room)
    limit = min(asked.partition_max_bytes, room[0])
    records = log.read(at, limit, committed=committed)
    if not first and len(records) > max(limit, 0):
        records = b""
    if records:
        room.insert(0, room[0] - len(records))
    fields["records"] = records
    if committed:
        fields["aborted_transactions"] = [
            {"producer_id": it.producer, "first_offset": it.first}
            for it in log.aborted_in(at, records)
        ]
    return fields


def list_offsets(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """ListOffsets, with the special values of KIP-79, KIP-734 and KIP-405."""

    def found(name: str, asked: Any) -> dict[str, Any]:
        log = cluster.led(node, TopicPartition(name, asked.partition_index))
        fields = {"partition_index": asked.partition_index, "timestamp": -1, "offset": -1}
        if isinstance(log, int):
            return {**fields, "error_code": log}
        wanted = asked.timestamp
        if wanted == -1:
            fields["offset"] = log.stable if request.isolation_level == 1 else log.end
        elif wanted == -2:
            fields["offset"] = log.start
        elif wanted == -3:
            newest = max((it.batch.header.max_timestamp for it in log.stored), default=-1)
            fields["offset"], fields["timestamp"] = log.at_time(newest) if newest >= 0 else (-1, -1)
        elif wanted == -4:
            fields["offset"] = max(log.start, log.remote_to)
        elif wanted == -5:
            fields["offset"] = log.remote_to - 1 if log.remote_to else -1
        else:
            fields["offset"], fields["timestamp"] = log.at_time(wanted)
        return {**fields, "error_code": 0}

    return {
        "topics": _by_topic(
            (it.name, [found(it.name, asked) for asked in it.partitions]) for it in request.topics
        )
    }


def offset_for_leader_epoch(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """OffsetForLeaderEpoch."""

    def found(name: str, asked: Any) -> dict[str, Any]:
        log = cluster.led(node, TopicPartition(name, asked.partition))
        if isinstance(log, int):
            return {
                "error_code": log,
                "partition": asked.partition,
                "leader_epoch": -1,
                "end_offset": -1,
            }
        epoch, end = log.epoch_end(asked.leader_epoch)
        return {
            "error_code": 0,
            "partition": asked.partition,
            "leader_epoch": epoch,
            "end_offset": end,
        }

    return {
        "topics": _by_topic(
            (
                (it.topic, [found(it.topic, asked) for asked in it.partitions])
                for it in request.topics
            ),
            "topic",
        )
    }


def produce(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """Produce, with acks=all."""

    def written(name: str, asked: Any) -> dict[str, Any]:
        tp = TopicPartition(name, asked.index)
        log = cluster.led(node, tp)
        code, base = (
            (log, -1) if isinstance(log, int) else _append(cluster, log, tp, asked, request)
        )
        return {
            "index": asked.index,
            "error_code": code,
            "base_offset": base,
            "log_append_time_ms": -1,
            "log_start_offset": -1 if isinstance(log, int) else log.start,
            "record_errors": [],
            "error_message": None,
        }

    return {
        "responses": [
            {
                "name": it.name,
                "partition_responses": [written(it.name, asked) for asked in it.partition_data],
            }
            for it in request.topic_data
        ]
    }


def _append(
    cluster: SimCluster, log: Log, tp: TopicPartition, asked: Any, request: Any
) -> tuple[int, int]:
    (batch,) = split_batches(bytes(asked.records))
    header = batch.header
    if header.size > int(cluster.topics[tp.topic].config("max.message.bytes")):
        return _TOO_LARGE, -1
    if header.is_transactional:
        name = request.transactional_id
        log.begin(batch)
        code = cluster.transactions.may_write(name, header.producer_id, header.producer_epoch, tp)
        if code:
            return code, -1
    return log.append(batch, cluster.now_ms())


def init_producer_id(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """InitProducerId, for transactions or idempotence alone."""
    if request.transactional_id is None:
        return {"error_code": 0, "producer_id": cluster.new_producer(), "producer_epoch": 0}
    code, producer, epoch = cluster.transactions.start(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    return {"error_code": code, "producer_id": producer, "producer_epoch": epoch}


def add_partitions(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """AddPartitionsToTxn."""
    asked = [
        TopicPartition(it.name, number)
        for it in request.v3_and_below_topics
        for number in it.partitions
    ]
    unknown = [tp for tp in asked if cluster.log(tp) is None]
    code = 0
    if not unknown:
        code = cluster.transactions.join(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            asked,
        )

    def of(tp: TopicPartition) -> int:
        if unknown:
            return UNKNOWN_TOPIC if tp in unknown else _OPERATION_NOT_ATTEMPTED
        return code

    return {
        "results_by_topic_v3_and_below": [
            {
                "name": it.name,
                "results_by_partition": [
                    {
                        "partition_index": number,
                        "partition_error_code": of(TopicPartition(it.name, number)),
                    }
                    for number in it.partitions
                ],
            }
            for it in request.v3_and_below_topics
        ]
    }


def add_offsets(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """AddOffsetsToTxn."""
    code = cluster.transactions.join(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        group=request.group_id,
    )
    return {"error_code": code}


def end_txn(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """EndTxn."""
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


def _each(request: Any, code: Callable[[TopicPartition], int]) -> Mapping[str, Any]:
    return {
        "topics": _by_topic(
            (
                topic.name,
                [
                    {
                        "partition_index": it.partition_index,
                        "error_code": code(TopicPartition(topic.name, it.partition_index)),
                    }
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        )
    }


def txn_offset_commit(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """TxnOffsetCommit."""
    known = cluster.transactions.by_id.get(request.transactional_id)
    offsets = dict(_offsets_in(request))
    if known is None or known.producer != request.producer_id:
        code = 49
    elif known.epoch != request.producer_epoch:
        code = 47
    elif known.state != "Ongoing" or request.group_id not in known.groups:
        code = 48
    elif sum(len(it.metadata) + len(tp.topic) + 60 for tp, it in offsets.items()) > _BATCH_BYTES:
        code = 28
    else:
        code = 0

    def of(tp: TopicPartition) -> int:
        return UNKNOWN_TOPIC if not code and cluster.log(tp) is None else code

    if not code:
        there = {tp: it for tp, it in offsets.items() if cluster.log(tp) is not None}
        cluster.groups.hold(request.group_id, request.producer_id, there)
    return _each(request, of)


def offset_commit(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """OffsetCommit, of a client that is no member."""
    offsets = dict(_offsets_in(request))
    cluster.groups.commit(
        request.group_id, {tp: it for tp, it in offsets.items() if cluster.log(tp) is not None}
    )
    return _each(request, lambda tp: UNKNOWN_TOPIC if cluster.log(tp) is None else 0)


def offset_fetch(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """OffsetFetch, of one group to version 7 and of many since."""

    def found(group: str, topics: Any) -> list[dict[str, Any]]:
        known = cluster.groups.offsets.get(group, {})
        if topics is None:
            wanted: dict[str, list[int]] = {}
            for tp in sorted(known):
                wanted.setdefault(tp.topic, []).append(tp.partition)
        else:
            wanted = {it.name: [*it.partition_indexes] for it in topics}
        return _by_topic(
            (name, [entry(group, known, TopicPartition(name, number)) for number in numbers])
            for name, numbers in wanted.items()
        )

    def entry(group: str, known: Any, tp: TopicPartition) -> dict[str, Any]:
        if request.require_stable and cluster.groups.is_pending(group, tp):
            return {
                "partition_index": tp.partition,
                "committed_offset": -1,
                "committed_leader_epoch": -1,
                "metadata": "",
                "error_code": UNSTABLE,
            }
        it = known.get(tp, Committed(-1, -1, ""))
        return {
            "partition_index": tp.partition,
            "committed_offset": it.offset,
            "committed_leader_epoch": it.epoch,
            "metadata": it.metadata,
            "error_code": 0,
        }

    if request.API_VERSION < 8:
        return {"topics": found(request.group_id, request.topics), "error_code": 0}
    return {
        "groups": [
            {"group_id": it.group_id, "topics": found(it.group_id, it.topics), "error_code": 0}
            for it in request.groups
        ]
    }


def describe_transactions(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """DescribeTransactions."""

    def state(name: str) -> dict[str, Any]:
        known = cluster.transactions.by_id.get(name)
        if known is None:
            return {
                "error_code": _TRANSACTIONAL_ID_NOT_FOUND,
                "transactional_id": name,
                "transaction_state": "",
                "topics": [],
            }
        topics: dict[str, list[int]] = {}
        for tp in sorted(known.partitions):
            topics.setdefault(tp.topic, []).append(tp.partition)
        return {
            "error_code": 0,
            "transactional_id": name,
            "transaction_state": known.state,
            "transaction_timeout_ms": known.timeout_ms,
            "transaction_start_time_ms": int(known.began * 1000),
            "producer_id": known.producer,
            "producer_epoch": known.epoch,
            "topics": [{"topic": it, "partitions": of} for it, of in topics.items()],
        }

    return {"transaction_states": [state(it) for it in request.transactional_ids]}


def list_transactions(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """ListTransactions, of those that this broker coordinates."""
    wanted = request.producer_id_filters
    return {
        "error_code": 0,
        "transaction_states": [
            {
                "transactional_id": name,
                "producer_id": it.producer,
                "transaction_state": it.state,
            }
            for name, it in sorted(cluster.transactions.by_id.items())
            if cluster.coordinator(name) == node and (not wanted or it.producer in wanted)
        ],
    }


def describe_producers(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """DescribeProducers."""

    def found(name: str, number: int) -> dict[str, Any]:
        log = cluster.led(node, TopicPartition(name, number))
        if isinstance(log, int):
            return {
                "partition_index": number,
                "error_code": log,
                "error_message": None,
                "active_producers": [],
            }
        return {
            "partition_index": number,
            "error_code": 0,
            "error_message": None,
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
            ],
        }

    return {
        "topics": _by_topic(
            (it.name, [found(it.name, number) for number in it.partition_indexes])
            for it in request.topics
        )
    }


def describe_configs(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """DescribeConfigs, of topics; brokers have none of interest."""

    def found(asked: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "error_code": 0,
            "error_message": None,
            "resource_type": asked.resource_type,
            "resource_name": asked.resource_name,
            "configs": [],
        }
        if asked.resource_type != _TOPIC:
            return fields
        topic = cluster.topics.get(asked.resource_name)
        if topic is None:
            return {**fields, "error_code": UNKNOWN_TOPIC}
        keys = asked.configuration_keys
        fields["configs"] = [
            {
                "name": name,
                "value": topic.config(name),
                "read_only": False,
                "config_source": 1 if name in topic.configs else 5,
                "is_sensitive": False,
                "synonyms": [],
                "config_type": 0,
                "documentation": None,
            }
            for name in DEFAULTS
            if keys is None or name in keys
        ]
        return fields

    return {"results": [found(it) for it in request.resources]}


def alter_configs(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """IncrementalAlterConfigs, of topics."""

    def alter(asked: Any) -> dict[str, Any]:
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


def create_topics(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """CreateTopics."""

    def create(asked: Any) -> dict[str, Any]:
        code = _EXISTS if asked.name in cluster.topics else 0
        count = len(asked.assignments) or asked.num_partitions
        count = 1 if count < 0 else count
        if not code and not request.validate_only:
            cluster.create(asked.name, count, {it.name: it.value for it in asked.configs})
        return {
            "name": asked.name,
            "error_code": code,
            "error_message": None,
            "num_partitions": count,
            "replication_factor": len(cluster.brokers),
            "configs": [],
        }

    return {"topics": [create(it) for it in request.topics]}


def create_partitions(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """CreatePartitions."""

    def grow(asked: Any) -> dict[str, Any]:
        topic = cluster.topics.get(asked.name)
        code = UNKNOWN_TOPIC if topic is None else 37 if asked.count <= len(topic.logs) else 0
        if not code:
            cluster.grow(asked.name, asked.count)
        return {"name": asked.name, "error_code": code, "error_message": None}

    return {"results": [grow(it) for it in request.topics]}


def delete_topics(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """DeleteTopics."""
    answers = []
    for name in request.topic_names:
        code = 0 if name in cluster.topics else UNKNOWN_TOPIC
        if not code:
            cluster.delete(name)
        answers.append({"name": name, "error_code": code, "error_message": None})
    return {"responses": answers}


def delete_records(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """DeleteRecords."""

    def move(name: str, asked: Any) -> dict[str, Any]:
        log = cluster.led(node, TopicPartition(name, asked.partition_index))
        fields = {"partition_index": asked.partition_index, "low_watermark": -1}
        if isinstance(log, int):
            return {**fields, "error_code": log}
        to = log.end if asked.offset == -1 else asked.offset
        if to > log.end:
            return {**fields, "error_code": OUT_OF_RANGE}
        log.move_start(to)
        return {**fields, "low_watermark": log.start, "error_code": 0}

    return {
        "topics": _by_topic(
            (it.name, [move(it.name, asked) for asked in it.partitions]) for it in request.topics
        )
    }


def list_groups(cluster: SimCluster, node: int, _: Any) -> Mapping[str, Any]:
    """ListGroups, of those that this broker coordinates."""
    return {
        "error_code": 0,
        "groups": [
            {
                "group_id": name,
                "protocol_type": "consumer",
                "group_state": "Empty",
                "group_type": "classic",
            }
            for name in sorted(cluster.groups.offsets)
            if cluster.coordinator(name) == node
        ],
    }


def describe_groups(cluster: SimCluster, _: int, request: Any) -> Mapping[str, Any]:
    """DescribeGroups; none of them has members."""
    return {
        "groups": [
            {
                "error_code": 0,
                "group_id": name,
                "group_state": "Empty" if name in cluster.groups.offsets else "Dead",
                "protocol_type": "consumer",
                "protocol_data": "",
                "members": [],
            }
            for name in request.groups
        ]
    }


def write_markers(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """WriteTxnMarkers, of a client that may."""

    def write(marker: Any, name: str, number: int) -> dict[str, Any]:
        log = cluster.led(node, TopicPartition(name, number))
        code = (
            log
            if isinstance(log, int)
            else log.mark(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=cluster.now_ms(),
            )
        )
        return {"partition_index": number, "error_code": code}

    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": _by_topic(
                    (it.name, [write(marker, it.name, number) for number in it.partition_indexes])
                    for it in marker.topics
                ),
            }
            for marker in request.markers
        ]
    }


def describe_log_dirs(cluster: SimCluster, node: int, request: Any) -> Mapping[str, Any]:
    """DescribeLogDirs: sizes of what the broker leads."""
    wanted = None if request.topics is None else {it.topic for it in request.topics}
    topics: dict[str, list[dict[str, Any]]] = {}
    for tp in cluster.partitions():
        log = cluster.led(node, tp)
        if not isinstance(log, int) and (wanted is None or tp.topic in wanted):
            size = sum(len(it.bytes) for it in log.stored)
            entry = {
                "partition_index": tp.partition,
                "partition_size": size,
                "offset_lag": 0,
                "is_future_key": False,
            }
            topics.setdefault(tp.topic, []).append(entry)
    return {
        "error_code": 0,
        "results": [{"error_code": 0, "log_dir": "/logs", "topics": _by_topic(topics.items())}],
    }


HANDLERS: Final[Mapping[str, Handler]] = {
    "Metadata": metadata,
    "FindCoordinator": find_coordinator,
    "Fetch": fetch,
    "ListOffsets": list_offsets,
    "OffsetForLeaderEpoch": offset_for_leader_epoch,
    "Produce": produce,
    "InitProducerId": init_producer_id,
    "AddPartitionsToTxn": add_partitions,
    "AddOffsetsToTxn": add_offsets,
    "EndTxn": end_txn,
    "TxnOffsetCommit": txn_offset_commit,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "DescribeTransactions": describe_transactions,
    "ListTransactions": list_transactions,
    "DescribeProducers": describe_producers,
    "DescribeConfigs": describe_configs,
    "IncrementalAlterConfigs": alter_configs,
    "CreateTopics": create_topics,
    "CreatePartitions": create_partitions,
    "DeleteTopics": delete_topics,
    "DeleteRecords": delete_records,
    "ListGroups": list_groups,
    "DescribeGroups": describe_groups,
    "WriteTxnMarkers": write_markers,
    "DescribeLogDirs": describe_log_dirs,
}
