"""A flow's positions as far as its ledger confirms them.

A position is committed in the transaction that writes its range into the ledger, so the two differ only
where another client has committed in the flow's group: by ``kafka-consumer-groups --reset-offsets``, for
example. Such a position is not trusted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy.target.preserved.partition_queue import at_log_start
from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model.cluster_state import FlowPositions, Topic
from kafka_ferry.model.positions import Position, position_group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import connect
from kafka_ferry.wire.transactions.committed_offsets import has_pending_offsets

# A transaction's markers reach the ledger and the group one after the other.
_PAUSES_S: Final = (0.1, 0.4, 1.0, 2.0)


def known_positions(flow: Flow, target: ClusterControl, ledger: LedgerTable) -> FlowPositions:
    """Read the flow's group and its ledger, and compare them; what is hidden is not asked for.

    Raises:
        AccessDenied: without READ on the flow's group or its ledger.
        ClusterUnreachable: if the target does not answer, or if the two differ while an open transaction hides
            the ledger's newest records, for a minute.
    """
    topic = ledger_topic(flow.source.alias)
    if not target.topic_ids([topic]):
        unknown = read_positions(flow.target, flow.name)
        return FlowPositions(unknown, unconfirmed=frozenset(unknown))
    positions = _compare(flow, ledger, topic)
    if positions.moved or positions.unconfirmed:
        # The ledger's record of a position may be hidden: then no other client has committed it.
        wait_until_settled(flow.target, topic)
        positions = _compare(flow, ledger, topic)
    committed, written, moved, end = positions
    if moved and _is_pending(flow, moved):
        moved = frozenset()
    return FlowPositions(
        known={tp: _merge(committed.get(tp), written.get(tp)) for tp in committed.keys() | written},
        moved={tp: committed[tp].offset for tp in moved},
        unconfirmed=positions.unconfirmed,
        ledger_end=end,
    )


class _Compared(NamedTuple):
    """A flow's positions in its group and in its ledger, those in which they differ, and the ledger's end."""

    committed: Mapping[TopicPartition, Position]
    written: Mapping[TopicPartition, Position]
    moved: frozenset[TopicPartition]
    ledger_end: int

    @property
    def unconfirmed(self) -> frozenset[TopicPartition]:
        """The partitions whose positions the ledger has nothing of."""
        return frozenset(self.committed.keys() - self.written.keys())


def _compare(flow: Flow, ledger: LedgerTable, topic: str) -> _Compared:
    """Read both, and once more for a while where they differ."""
    committed = read_positions(flow.target, flow.name)
    end = ledger.project(flow.target, topic)
    before: Mapping[TopicPartition, Position] = {}
    written = ledger.positions()
    for pause_s in _PAUSES_S:
        if not _moved_positions(before, committed, written):
            break
        time.sleep(pause_s)
        before = written
        committed = read_positions(flow.target, flow.name)
        end = ledger.project(flow.target, topic)
        written = ledger.positions()
    return _Compared(committed, written, _moved_positions(before, committed, written), end)


def without_position(
    remote_topics: Iterable[Topic], positions: Mapping[TopicPartition, Position]
) -> list[Topic]:
    """The topics without a position: neither the group nor the ledger names them."""
    known = {(tp.topic, position.remote_topic_id) for tp, position in positions.items()}
    return [
        topic
        for topic in remote_topics
        if known.isdisjoint({(topic.name, topic.topic_id), (topic.name, "")})
    ]


def is_confirmed(committed: Position, written: Position) -> bool:
    """Whether the ledger's last position of a partition, ``written``, is the one in the group."""
    if committed.offset != written.offset:
        return False
    # kafka-consumer-groups drops the metadata, even where it changes no offset.
    known = ("", written.topic_id), ("", written.remote_topic_id)
    if committed.topic_id not in known[0] or committed.remote_topic_id not in known[1]:
        return False
    return (
        not committed.topic_id or at_log_start(committed).producer == at_log_start(written).producer
    )


def _moved_positions(
    before: Mapping[TopicPartition, Position],
    committed: Mapping[TopicPartition, Position],
    written: Mapping[TopicPartition, Position],
) -> frozenset[TopicPartition]:
    """The partitions whose positions in the group are none that the ledger has had meanwhile.

    Args:
        before: the ledger's positions, read before ``committed``.
        committed: the group's positions.
        written: the ledger's positions, read after ``committed``: another run may have gone on.
    """
    return frozenset(
        tp
        for tp, position in committed.items()
        if tp in written
        and not is_confirmed(position, written[tp])
        and not (tp in before and before[tp].offset <= position.offset < written[tp].offset)
    )


def _is_pending(flow: Flow, partitions: Collection[TopicPartition]) -> bool:
    """Whether a transaction that the ledger has is still to reach the group; its coordinator completes it."""
    with connect(flow.target) as cluster:
        return has_pending_offsets(cluster, position_group(flow.name), partitions)


def _merge(committed: Position | None, written: Position | None) -> Position:
    """The ledger's position, with the details that only the group has where the two agree."""
    if committed is None or written is None:
        position = committed or written
        assert position is not None
        return position
    if not (is_confirmed(committed, written) and committed.topic_id):
        return written
    origins = written.origins or committed.origins
    return replace(committed, leader_epoch=written.leader_epoch, origins=origins)
