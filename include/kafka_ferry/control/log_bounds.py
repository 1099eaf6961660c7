"""Where logs start and end for a consumer of an isolation level (ListOffsets): two requests to each leader.

Over the wire: librdkafka would ask the leader that any one broker names, which may lead no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_ferry.config import Cluster, IsolationLevelName
from kafka_ferry.errors import BrokerError
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import connect
from kafka_ferry.wire.error_codes import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    read_fault,
)
from kafka_ferry.wire.partitions.list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ask_offsets,
)

# An older leader may answer still, and not know what a newer one has written.
_LEADING_S: Final = 1.0
_LEVELS: Final[dict[IsolationLevelName, int]] = {
    "read_committed": READ_COMMITTED,
    "read_uncommitted": READ_UNCOMMITTED,
}


def read_log_bounds(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    isolation: IsolationLevelName,
    *,
    afresh: bool = False,
) -> tuple[dict[TopicPartition, LogBounds], set[TopicPartition]]:
    """The starts and ends of logs, as far as leaders say them now.

    Args:
        cluster: the cluster.
        partitions: the partitions to ask for.
        isolation: the consumer's isolation level, which the ends depend on.
        afresh: whether leaders are looked up again that were looked up less than a second ago.

    Returns:
        The answers; and the partitions that do not exist. One that has no leader now is in neither.

    Raises:
        AccessDenied: without DESCRIBE on a topic.
        BrokerError: for any other error that does not pass by itself.
        ClusterUnreachable: if a leader does not answer.
    """
    unknown: set[TopicPartition] = set()
    with connect(cluster, "admin") as wire, wire.forget_on_error():
        leaders = wire.recent_leaders(partitions, within_s=0 if afresh else _LEADING_S)
        codes = {tp: it.error or LEADER_NOT_AVAILABLE for tp, it in leaders.items() if it.node < 0}
        nodes = {tp: it.node for tp, it in leaders.items() if it.node >= 0}
        answers = ask_offsets(wire, nodes, (EARLIEST, LATEST), _LEVELS[isolation])
        for some in answers.values():
            codes |= {tp: it.error_code for tp, it in some.items() if it.error_code}
        for tp, code in codes.items():
            error = read_fault(code, f"Reading the ends of {tp} on {wire.alias}", tp.topic)
            if not (isinstance(error, BrokerError) and error.transient):
                raise error
            if code == UNKNOWN_TOPIC_OR_PARTITION:
                unknown.add(tp)
        if codes:
            # The caller asks again, maybe another broker.
            wire.forget_routes()
        bounds = {
            tp: LogBounds(int(start.offset), int(answers[LATEST][tp].offset))
            for tp, start in answers[EARLIEST].items()
            if tp not in codes
        }
    return bounds, unknown
