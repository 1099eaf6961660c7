"""What groups had committed on the source when it last answered: used while it is down."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.clock import moment_text, now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.decisions import NOT_COPIED
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove, lost_since, together
from kafka_ferry.ledger.queries.run_starts import last_run
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.removals import first_of
from kafka_ferry.plan import select_topics
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.runs.sync_groups.hidden_groups import hidden_groups, hidden_topics
from kafka_ferry.runs.sync_groups.sync import translate_groups
from kafka_ferry.state import folder_name

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.ledger import LedgerTable

_SHOWN: Final = 10


class _SyncedMove(NamedTuple):
    """An offset for which one was committed on the target, and when: 0 where another mirror had."""

    move: PartitionMove
    at: int


_SyncedMoves = dict[TopicPartition, _SyncedMove]
"""By source partition."""


def seen_groups(flow: Flow) -> GroupMoves:
    """The groups as the newest run that read any found them, and what earlier runs had found; none without a run."""
    return RunFolder(flow_state(flow).folder("runs"), "").groups_seen() or GroupMoves(0)


def add_lost_offsets(
    flow: Flow, ledger: LedgerTable, moves: GroupMoves, only: Collection[str]
) -> GroupMoves:
    """The groups of a source that answers, with their offsets that it no longer has.

    Those of groups that it still has are ``held``: such a group continues where it is on the target, or begins
    by ``auto.offset.reset``. The other groups are named. What the source only does not show is a failure, also a topic
    of which no run has seen an offset: any group may have one there.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        moves: the groups as the source has them.
        only: names of groups; all that the flow chooses where empty.
    """
    now, wanted = {move.group.name: move for move in moves.groups}, flow.group_filter
    gone: dict[str, GroupMove] = {}
    for move in lost_since(seen_groups(flow), replace(moves, at=now_ms())):
        name = move.group.name
        if name in only if only else wanted.matches(name):
            gone[name] = together(gone.get(name), move)
    topics = {one.source.topic for move in gone.values() for one in move.partitions}
    hidden = hidden_topics(flow.source, topics.union(select_topics(flow, ledger.topics())[0]))
    denied = hidden_groups(flow, gone.keys() - now.keys())
    failures = (*moves.failures, *map(str, (*hidden.values(), *denied.values())))
    lost = tuple(move for name, move in gone.items() if name in now)
    known = translate_known(flow, ledger, GroupMoves(0, lost)) if lost else GroupMoves(0)
    remote = {one.target.topic for _, one in known.partitions() if one.target}
    existing = ClusterControl(flow.target).topic_ids(remote) if remote else {}
    for move in known.groups:
        held = [
            _hold(flow, one, move, hidden)
            for one in move.partitions
            if one.target and one.target.topic in existing
        ]
        name = move.group.name
        now[name] = together(now[name], replace(move, partitions=tuple(held)))
    notes = moves.notes
    not_moved = sorted(
        name
        for name in gone.keys() - now.keys() - denied.keys()
        if any(one.source.topic not in hidden for one in gone[name].partitions)
    )
    if not_moved:
        notes += (
            f"{flow.source.alias} has no offset in this flow's topics any more of groups that a run has seen with "
            f"some, and they are not moved: {first_of(not_moved, _SHOWN)}. With `--source-down --group NAME` one is "
            "moved as it was seen.",
        )
    groups = tuple(now[name] for name in sorted(now))
    unique = tuple(dict.fromkeys(failures))
    return replace(moves, groups=groups, notes=notes, failures=unique, unseen=tuple(hidden))


def _hold(
    flow: Flow, one: PartitionMove, move: GroupMove, hidden: Mapping[str, FerryError]
) -> PartitionMove:
    """An offset that the source no longer has, or of which it does not show the topic."""
    reason = (
        f"its offset is gone from {flow.source.alias} since {moment_text(move.at)}, with its topic or because it has "
        "expired. `--source-down` continues with it."
    )
    if error := hidden.get(one.source.topic):
        reason = error.message
    return replace(one, offset=None, kind=None, missing=0, action="held", reason=reason)


def known_groups(flow: Flow, ledger: LedgerTable, only: Collection[str] = ()) -> GroupMoves:
    """The groups as the newest run that read them found them, and as the ledger has them since, or alone.

    The state folder may not be that of the newest run: an older one would move a group that was set back since past
    records that it has not read. Arguments are as of ``add_lost_offsets``.

    Returns:
        The groups as they were then, each with the time; without a time where only the ledger has
        the group, with what was committed on the target for which offset.
    """
    last = seen_groups(flow)
    by_name = {
        move.group.name: replace(move, at=move.at or last.at)
        for move in last.groups
        if move.partitions
    }
    for move in last.gone:
        name = move.group.name
        if name in by_name or name in only:
            by_name[name] = together(by_name.get(name), move)
    synced = _synced_moves(ledger)
    for name, move in by_name.items():
        by_name[name] = _with_newer(move, synced.get(name, {}))
    by_name |= _from_ledger(
        flow.target, {name: some for name, some in synced.items() if name not in by_name}
    )
    wanted = flow.group_filter
    chosen = [
        move
        for name, move in sorted(by_name.items())
        if (name in only if only else wanted.matches(name))
    ]
    return GroupMoves(last.at, tuple(chosen))


def later_run(flow: Flow, ledger: LedgerTable, at: int) -> str:
    """A sentence where the ledger has a run that began after ``at``, and the state folder has not; else ""."""
    state, newest = flow_state(flow), last_run(ledger)
    if (
        newest is None
        or newest.at <= at
        or folder_name(newest.run) in state.folder("runs").folders()
    ):
        return ""
    return (
        f" The run {newest.run} began after that, at {moment_text(newest.at)}, and {state.location} does not have "
        "it: a group that was set back since then may skip records. Fail over where that run's state folder is."
    )


def translate_known(flow: Flow, ledger: LedgerTable, known: GroupMoves) -> GroupMoves:
    """These groups' offsets on the target by the ledger as it is now; asks only the target.

    The rules are those of ``translate_groups``; the source's logs are taken to be as a run has seen them.
    """
    logs = {
        one.source: LogBounds(one.start, one.end)
        for _, one in known.partitions()
        if 0 <= one.start <= one.end
    }
    offsets = {
        move.group: {one.source: one.committed for one in move.partitions if one.committed}
        | {tp: Committed(offset) for tp, offset in move.outside}
        for move in known.groups
    }
    moves = translate_groups(flow, ledger, offsets, last_seen=logs)
    by_group = {move.group: move for move in known.groups}
    return replace(known, groups=tuple(_as_seen(move, by_group[move.group]) for move in moves))


def _as_seen(move: GroupMove, seen: GroupMove) -> GroupMove:
    """The move without a lag: what was written since is unknown."""
    topic_ids = {one.source: one.topic_id for one in seen.partitions}
    partitions = (
        replace(_of_topic(one, topic_ids.get(one.source, "")), end=-1) for one in move.partitions
    )
    return replace(move, at=seen.at, partitions=tuple(partitions))


def _of_topic(one: PartitionMove, topic_id: str) -> PartitionMove:
    """The move, held where the offset is of another topic of that name than the one that was copied last.

    Otherwise a group would pass records of the former topic that it has not read.
    """
    if "" in (topic_id, one.topic_id) or topic_id == one.topic_id:
        return one
    held = replace(one, offset=None, kind=None, missing=0, is_lost=False, topic_id=topic_id)
    return replace(held, action="held", reason=NOT_COPIED)


def _synced_moves(ledger: LedgerTable) -> dict[str, _SyncedMoves]:
    """By group and source partition, the offset for which one was last committed on the target."""
    topics: Mapping[str, str] = {
        mark.remote_topic_id: mark.topic for mark in ledger.marks().values()
    }
    moves: dict[str, _SyncedMoves] = {}
    for name, offsets in ledger.synced_groups().items():
        moves[name] = {}
        for (remote_id, number), synced in sorted(offsets.items()):
            if remote_id in topics and synced.source >= 0:
                tp = TopicPartition(topics[remote_id], number)
                move = PartitionMove(tp, Committed(synced.source), topic_id=synced.source_topic_id)
                moves[name][tp] = _SyncedMove(move, 0 if synced.refuted else synced.at)
    return {name: some for name, some in moves.items() if some}


def _with_newer(seen: GroupMove, synced: _SyncedMoves) -> GroupMove:
    """The group as a run has seen it, with the offsets for which a later one has committed others."""
    partitions = {one.source: one for one in seen.partitions}
    for tp, (move, at) in synced.items():
        if at > seen.at and _offset(partitions.get(tp)) != _offset(move):
            partitions[tp] = move
    return replace(seen, partitions=tuple(partitions[tp] for tp in sorted(partitions)))


def _offset(move: PartitionMove | None) -> int | None:
    return move.committed.offset if move and move.committed else None


def _from_ledger(target: Cluster, synced: Mapping[str, _SyncedMoves]) -> dict[str, GroupMove]:
    """The groups whose offsets the ledger alone has."""
    with GroupControl(target) as control:
        states = control.describe(synced.keys())
    # A run commits nothing for a group whose type differs on the two clusters.
    groups = {
        name: state if isinstance(state, Group) else Group(name) for name, state in states.items()
    }
    return {
        name: GroupMove(groups[name], tuple(move for move, _ in partitions.values()))
        for name, partitions in synced.items()
    }
