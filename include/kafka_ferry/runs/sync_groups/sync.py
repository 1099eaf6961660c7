"""Moves groups: translates their offsets and, as a step of a run, commits them on the target.

The rules are in ``groups.decisions``; this module asks the clusters and the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, FerryError, GroupsFailed
from kafka_ferry.groups.decisions import FROM_TARGET, NOT_COPIED, translated, untouched
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.groups.routes import Route, remote_topics_of, routes
from kafka_ferry.model import LogBounds, Topic, TopicPartition
from kafka_ferry.model.groups import Committed, Group, chosen_groups, is_own_group
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.plan.topics.topic_filter import select_topics
from kafka_ferry.runs.provenance.opposite_flow import opposite_for
from kafka_ferry.runs.sync_groups.commit_offsets import commit_moves
from kafka_ferry.runs.sync_groups.delete_offsets import delete_gone, deletes_offsets
from kafka_ferry.runs.sync_groups.mm2_topics import emit
from kafka_ferry.wire.any_broker import TooOld

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.runs.state.run_context import RunContext

Offsets = Mapping[TopicPartition, Committed]


def sync_groups(run: RunContext) -> GroupMoves:
    """The step of a run: move the groups, store the result, and emit checkpoints as MirrorMaker 2 does.

    A flow that neither commits offsets nor writes checkpoints reads no groups.

    Raises:
        GroupsFailed: naming what could not be read, committed or written; the rest was.
    """
    flow, ledger = run.flow, run.ledger
    write = flow.sync_group_offsets_enabled
    run.project_ledger()
    if write or flow.emit_checkpoints_enabled:
        moves = move_groups(flow, ledger, run=run.run_id, write=write, from_target=True)
        if deletes_offsets(flow) and not moves.failures:
            moves = delete_gone(flow, ledger, moves, run.folder.plan())
    else:
        moves = GroupMoves(now_ms())
    emitting, unread = emit(flow, ledger, moves, run=run.run_id)
    moves = replace(
        moves,
        notes=(*moves.notes, *unread),
        failures=(*moves.failures, *emitting),
        transient=moves.transient and not emitting,
        done_at=now_ms(),
    )
    run.folder.save_groups(moves)
    if moves.failures:
        raise GroupsFailed(moves.failures, transient=moves.transient)
    return moves


def move_groups(
    flow: Flow,
    ledger: LedgerTable,
    *,
    run: str,
    write: bool,
    only: Collection[str] = (),
    from_target: bool = False,
) -> GroupMoves:
    """Translate groups' offsets, as far as verified, and commit them on the target.

    Args:
        flow: the flow.
        ledger: its ledger, projected to its end.
        run: the run that commits them.
        write: whether to commit anything.
        only: names of groups, regardless of ``groups``; all that the flow selects where empty.
        from_target: whether to include offsets in topics that came from the target.

    Raises:
        FerryError: if a cluster, or its list of topics, cannot be read at all.
    """
    found = _read(flow, ledger, only, write=write, from_target=from_target)
    if write and found.groups:
        found = commit_moves(flow, ledger, found, run=run)
    return found


def translate_groups(
    flow: Flow,
    ledger: LedgerTable,
    offsets: Mapping[Group, Offsets],
    *,
    at: int,
    from_target: bool = False,
) -> tuple[GroupMove, ...]:
    """Translate groups' offsets, as far as verified; changes nothing.

    Args:
        flow: the flow.
        ledger: its ledger, projected to its end.
        offsets: what each group has committed on the source.
        at: when that was read, in milliseconds since 1970.
        from_target: whether to include offsets in topics that came from the target.

    Returns:
        The groups that have committed anything in a topic of the flow, ordered by name.
    """
    topics = {tp.topic for committed in offsets.values() for tp in committed}
    selected = frozenset(select_topics(flow, topics)[0])
    picture = _Picture.of(flow, ledger, selected)
    is_cycle = partial(policy_of(flow).is_cycle, target_alias=flow.target.alias)
    named = frozenset(filter(is_cycle, topics - selected)) if from_target else frozenset[str]()
    moves = []
    for group, committed in sorted(offsets.items(), key=lambda item: item[0].name):
        partitions = tuple(
            picture.move(tp, committed[tp])
            if tp.topic in selected
            else PartitionMove(tp, committed[tp], -1, action="held", reason=FROM_TARGET)
            for tp in sorted(committed)
            if tp.topic in selected | named
        )
        if partitions:
            moves.append(GroupMove(group, partitions, at=at))
    return tuple(moves)


def _read(
    flow: Flow, ledger: LedgerTable, only: Collection[str], *, write: bool, from_target: bool
) -> GroupMoves:
    """The selected groups with their offsets on the target."""
    at = now_ms()
    errors: list[FerryError] = []
    groups: list[Group] = []
    offsets: dict[Group, Offsets] = {}
    unread = []
    with GroupControl(flow.source) as source:
        try:
            groups = _chosen(flow, source, only, errors)
            committed = source.committed(groups) if groups else {}
            source_cluster_id = source.cluster_id()
        except AccessDenied as error:
            groups, committed, source_cluster_id = [], {}, ""
            errors.append(error)
    for group in groups:
        found = committed[group.name]
        if isinstance(found, FerryError):
            unread.append(GroupMove(group, reason=str(found), at=at))
            # A broker that is too old for share groups' offsets is not a failure.
            if not isinstance(found, TooOld):
                errors.append(found)
        else:
            offsets[group] = found
    known = translate_groups(flow, ledger, offsets, at=at, from_target=from_target)
    moves = (*known, *unread)
    found_all = GroupMoves(
        at,
        tuple(sorted(moves, key=lambda move: move.group.name)),
        source_cluster_id=source_cluster_id,
    )
    sentences = tuple(map(str, errors))
    if not (write or only):
        return replace(found_all, notes=sentences)
    may_pass = all(error.transient for error in errors)
    return replace(found_all, failures=sentences, transient=may_pass)


def _chosen(
    flow: Flow, source: GroupControl, only: Collection[str], errors: list[FerryError]
) -> list[Group]:
    if not only:
        return chosen_groups(source.groups(), flow.group_filter)
    chosen = []
    for name, group in source.described(only).items():
        if isinstance(group, FerryError):
            errors.append(group)
        elif is_own_group(name):
            errors.append(FerryError(f"The group {name} is Kafka Ferry's own, and never moved."))
        elif group.state == "Dead":
            errors.append(FerryError(f"There is no group {name} on {flow.source.alias}."))
        else:
            chosen.append(group)
    return chosen


@dataclass(frozen=True)
class _Picture:
    """All that translating offsets depends on, apart from the offsets.

    Attributes:
        routes: by *source* partition.
        remote: the remote topic of each source topic that was ever copied, or is planned.
        source_topics: the source's topics, by name.
        target_topics: the remote ones, by name.
        source_logs: the source's logs, by its partitions.
        target_logs: the target's logs, by its partitions.
        ledger: the flow's ledger.
    """

    routes: Mapping[TopicPartition, Route]
    remote: Mapping[str, str]
    source_topics: Mapping[str, Topic]
    target_topics: Mapping[str, Topic]
    source_logs: Mapping[TopicPartition, LogBounds]
    target_logs: Mapping[TopicPartition, LogBounds]
    ledger: LedgerTable

    @classmethod
    def of(cls, flow: Flow, ledger: LedgerTable, topics: Collection[str]) -> _Picture:
        if not topics:
            return cls({}, {}, {}, {}, {}, {}, ledger)
        remote = remote_topics_of(ledger, topics)
        source, target = ClusterControl(flow.source), ClusterControl(flow.target)
        source_topics = source.topics(topics)
        target_topics = target.topics(remote.values())
        wait_s = flow.partition_wait_ms / 1000
        return cls(
            routes(
                ledger,
                {name: topic.topic_id for name, topic in source_topics.items()},
                {name: topic.topic_id for name, topic in target_topics.items()},
                before=ledger.verified_through(),
                topics=topics,
                opposite=opposite_for(flow, ask=True),
            ),
            remote,
            source_topics,
            target_topics,
            source.log_bounds(source_topics.values(), flow.isolation_level, wait_s=wait_s),
            # Open transactions of other producers must not hold groups below a higher offset.
            target.log_bounds(target_topics.values(), "read_uncommitted", wait_s=wait_s),
            ledger,
        )

    def move(self, tp: TopicPartition, committed: Committed) -> PartitionMove:
        """Translates a group's offset in one partition."""
        route = self.routes.get(tp)
        log = self.source_logs.get(tp)
        if route:
            return translated(
                tp,
                committed,
                route,
                end=log.end if log else -1,
                log=self.target_logs.get(route.target),
            )
        return self._without_route(tp, committed, log)

    def _without_route(
        self, tp: TopicPartition, committed: Committed, log: LogBounds | None
    ) -> PartitionMove:
        move = PartitionMove(tp, committed, log.end if log else -1, action="held")
        name = self.remote.get(tp.topic)
        if tp.topic not in self.source_topics:
            return replace(move, reason="its topic is gone from the source, or may not be seen.")
        if name is None:
            return replace(move, reason="nothing of its topic is copied yet.")
        target = TopicPartition(name, tp.partition)
        if name not in self.target_topics:
            return replace(move, target=target, reason=f"{name} is not on the target.")
        if tp in self._ever_copied or tp.partition >= self.target_topics[name].partitions:
            return replace(move, target=target, reason=NOT_COPIED)
        return untouched(tp, committed, target, logs=(log, self.target_logs.get(target)))

    @cached_property
    def _ever_copied(self) -> frozenset[TopicPartition]:
        """The partitions that the ledger has entries for, verified or not, of any topic on either side."""
        rows = self.ledger.read(
            (pc.field("type") == "transaction") & pc.field("topic").isin(list(self.remote)),
            ["topic", "partition"],
        )
        there = rows.group_by(["topic", "partition"]).aggregate([]).to_pylist()
        return frozenset(TopicPartition(row["topic"], row["partition"]) for row in there)
