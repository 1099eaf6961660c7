"""All that translating groups' offsets depends on, apart from the offsets: with the source, or without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kafka_ferry.control import ClusterControl
from kafka_ferry.groups.decisions import (
    DIVERGED,
    LOST,
    NOT_COPIED,
    REPLACED,
    decide_without_copy,
    translate_move,
)
from kafka_ferry.groups.moves import PartitionMove
from kafka_ferry.groups.routes import Route, remote_topics_of, routes
from kafka_ferry.ledger.queries.copied_topics import copied_partitions
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.plan.topics.topic_filter import select_topics
from kafka_ferry.runs.provenance.diverged_epochs import copies_of
from kafka_ferry.runs.provenance.diverged_logs import all_diverged
from kafka_ferry.runs.provenance.log_mismatches import lost_ends
from kafka_ferry.runs.provenance.opposite_flow import opposite_for
from kafka_ferry.runs.sync_groups.home_routes import HomeRoutes

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.errors import FerryError
    from kafka_ferry.ledger import LedgerEnd, LedgerTable
    from kafka_ferry.model.groups import Committed

Logs = Mapping[TopicPartition, LogBounds]


@dataclass(frozen=True)
class OffsetRoutes:
    """Translates offsets from a flow's source to its target.

    Attributes:
        home: what the opposite flow has copied to the source.
        selected: the topics that the flow selects by their names.
        present: those that exist on the source, as far as known.
        ids: by topic of the source, its id; without the source, when it was last copied.
        routes: by *source* partition.
        remote: the remote topic of each source topic that was ever copied, or is planned.
        source_logs: the source's logs, by its partitions, as they are or were seen last.
        partitions: how many partitions each remote topic has.
        target_logs: the target's logs, by its partitions.
        refused: by source topic, why a cluster does not describe it or its remote topic.
        ledger: the flow's ledger.
        ends: where the records end that the ledger has, by the target's partitions.
        lost: the target's partitions that no longer have the last record that was copied, whatever lies there now.
        others_write: whether records flow both ways, so that applications write to remote topics.
        diverged: where the target's logs part from those that the opposite flow has copied, by the target's
            partitions; -1 where that is unknown.
        replaced: likewise, where the source's logs part from those that this flow has copied, by its partitions.
    """

    home: HomeRoutes
    selected: Collection[str]
    present: Collection[str]
    ids: Mapping[str, str]
    routes: Mapping[TopicPartition, Route]
    remote: Mapping[str, str]
    source_logs: Logs
    partitions: Mapping[str, int]
    target_logs: Logs
    refused: Mapping[str, str]
    ledger: LedgerTable
    ends: Mapping[TopicPartition, LedgerEnd]
    lost: Collection[TopicPartition]
    others_write: bool
    diverged: Mapping[TopicPartition, int]
    replaced: Mapping[TopicPartition, int]

    @classmethod
    def of(
        cls,
        flow: Flow,
        ledger: LedgerTable,
        topics: Set[str],
        last_seen: Logs | None = None,
        *,
        by_records: bool = False,
    ) -> OffsetRoutes:
        """The routes of some topics of the source.

        Args:
            flow: the flow.
            ledger: its ledger, projected.
            topics: all the topics in which groups have committed offsets.
            last_seen: the source's logs as a run has seen them; the source is not asked then.
            by_records: whether records tell too where the target's logs part from those that the opposite flow has
                copied: a target that was restored from a backup counts its leader epochs once more.

        Raises:
            FerryError: if a cluster, or its list of topics, cannot be read at all.
        """
        selected = frozenset(select_topics(flow, topics)[0])
        remote = remote_topics_of(ledger, selected)
        wait_s = flow.partition_wait_ms / 1000
        target = ClusterControl(flow.target)
        target_topics, refused_there = target.readable_topics(remote.values())
        # Open transactions of other producers must not hold groups below a higher offset. Before the source's: a
        # record that another run copies meanwhile must not count as read because the source's log was empty before.
        target_logs = target.log_bounds(target_topics.values(), "read_uncommitted", wait_s=wait_s)
        here = _source_topics(flow, ledger, selected, last_seen)
        refused = here.refused | {
            topic: refused_there[name] for topic, name in remote.items() if name in refused_there
        }
        # The opposite flow's table is as old as the last run; its ledger is on the source.
        opposite = opposite_for(flow, ask=last_seen is None) if selected else None
        target_ids = {name: topic.topic_id for name, topic in target_topics.items()}
        diverged = (
            _divergences(flow.target, flow.source, opposite, target_ids, by_records=by_records)
            if opposite
            else {}
        )
        copied_ids = {
            name: it for name, it in here.ids.items() if remote.get(name) in target_topics
        }
        return cls(
            HomeRoutes.of(flow, topics - remote.keys(), selected, last_seen, by_records=by_records),
            selected,
            here.present,
            here.ids,
            routes(
                ledger,
                here.ids,
                target_ids,
                before=ledger.verified_through(),
                topics=selected,
                opposite=opposite,
                diverged=diverged,
            )
            if selected
            else {},
            remote,
            here.logs,
            {name: topic.partitions for name, topic in target_topics.items()},
            target_logs,
            {topic: str(error) for topic, error in refused.items()},
            ledger,
            ledger.target_ends(target_topics.values()),
            lost_ends(flow, target, ledger, target_topics.values()),
            opposite is not None,
            diverged,
            _divergences(flow.source, flow.target, ledger, copied_ids, by_records=by_records)
            if last_seen is None and copied_ids
            else {},
        )

    def move(self, tp: TopicPartition, committed: Committed) -> PartitionMove | None:
        """Translates a group's offset in one partition; None where the topic is none of the two flows'."""
        route, log = self.routes.get(tp), self.source_logs.get(tp)
        if not route and tp.topic not in self.remote and self.home.knows(tp.topic):
            return self.home.move(tp, committed)
        if route:
            move = self._by_route(tp, committed, route, log)
        elif tp.topic in self.selected:
            move = self._without_route(tp, committed, log)
        else:
            return None
        return replace(move, topic_id=self.ids.get(tp.topic, ""))

    def _by_route(
        self, tp: TopicPartition, committed: Committed, route: Route, log: LogBounds | None
    ) -> PartitionMove:
        target, diverged_at = route.target, self.diverged.get(route.target, 0)
        is_lost = target in self.lost or self._is_cut(target)
        is_replaced = committed.offset > max(0, self.replaced.get(tp, committed.offset))
        if is_lost or diverged_at < 0 or is_replaced:
            reason = DIVERGED.format(target, "") if diverged_at < 0 else REPLACED
            move = PartitionMove(tp, committed, log.end if log else -1, target, action="held")
            return replace(move, reason=LOST.format(target) if is_lost else reason, is_lost=True)
        move = translate_move(tp, committed, route, logs=(log, self.target_logs.get(target)))
        if route.lost_from is None or committed.offset <= route.lost_from:
            return move
        reason = DIVERGED.format(target, f" at {diverged_at}")
        return replace(move, reason=f"{move.reason} {reason}".strip(), is_lost=True)

    def _is_cut(self, target: TopicPartition) -> bool:
        log = self.target_logs.get(target)
        return log is not None and target in self.ends and log.end < self.ends[target].offset

    def _without_route(
        self, tp: TopicPartition, committed: Committed, log: LogBounds | None
    ) -> PartitionMove:
        move = PartitionMove(tp, committed, log.end if log else -1, action="held")
        name = self.remote.get(tp.topic)
        if tp.topic in self.refused:
            return replace(move, reason=self.refused[tp.topic])
        if tp.topic not in self.present:
            return replace(move, reason="its topic is gone from the source, or may not be seen.")
        if name is None:
            return replace(move, reason="nothing of its topic is copied yet.")
        target = TopicPartition(name, tp.partition)
        if name not in self.partitions:
            return replace(move, target=target, reason=f"{name} is not on the target.")
        if tp in self._ever_copied or tp.partition >= self.partitions[name]:
            return replace(move, target=target, reason=NOT_COPIED)
        return decide_without_copy(
            tp,
            committed,
            target,
            logs=(log, self.target_logs.get(target)),
            others_write=self.others_write and name == tp.topic,
        )

    @cached_property
    def _ever_copied(self) -> frozenset[TopicPartition]:
        """The partitions that the ledger has entries for, verified or not, of any topic on either side."""
        return copied_partitions(self.ledger, self.remote)


class _SourceTopics(NamedTuple):
    """The selected topics as they are on the source, or as a run has seen them."""

    ids: Mapping[str, str]
    logs: Logs
    present: Collection[str]
    refused: dict[str, FerryError]


def _source_topics(
    flow: Flow, ledger: LedgerTable, selected: Collection[str], last_seen: Logs | None
) -> _SourceTopics:
    if last_seen is not None:
        return _SourceTopics(ledger.topic_ids(), last_seen, selected, {})
    source = ClusterControl(flow.source)
    known, refused = source.readable_topics(selected)
    # A group that reads uncommitted records may be after the last stable offset.
    logs = source.log_bounds(
        known.values(), "read_uncommitted", wait_s=flow.partition_wait_ms / 1000
    )
    ids = {name: topic.topic_id for name, topic in known.items()}
    return _SourceTopics(ids, logs, frozenset(known), refused)


def _divergences(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    topic_ids: Mapping[str, str],
    *,
    by_records: bool,
) -> dict[TopicPartition, int]:
    """Where a cluster's logs part from those that the flow with this ledger has copied to the other one."""
    copied, names = copies_of(ledger, topic_ids)
    return all_diverged(source, target, ledger, copied, names, by_records=by_records).offsets
