"""Offsets in topics of the source that the opposite flow has copied there: home to where they came from.

The opposite flow's ledger, which is on the source, says of each record where it was on the target. A
table of it is kept in the flow's state folder, so that failover knows it without the source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied
from kafka_ferry.groups.decisions import DIVERGED, decide_without_copy, readable, translate_move
from kafka_ferry.groups.moves import PartitionMove
from kafka_ferry.groups.routes import Route, remote_topics_of, routes
from kafka_ferry.ledger import LedgerError, LedgerTable, ledger_topic
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.runs.provenance.diverged_logs import all_diverged
from kafka_ferry.runs.provenance.upstream_flows import opposite_ledger

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.groups import Committed

Logs = Mapping[TopicPartition, LogBounds]


@dataclass(frozen=True)
class HomeRoutes:
    """Translates offsets in copies on the source to the topics on the target that were copied.

    Attributes:
        names: by topic on the source, the topic on the target that it is a copy of; "" where only its
            name says that it is one.
        routes: the opposite flow's routes, by partition on the *source*.
        logs: the source's logs of the copies.
        target_logs: the target's logs of its own topics.
        reason: why offsets have no answer where the ledger has no route.
        refused: by topic on the source, why it or the topic that it is a copy of could not be described.
        diverged: by partition of the target's own topics, where its log parts from the one that was copied, -1 where
            that is unknown.
        selected: the copies in which clients of the source write too: the flow copies these topics under one name.
        ids: by copy, its id; without the source, when it was last copied to.
    """

    names: Mapping[str, str]
    routes: Mapping[TopicPartition, Route]
    logs: Logs
    target_logs: Logs
    reason: str
    refused: Mapping[str, str] = field(default_factory=dict)
    diverged: Mapping[TopicPartition, int] = field(default_factory=dict)
    selected: Collection[str] = ()
    ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        flow: Flow,
        topics: Collection[str],
        selected: Collection[str],
        last_seen: Logs | None,
        *,
        by_records: bool,
    ) -> HomeRoutes:
        """The routes of those of ``topics`` that came from the flow's target.

        Args:
            flow: the flow from the cluster that has the copies.
            topics: topics of its source that it has not copied.
            selected: the topics that it is to copy.
            last_seen: the source's logs as a run has seen them; the source is not asked then.
            by_records: as of ``OffsetRoutes.of``.

        Raises:
            FerryError: if a cluster cannot be read.
        """
        policy = policy_of(flow)
        names = {topic: "" for topic in topics if policy.is_cycle(topic, flow.target.alias)}
        ledger, reason = opposite_ledger(flow), _NO_LEDGER.format(ledger_topic(flow.target.alias))
        if last_seen is None and topics:
            reason = _project(flow, ledger) or reason
        if not topics or not ledger.next_offset:
            return cls(names, {}, {}, {}, reason)
        copies = remote_topics_of(ledger)
        names |= {copy: topic for topic, copy in copies.items() if copy in topics}
        own, control = {topic for topic in names.values() if topic}, ClusterControl(flow.target)
        own_topics, refused_there = control.readable_topics(own)
        refused = {copy: refused_there[own] for copy, own in names.items() if own in refused_there}
        source = ClusterControl(flow.source)
        if last_seen is None:
            known, refused_here = source.readable_topics(names)
            refused |= refused_here
            ids = {name: topic.topic_id for name, topic in known.items()}
            last_seen = source.log_bounds(known.values(), "read_uncommitted")
        else:
            ids = ledger.remote_ids()
        opposite_routes = routes(
            ledger, {name: topic.topic_id for name, topic in own_topics.items()}, ids, topics=own
        )
        return cls(
            names,
            {route.target: route for route in opposite_routes.values()},
            last_seen,
            control.log_bounds(own_topics.values(), "read_uncommitted"),
            reason,
            {copy: str(error) for copy, error in refused.items()},
            _divergence_offsets(flow, ledger, opposite_routes.values(), by_records=by_records),
            selected,
            ids,
        )

    def knows(self, topic: str) -> bool:
        """Whether the topic's records came from the flow's target."""
        return topic in self.names

    def move(self, tp: TopicPartition, committed: Committed) -> PartitionMove:
        """Translates a group's offset in a copy."""
        return replace(self._move(tp, committed), topic_id=self.ids.get(tp.topic, ""))

    def _move(self, tp: TopicPartition, committed: Committed) -> PartitionMove:
        name = self.names[tp.topic]
        if not name or tp.topic in self.refused:
            reason = self.refused.get(tp.topic, self.reason)
            return PartitionMove(tp, committed, action="held", reason=reason, home=True)
        route, own = self.routes.get(tp), TopicPartition(name, tp.partition)
        logs = self.logs.get(tp), self.target_logs.get(own)
        if route:
            move = translate_move(tp, committed, route, logs=logs, home=True)
            diverged_at = self.diverged.get(own)
            if move.offset is not None and diverged_at != _UNKNOWN_OFFSET:
                log = readable(committed, logs[0])
                unread = max(committed.offset, log.start), log.end
                lost = route.map.count_orphans(*unread, diverged_at=diverged_at)
                if tp.topic in self.selected and logs[0]:
                    lost += route.map.count_strangers(*unread)
                move = replace(move, missing=move.missing + lost)
            if diverged_at is None or move.offset is None or move.offset <= diverged_at:
                return move
            reason = DIVERGED.format(
                own, "" if diverged_at == _UNKNOWN_OFFSET else f" at {diverged_at}"
            )
            if diverged_at == _UNKNOWN_OFFSET:
                move = replace(move, action="held", offset=None, kind=None, missing=0)
            else:
                move = replace(move, offset=diverged_at, kind="clamped")
            return replace(move, reason=reason, is_lost=True)
        move = decide_without_copy(tp, committed, own, logs=logs, others_write=True)
        return replace(move, home=True)


_UNKNOWN_OFFSET: Final = -1
_NO_LEDGER = (
    "its name says that it came from the target, but {} on the source does not say from where."
)


def _divergence_offsets(
    flow: Flow, ledger: LedgerTable, opposite_routes: Collection[Route], *, by_records: bool
) -> dict[TopicPartition, int]:
    """Where the target's own logs part from those that the opposite flow has copied."""
    positions = ledger.positions()
    copied = {
        route.source: positions[route.target]
        for route in opposite_routes
        if route.target in positions
    }
    names = {route.source.topic: route.target.topic for route in opposite_routes}
    return all_diverged(
        flow.target, flow.source, ledger, copied, names, by_records=by_records
    ).offsets


def _project(flow: Flow, ledger: LedgerTable) -> str:
    """Bring the table up to date; why that was not possible, "" where it was."""
    name = ledger_topic(flow.target.alias)
    try:
        if ClusterControl(flow.source).topic_ids([name]):
            wait_until_settled(flow.source, name)
            ledger.project(flow.source, name)
    except (AccessDenied, LedgerError) as error:
        return str(error)
    return ""
