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
from kafka_ferry.wire.connections.questions import ask_together
from kafka_ferry.wire.error_codes import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    read_fault,
)
from kafka_ferry.wire.partitions.by_leader import by_node
from kafka_ferry.wire.partitions.list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    offsets_question,
)

# Limits a request to so many partitions, so that no answer gets too large.
_AT_ONCE: Final = 5_000
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
    with connect(cluster, "admin") as wire, wire.forgetting():
        leaders = wire.recent_leaders(partitions, within_s=0 if afresh else _LEADING_S)
        codes = {tp: it.error or LEADER_NOT_AVAILABLE for tp, it in leaders.items() if it.node < 0}
        nodes = by_node({tp: it.node for tp, it in leaders.items() if it.node >= 0})
        wire.open(nodes)
        level = _LEVELS[isolation]
        # Over a long link each answer counts: none waits for another one.
        questions = {
            (time, node, at): offsets_question(
                wire, node, dict.fromkeys(led[at : at + _AT_ONCE], time), level
            )
            for time in (EARLIEST, LATEST)
            for node, led in nodes.items()
            for at in range(0, len(led), _AT_ONCE)
        }
        offsets: dict[int, dict[TopicPartition, int]] = {EARLIEST: {}, LATEST: {}}
        for (time, _, _), answers in ask_together(questions).items():
            for tp, answer in answers.items():
                offsets[time][tp] = int(answer.offset)
                if answer.error_code:
                    codes[tp] = answer.error_code
        for tp, code in codes.items():
            error = read_fault(code, f"Reading the ends of {tp} on {wire.alias}", tp.topic)
            if not (isinstance(error, BrokerError) and error.transient):
                raise error
            if code == UNKNOWN_TOPIC_OR_PARTITION:
                unknown.add(tp)
        if codes:
            # The caller asks again, maybe another broker.
            wire.forget_routes()
        starts, ends = offsets[EARLIEST], offsets[LATEST]
    return (
        {tp: LogBounds(start, ends[tp]) for tp, start in starts.items() if tp not in codes},
        unknown,
    )
