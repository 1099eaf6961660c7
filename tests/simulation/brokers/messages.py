"""kafka-python's messages from plain fields, and what many answers have in common.

Fields that are left out have the protocol's default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.connections.responses import response_class_of
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.log import Log

Fields = Mapping[str, Any]
# By class: kafka-python looks a name up in the message's definition each time.
_NAMES: Final[dict[Any, str]] = {}


def name_of(request: Any) -> str:
    """The protocol's name of a request: "Fetch"."""
    kind = request.__class__
    if kind not in _NAMES:
        _NAMES[kind] = request.name.removesuffix("Request")
    return _NAMES[kind]


def unapplied(request: Any) -> Any:
    """An answer of the right shape, of a request that has no effect."""

    def blank(_: TopicPartition, __: Any) -> Fields:
        return {}

    match name := name_of(request):
        case "Produce":
            names = ("index", "name", "partition_data", "partition_responses")
            fields = {"responses": each(request.topic_data, lambda *_: {"base_offset": -1}, *names)}
        case "AddPartitionsToTxn":
            into, topics = "results_by_partition", request.v3_and_below_topics
            fields = {"results_by_topic_v3_and_below": each(topics, blank, into=into)}
        case "TxnOffsetCommit" | "OffsetCommit":
            fields = {"topics": each(request.topics, blank)}
        case "CreateTopics":
            fields = {"topics": [{"name": it.name} for it in request.topics]}
        case "OffsetFetch":
            fields = {"topics": []}
        case "InitProducerId" | "AddOffsetsToTxn" | "EndTxn" | "FindCoordinator":
            fields = {}
        case _:
            raise AssertionError(name)
    return message(response_class_of(request.__class__), request.API_VERSION, fields)


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


def message(kind: Any, version: int | None, fields: Fields) -> Any:
    """A message of kafka-python's from plain lists and dictionaries."""
    made = _part(kind, version, fields)
    made._header = made._min_version = made._max_version = None
    return made


def _part(kind: Any, version: int | None, fields: Fields) -> Any:
    """A part of a message, as its class makes it, without looking at each field of it."""
    defaults, inner_kinds, tagged = _layout(kind, version)
    given = {**defaults, **fields}
    for name, inner, is_array in inner_kinds:
        value = given.get(name)
        if value:
            given[name] = (
                [_part(inner, version, it) for it in value]
                if is_array
                else _part(inner, version, value)
            )
    if version is None:
        return kind(**given)
    part = kind.__new__(kind)
    part._version, part.unknown_tags = version, None
    part.tags = (tagged & fields.keys() or None) if tagged else None
    for name, value in given.items():
        setattr(part, name, value)
    return part


@cache
def _layout(
    kind: Any, version: int | None
) -> tuple[dict[str, Any], list[tuple[str, Any, bool]], set[str]]:
    """A message's part: its fields' defaults, the parts in it, each with whether it is a list, and what has tags."""
    fields = [
        it for it in kind._struct._fields if version is not None and it.for_version_q(version)
    ]
    return (
        {it.name: it.default for it in fields},
        [
            (name, it.data_class, it.is_struct_array())
            for name, it in kind.fields.items()
            if it.is_struct() or it.is_struct_array()
        ],
        {it.name for it in fields if it._tag is not None},
    )


def each(
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
    answers: list[Fields] = []
    for topic in topics:
        its_name = getattr(topic, name)
        entries: list[Fields] = []
        for asked in getattr(topic, partitions):
            at = asked if isinstance(asked, int) else getattr(asked, number)
            entries.append({number: at, **of(TopicPartition(its_name, at), asked)})
        answers.append({name: its_name, into: entries})
    return answers


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        numbers.setdefault(tp.topic, []).append(tp.partition)
    return numbers


def by_leader(
    cluster: SimCluster, node: int, of: Callable[[Log, Any], Fields], **otherwise: int
) -> Callable[[TopicPartition, Any], Fields]:
    """What ``of`` gives where this broker leads the partition; else the error, and ``otherwise``."""

    def fields(tp: TopicPartition, asked: Any) -> Fields:
        log = cluster.led(node, tp)
        return {"error_code": log, **otherwise} if isinstance(log, int) else of(log, asked)

    return fields
