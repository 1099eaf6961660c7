"""What a simulated broker answers to each request: kafka-python's message classes, in and out.

Fields that are left out have the protocol's default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from kafka_ferry.batches import split_batches
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import error_codes as errors
from kafka_ferry.wire.connections.responses import response_class_of
from tests.simulation.cluster import DEFAULTS, UNKNOWN_TOPIC, SimCluster
from tests.simulation.coordinators import Committed, Offsets
from tests.simulation.log import Log

_UNKNOWN_TOPIC_ID: Final = 100
_EXISTS: Final = 36
_INVALID_PARTITIONS: Final = 37
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_TOPIC: Final = 2
_NO_COORDINATOR: Final = 15
_NOT_COORDINATOR: Final = 16

_OF_COORDINATORS: Final = frozenset(
    {"InitProducerId", "AddOffsetsToTxn", "EndTxn", "OffsetFetch", "FindCoordinator"}
)
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

Fields = Mapping[str, Any]
Handler = Callable[[SimCluster, int, Any], Fields]


def answer(cluster: SimCluster, node: int, request: Any) -> Any:
    """The answer of a broker."""
    name = request.name.removesuffix("Request")
    kind, version = response_class_of(request.__class__), request.API_VERSION
    key = getattr(request, COORDINATED[name]) if name in COORDINATED else None
    if not key:
        return message(kind, version, HANDLERS[name](cluster, node, request))
    if cluster.coordinator(key) != node:
        until, stale = cluster.cut_off.get((node, key), (0.0, {}))
        if name == "OffsetFetch" and until > cluster.world.now:
            return message(kind, version, _offsets_of(stale, frozenset(), request))
        return with_code(unapplied(request), _NOT_COORDINATOR)
    if name in ("OffsetFetch", "TxnOffsetCommit") and cluster.lacks_leader(key):
        return with_code(unapplied(request), _NO_COORDINATOR)
    return message(kind, version, HANDLERS[name](cluster, node, request))


def unapplied(request: Any) -> Any:
    """An answer of the right shape, of a request that has no effect."""
    version = request.API_VERSION
    name, kind = request.name.removesuffix("Request"), response_class_of(request.__class__)
    if name == "Produce":
        return message(
            kind,
            version,
            {
                "responses": [
                    {
                        "name": it.name,
                        "partition_responses": [
                            {"index": part.index, "base_offset": -1} for part in it.partition_data
                        ],
                    }
                    for it in request.topic_data
                ]
            },
        )
    if name == "AddPartitionsToTxn":
        topics = [
            {
                "name": it.name,
                "results_by_partition": [{"partition_index": number} for number in it.partitions],
            }
            for it in request.v3_and_below_topics
        ]
        return message(kind, version, {"results_by_topic_v3_and_below": topics})
    if name in ("TxnOffsetCommit", "OffsetCommit", "CreateTopics"):
        entry = "partition_index" if name != "CreateTopics" else ""
        topics = [
            {"name": it.name}
            | (
                {"partitions": [{entry: of.partition_index} for of in it.partitions]}
                if entry
                else {}
            )
            for it in request.topics
        ]
        return message(kind, version, {"topics": topics})
    if name in _OF_COORDINATORS:
        fields: dict[str, Any] = {"topics": []} if name == "OffsetFetch" else {}
        return message(kind, version, fields)
    raise AssertionError(name)


def with_code(answer: Any, code: int) -> Any:
    """An answer with an error code where a broker puts it: with each partition, or with the whole."""
    inner = [
        entry
        for field in answer._struct.fields.values()
        if field.is_struct_array() and field.for_version_q(answer.version)
        for entry in getattr(answer, field.name) or ()
    ]
    placed = [_place_code(entry, code) for entry in inner]
    if not any(placed) and "error_code" in type(answer).fields:
        answer.error_code = code
    return answer


def _place_code(entry: Any, code: int) -> bool:
    """Set the code of an entry's partitions, or its own; returns whether it has either."""
    fields = type(entry).fields
    for name in ("partition_responses", "partitions", "results_by_partition"):
        if name in fields:
            placed = [_place_code(it, code) for it in getattr(entry, name)]
            return any(placed)
    if "records" in fields:
        entry.records = b""
    for name in ("error_code", "partition_error_code"):
        if name in fields:
            setattr(entry, name, code)
            return True
    return False


def message(kind: Any, version: int, fields: Fields) -> Any:
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


def _each(
    topics: Iterable[Any],
    of: Callable[[TopicPartition, Any], Fields],
    number: str = "partition_index",
    name: str = "name",
    partitions: str = "partitions",
    into: str = "partitions",
) -> list[Fields]:
    """What ``of`` gives for each partition that is asked for, by topic.

    Args:
        topics: of the request.
        of: gives an entry's fields but the partition's number.
        number: the field with a partition's number.
        name: the field with a topic's name.
        partitions: the request's field with a topic's partitions.
        into: the answer's.
    """
    answers = []
    for topic in topics:
        its_name, entries = getattr(topic, name), []
        for asked in getattr(topic, partitions):
            at = asked if isinstance(asked, int) else getattr(asked, number)
            entries.append({number: at, **of(TopicPartition(its_name, at), asked)})
        answers.append({name: its_name, into: entries})
    return answers


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        numbers.setdefault(tp.topic, []).append(tp.partition)
    return numbers


def _by_leader(
    cluster: SimCluster, node: int, of: Callable[[Log, Any], Fields], **otherwise: int
) -> Callable[[TopicPartition, Any], Fields]:
    """What ``of`` gives where this broker leads the partition; else the error, and ``otherwise``."""

    def fields(tp: TopicPartition, asked: Any) -> Fields:
        log = cluster.led(node, tp)
        return {"error_code": log, **otherwise} if isinstance(log, int) else of(log, asked)

    return fields


def metadata(cluster: SimCluster, node: int, request: Any) -> Fields:
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


def _described(cluster: SimCluster, name: str) -> Fields:
    topic = cluster.topics.get(name)
    if topic is None:
        return {"error_code": UNKNOWN_TOPIC, "name": name}
    partitions = []
    for number, log in enumerate(topic.logs):
        leader = cluster.leader(TopicPartition(name, number))
        partitions.append(
            {
                "error_code": errors.NONE if leader >= 0 else errors.LEADER_NOT_AVAILABLE,
                "partition_index": number,
                "leader_id": leader,
                "leader_epoch": log.epoch,
                "replica_nodes": [*cluster.brokers],
                "isr_nodes": [*cluster.brokers],
            }
        )
    return {"name": name, "topic_id": topic.id, "partitions": partitions}


def find_coordinator(cluster: SimCluster, _: int, request: Any) -> Fields:
    """FindCoordinator."""

    def found(key: str) -> Fields:
        node = cluster.coordinator(key)
        host, port = cluster.brokers[node]
        return {"node_id": node, "host": host, "port": port}

    if request.API_VERSION < 4:
        return found(request.key)
    return {"coordinators": [{"key": key, **found(key)} for key in request.coordinator_keys]}


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

    return {"topics": _each(request.topics, _by_leader(cluster, node, found))}


def offset_for_leader_epoch(cluster: SimCluster, node: int, request: Any) -> Fields:
    """OffsetForLeaderEpoch."""

    def found(log: Log, asked: Any) -> Fields:
        epoch, end = log.epoch_end(asked.leader_epoch)
        return {"leader_epoch": epoch, "end_offset": end}

    of = _by_leader(cluster, node, found)
    return {"topics": _each(request.topics, of, "partition", "topic")}


def produce(cluster: SimCluster, node: int, request: Any) -> Fields:
    """Produce, with acks=all."""

    def written(tp: TopicPartition, asked: Any) -> Fields:
        log = cluster.led(node, tp)
        if isinstance(log, int):
            return {"error_code": log, "base_offset": -1}
        code, base = _append(cluster, log, tp, asked, request)
        return {"error_code": code, "base_offset": base, "log_start_offset": log.start}

    topics = _each(
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
    """AddPartitionsToTxn."""
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

    return {"results_by_topic_v3_and_below": _each(topics, of, into="results_by_partition")}


def add_offsets(cluster: SimCluster, _: int, request: Any) -> Fields:
    """AddOffsetsToTxn."""
    code = cluster.transactions.join(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        group=request.group_id,
    )
    return {"error_code": code}


def end_txn(cluster: SimCluster, _: int, request: Any) -> Fields:
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


def txn_offset_commit(cluster: SimCluster, _: int, request: Any) -> Fields:
    """TxnOffsetCommit."""
    known = cluster.transactions.by_id.get(request.transactional_id)
    offsets = dict(_offsets_in(request))
    if known is None or known.producer != request.producer_id:
        code = errors.INVALID_PRODUCER_ID_MAPPING
    elif known.epoch != request.producer_epoch:
        code = 47
    elif known.state != "Ongoing" or request.group_id not in known.groups:
        code = 48
    elif sum(len(it.metadata) + len(tp.topic) + 60 for tp, it in offsets.items()) > cluster.offset_bytes:
        code = errors.INVALID_COMMIT_OFFSET_SIZE
    else:
        code = errors.NONE
        there = {tp: it for tp, it in offsets.items() if cluster.log(tp) is not None}
        cluster.groups.hold(request.group_id, request.producer_id, there)

    def of(tp: TopicPartition, _: Any) -> Fields:
        return {"error_code": code or (UNKNOWN_TOPIC if cluster.log(tp) is None else 0)}

    return {"topics": _each(request.topics, of)}


def offset_commit(cluster: SimCluster, _: int, request: Any) -> Fields:
    """OffsetCommit, of a client that is no member."""
    offsets = dict(_offsets_in(request))
    cluster.groups.commit(
        request.group_id, {tp: it for tp, it in offsets.items() if cluster.log(tp) is not None}
    )

    def of(tp: TopicPartition, _: Any) -> Fields:
        return {"error_code": UNKNOWN_TOPIC if cluster.log(tp) is None else 0}

    return {"topics": _each(request.topics, of)}


def offset_fetch(cluster: SimCluster, _: int, request: Any) -> Fields:
    """OffsetFetch, of one group to version 7 and of many since."""
    pending = frozenset(cluster.groups.pending()) if request.require_stable else frozenset()
    return _offsets_of(cluster.groups.offsets, pending, request)


def _offsets_of(
    offsets: Mapping[str, Offsets], pending: frozenset[tuple[str, TopicPartition]], request: Any
) -> Fields:
    def found(group: str, topics: Any) -> list[Fields]:
        known = offsets.get(group, {})
        wanted = (
            _by_topic(known)
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
    """DescribeTransactions."""

    def state(name: str) -> Fields:
        known = cluster.transactions.by_id.get(name)
        if known is None:
            return {"error_code": _TRANSACTIONAL_ID_NOT_FOUND, "transactional_id": name}
        topics = _by_topic(known.partitions)
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
            {
                "transactional_id": name,
                "producer_id": it.producer,
                "transaction_state": it.state,
            }
            for name, it in sorted(cluster.transactions.by_id.items())
            if cluster.coordinator(name) == node and (not wanted or it.producer in wanted)
        ],
    }


def describe_producers(cluster: SimCluster, node: int, request: Any) -> Fields:
    """DescribeProducers."""

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
            ],
        }

    of = _by_leader(cluster, node, found)
    return {"topics": _each(request.topics, of, partitions="partition_indexes")}


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
    """CreateTopics."""

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
    """CreatePartitions."""

    def grow(asked: Any) -> Fields:
        topic = cluster.topics.get(asked.name)
        if topic is None:
            return {"name": asked.name, "error_code": UNKNOWN_TOPIC}
        if asked.count <= len(topic.logs):
            return {"name": asked.name, "error_code": _INVALID_PARTITIONS}
        cluster.grow(asked.name, asked.count)
        return {"name": asked.name}

    return {"results": [grow(it) for it in request.topics]}


def delete_topics(cluster: SimCluster, _: int, request: Any) -> Fields:
    """DeleteTopics."""
    answers = []
    for name in request.topic_names:
        code = 0 if name in cluster.topics else UNKNOWN_TOPIC
        if not code:
            cluster.delete(name)
        answers.append({"name": name, "error_code": code})
    return {"responses": answers}


def delete_records(cluster: SimCluster, node: int, request: Any) -> Fields:
    """DeleteRecords."""

    def move(log: Log, asked: Any) -> Fields:
        to = log.end if asked.offset == -1 else asked.offset
        if to > log.end:
            return {"error_code": errors.OFFSET_OUT_OF_RANGE, "low_watermark": -1}
        log.move_start(to)
        return {"low_watermark": log.start}

    return {"topics": _each(request.topics, _by_leader(cluster, node, move, low_watermark=-1))}


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
            if cluster.coordinator(name) == node
        ],
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
                "topics": _each(
                    it.topics, _by_leader(cluster, node, write(it)), partitions="partition_indexes"
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
