"""Failing back: the reverse flow copies records back, and the same ledger moves the groups back.

``flow`` is the one from the old cluster, A, to the one that the groups are on, B; ``back`` goes from B to A:

- with kept names, ``back`` copies what is new in a topic on B and leaves out what came from A
  (``copy.source.opposite_flow_filter``); a group's offset there is translated by both ledgers together;
- with other names, ``A.orders`` on B is not copied, since all of it is in ``orders`` on A: a group's offset
  in it is translated backwards by the flow's own ledger. B's own topics are copied as in any flow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.clock import now_ms, run_id_now
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.groups.routes import Route, routes
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.groups import Committed, Group, chosen_groups
from kafka_ferry.retry import retry_for
from kafka_ferry.runs.failover.failover import copied_through, outlook, projected_ledger
from kafka_ferry.runs.sync_groups.commit_offsets import commit_moves
from kafka_ferry.runs.sync_groups.sync import move_groups

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.outlook import Outlook


def failback(
    flow: Flow, back: Flow, groups: Collection[str] = (), *, dry_run: bool = False
) -> Outlook:
    """Commit the groups' progress on ``flow``'s target as offsets on its source, where they came from.

    Call it after ``back`` has run: a group cannot continue with records that ``back`` has not copied.

    Args:
        flow: the flow.
        back: the reverse flow.
        groups: names of groups; all that the flow chooses where empty.
        dry_run: only report what would be done.

    Raises:
        FerryError: if one of the clusters cannot be read, or ``back`` was never run.
    """
    run = run_id_now("failback")
    at = now_ms()
    with retry_for(flow.admin_timeout_ms / 1000):
        there, here = projected_ledger(flow), projected_ledger(back)
        moves = move_groups(back, here, run=run, write=not dry_run, only=groups)
        homeward = _homeward(flow, there, here, groups, at)
        if not dry_run and homeward.groups:
            homeward = commit_moves(back, here, homeward, run=run)
        copied_to = copied_through(back, here)
        notes = _notes(flow)
        both = _joined(moves, homeward)
        return outlook(back, both, copied_to, run=run, at=at, is_done=not dry_run, notes=notes)


def _homeward(
    flow: Flow, there: LedgerTable, here: LedgerTable, only: Collection[str], at: int
) -> GroupMoves:
    """The groups' offsets in topics that came from the cluster they return to, and are not copied back."""
    target, source = ClusterControl(flow.target), ClusterControl(flow.source)
    pairs = {
        topic: remote for topic, remote in there.topics().items() if remote not in here.topics()
    }
    remote_topics, topics = target.topics(pairs.values()), source.topics(pairs)
    found = routes(
        there,
        {name: topic.topic_id for name, topic in topics.items()},
        {name: topic.topic_id for name, topic in remote_topics.items()},
        topics=pairs,
    )
    by_remote = {route.target: route for route in found.values() if route.source.topic in pairs}
    if not by_remote:
        return GroupMoves(at)
    logs = source.log_bounds(topics.values(), "read_uncommitted")
    ends = target.log_bounds(remote_topics.values())
    with GroupControl(flow.target) as control:
        chosen = _chosen(flow, control, only)
        committed = control.committed(chosen)
    moves, failures = [], []
    for group in chosen:
        offsets = committed[group.name]
        if isinstance(offsets, FerryError):
            failures.append(str(offsets))
            continue
        partitions = tuple(
            _moved(by_remote[tp], offsets[tp], logs, ends)
            for tp in sorted(offsets.keys() & by_remote.keys())
        )
        if partitions:
            moves.append(GroupMove(group, partitions, at=at))
    return GroupMoves(at, tuple(moves), failures=tuple(failures))


def _chosen(flow: Flow, control: GroupControl, only: Collection[str]) -> list[Group]:
    groups = control.groups()
    if only:
        return [group for group in groups if group.name in only]
    return chosen_groups(groups, flow.group_filter)


def _moved(
    route: Route,
    committed: Committed,
    logs: Mapping[TopicPartition, LogBounds],
    ends: Mapping[TopicPartition, LogBounds],
) -> PartitionMove:
    """Translates an offset in a copy to the topic that was copied."""
    end = ends[route.target].end if route.target in ends else -1
    move = PartitionMove(route.target, committed, end, route.source)
    log = logs.get(route.source)
    if log is None:
        return replace(
            move, action="held", reason="the start and end of its log there are not known."
        )
    found = route.map.reverse(committed.offset, log_start=log.start, log_end=log.end)
    if found is None:
        return replace(
            move, action="held", reason="the ledger does not say where that offset came from."
        )
    return replace(move, offset=found.offset, kind=found.kind)


def _joined(one: GroupMoves, other: GroupMoves) -> GroupMoves:
    """Merges both, each group once."""
    by_name = {move.group.name: move for move in one.groups}
    for move in other.groups:
        known = by_name.get(move.group.name)
        if known:
            partitions = (*known.partitions, *move.partitions)
            known = replace(known, partitions=partitions, reason=known.reason or move.reason)
        by_name[move.group.name] = known or move
    groups = tuple(by_name[name] for name in sorted(by_name))
    failures = tuple(dict.fromkeys((*one.failures, *other.failures)))
    return replace(one, groups=groups, failures=failures)


def _notes(flow: Flow) -> tuple[str, ...]:
    """What has to be done before ``flow`` runs again."""
    if flow.on_returned_records == "leave-out":
        return ()
    return (
        f"Before {flow.name} runs again: where both clusters have a topic under one name, it leaves out "
        f"what {flow.target.alias} has copied back only with on.returned.records: leave-out. Without it, "
        "it skips such topics.",
    )
