"""Where logs start and end for a consumer of an isolation level (ListOffsets): a request to each leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_ferry.batched import batched
from kafka_ferry.config import IsolationLevelName
from kafka_ferry.control.client_errors import as_ours
from kafka_ferry.control.wire_admin import WireAdmin
from kafka_ferry.errors import BrokerError
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import at_most
from kafka_ferry.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

_TIMEOUT_S: Final = 15.0
# Limits a request to so many partitions, so that no answer gets too large.
_AT_ONCE: Final = 5_000
_ISOLATION: Final[dict[IsolationLevelName, IsolationLevel]] = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}


_Answers = Mapping[ConfluentPartition, Future[Any]]


def read_log_bounds(
    admin: AdminClient | WireAdmin,
    alias: str,
    partitions: Sequence[TopicPartition],
    isolation: IsolationLevelName,
) -> tuple[dict[TopicPartition, LogBounds], set[TopicPartition]]:
    """The starts and ends of logs, as far as leaders say them now.

    Args:
        admin: a client of the cluster.
        alias: the cluster's alias, for messages.
        partitions: the partitions to ask for.
        isolation: the consumer's isolation level, which the ends depend on.

    Returns:
        The answers; and the partitions that do not exist. One that has no leader now is in neither.

    Raises:
        AccessDenied: without DESCRIBE on a topic.
        BrokerError: for any other error that does not pass by itself.
        KafkaException: if no broker answers.
    """
    level = _ISOLATION[isolation]
    bounds: dict[TopicPartition, LogBounds] = {}
    unknown: set[TopicPartition] = set()
    for some in batched(partitions, _AT_ONCE):
        # Over a long link each answer counts: neither waits for the other's.
        earliest = _ask(admin, some, OffsetSpec.earliest(), level)
        latest = _ask(admin, some, OffsetSpec.latest(), level)
        starts, ends = _offsets(alias, earliest, unknown), _offsets(alias, latest, unknown)
        bounds.update({tp: LogBounds(starts[tp], ends[tp]) for tp in starts.keys() & ends.keys()})
    return bounds, unknown


def _ask(
    admin: AdminClient | WireAdmin,
    partitions: Sequence[TopicPartition],
    spec: OffsetSpec,
    level: IsolationLevel,
) -> _Answers:
    wanted = {ConfluentPartition(tp.topic, tp.partition): spec for tp in partitions}
    answers: _Answers = admin.list_offsets(
        wanted, isolation_level=level, request_timeout=at_most(_TIMEOUT_S)
    )
    return answers


def _offsets(
    alias: str, futures: _Answers, unknown: set[TopicPartition]
) -> dict[TopicPartition, int]:
    """The answers so far; ``unknown`` collects what does not exist."""
    offsets = {}
    for asked_of, future in futures.items():
        tp = TopicPartition(asked_of.topic, asked_of.partition)
        try:
            with as_ours(alias, f"reading the ends of {tp}", Right.topic("READ", tp.topic)):
                offset = int(future.result().offset)
            # librdkafka says OFFSET_INVALID, without an error, where a broker went away before it answered.
            if offset >= 0:
                offsets[tp] = offset
        except BrokerError as error:
            if not error.transient:
                raise
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                unknown.add(tp)
    return offsets
