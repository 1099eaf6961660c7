"""Deletes on the target the offsets that runs have committed, once they are gone from the source.

The plan names each deletion, by the same look at both clusters, and a run deletes only what its plan names.
An offset counts as gone only from the cluster on which it was committed, and from the topic whose records
were copied (``plan.removals``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.decisions import left_alone, why_not
from kafka_ferry.groups.ledger_entries import Synced, entries_of
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger import SyncedOffset, append_entry
from kafka_ferry.ledger.queries.copied_topics import copied_topics
from kafka_ferry.model.groups import Committed, Group, is_own_group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.remarks import Note
from kafka_ferry.model.removals import OffsetDeletion
from kafka_ferry.plan.removals import Kept, excess_of, may_remove

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Plan
    from kafka_ferry.runs.state.run_context import RunContext

_GONE: Final = SyncedOffset(source=-1, target=-1)
_RECREATED: Final = (
    "its topic was recreated on the source, which says nothing about the records that were copied."
)
_NOT_PLANNED: Final = "gone from the source, and its deletion is not in the plan of this run: "
_NOT_APPROVED: Final = _NOT_PLANNED + "it waits for an approval (removals.max)."
_NEXT_RUN: Final = _NOT_PLANNED + "the next run deletes it."


def deletes_offsets(flow: Flow) -> bool:
    """Whether a flow deletes offsets on the target that are gone from the source."""
    return flow.sync_group_offsets_enabled and flow.on_source_group_deleted == "delete"


def planned_deletions(run: RunContext, plan: Plan) -> Plan:
    """The plan with the offsets that its run is to delete; changes nothing.

    It asks both clusters about the groups of which offsets were committed, if the flow deletes any.

    Raises:
        ClusterUnreachable: if one of them does not answer.
    """
    flow = run.flow
    if not deletes_offsets(flow) or not plan.ledger_end or plan.options.window:
        return plan
    synced = _synced_offsets(flow, run.ledger)
    try:
        with GroupControl(flow.target) as target:
            gone = _find_gone(flow, synced, GroupMoves(plan.at), target)
    except FerryError as error:
        if error.transient:
            raise
        note = Note("", f"Offsets of groups that are gone from the source are not deleted. {error}")
        return _with_notes(plan, [note])
    due = [
        OffsetDeletion(move.group.name, topic, tuple(at.partition for at in partitions))
        for move in gone.groups
        for topic, partitions in groupby(gone.deletable(move), attrgetter("topic"))
    ]
    names = sorted({deletion.group for deletion in due})
    emptied = plan.removals.emptied
    excess = excess_of(flow, "group's offsets", names, len(synced), emptied=emptied)
    removals = replace(
        plan.removals,
        offset_deletions=tuple(due),
        excesses=(*plan.removals.excesses, *filter(None, [excess])),
    )
    notes = gone.kept.notes(flow, gone.source_cluster_id)
    return _with_notes(replace(plan, removals=removals), notes)


def _with_notes(plan: Plan, notes: list[Note]) -> Plan:
    return replace(plan, remarks=replace(plan.remarks, notes=(*plan.remarks.notes, *notes)))


def delete_stale_offsets(
    flow: Flow, ledger: LedgerTable, moves: GroupMoves, plan: Plan
) -> GroupMoves:
    """Delete offsets that runs have committed, where the group or its offset is gone from the source.

    Offsets that another client has committed since stay, and so do those that may only be hidden.

    Args:
        flow: the flow.
        ledger: its ledger; deletions are recorded in it.
        moves: the groups that are still on the source.
        plan: the plan of the run that deletes.

    Returns:
        The same, with the partitions that were deleted, held or refused.

    Raises:
        FerryError: if a cluster cannot be reached at all.
    """
    synced = _synced_offsets(flow, ledger)
    with GroupControl(flow.target) as target:
        gone = _find_gone(flow, synced, moves, target)
        if not gone.groups:
            return moves
        done, errors = _delete(target, gone.limit_to_plan(plan), gone.there)
    keys = {tp: known.key for offsets in synced.values() for tp, known in offsets.items()}
    cleared = chain.from_iterable(_cleared_offsets(move, keys) for move in done)
    for entry in entries_of(
        cleared,
        flow=flow.name,
        run=plan.run,
        at=now_ms(),
        source_cluster_id=gone.source_cluster_id,
    ):
        append_entry(flow, entry)
    return replace(
        moves,
        groups=_merge(moves.groups, done),
        failures=(*moves.failures, *map(str, errors)),
        transient=moves.transient and all(error.transient for error in errors),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """An offset that a run has committed on the target.

    Attributes:
        source: the partition on the source.
        topic_ids: the ids of the source's topics whose records went to the remote topic.
        key: the ledger's key.
        offset: what was committed last.
        created_for: the cluster on which the group had committed, "" where unknown.
    """

    source: TopicPartition
    topic_ids: frozenset[str]
    key: tuple[str, int]
    offset: SyncedOffset
    created_for: str


_Offsets = dict[str, dict[TopicPartition, _Known]]
"""By group and *target* partition."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """What is gone from the source.

    Attributes:
        groups: the groups, their partitions ``deleted`` or ``held``.
        there: what each of them has committed on the target.
        source_cluster_id: the source's cluster id.
        kept: the groups of which something stays, since the source is another cluster.
    """

    groups: list[GroupMove]
    there: Mapping[str, Mapping[TopicPartition, Committed] | FerryError]
    source_cluster_id: str
    kept: Kept

    def deletable(self, move: GroupMove) -> list[TopicPartition]:
        """The *target* partitions of a group whose offsets can be deleted, as far as there are any."""
        committed = self.there.get(move.group.name, {})
        wanted = {one.target for one in move.partitions if one.action == "deleted"}
        return sorted(committed.keys() & wanted) if isinstance(committed, Mapping) else []

    def limit_to_plan(self, plan: Plan) -> list[GroupMove]:
        """The groups; what the plan does not delete is ``held``."""
        planned = {
            (removal.group, TopicPartition(removal.remote_topic, number))
            for removal in plan.removals.offset_deletions
            for number in removal.partitions
        }
        waits = any(removal.kind == "group's offsets" for removal in plan.removals.excesses)
        why = _NOT_APPROVED if waits else _NEXT_RUN

        def decide(move: GroupMove) -> GroupMove:
            deletable = {tp for tp in self.deletable(move) if (move.group.name, tp) not in planned}
            partitions = (
                replace(one, action="held", reason=why) if one.target in deletable else one
                for one in move.partitions
            )
            return replace(move, partitions=tuple(partitions))

        return [decide(move) for move in self.groups]


def _synced_offsets(flow: Flow, ledger: LedgerTable) -> _Offsets:
    """What runs have committed in topics that still exist, for the groups that the flow moves."""
    names: dict[str, tuple[str, str]] = {}
    copied: dict[str, set[str]] = {}
    for remote_topic in copied_topics(ledger):
        key = remote_topic.remote_topic_id or remote_topic.remote_topic
        names[key] = remote_topic.topic, remote_topic.remote_topic
        copied.setdefault(key, set()).add(remote_topic.topic_id)
    readable, _ = ClusterControl(flow.target).readable_topics(
        {remote_topic for _, remote_topic in names.values()}
    )
    ids = {name: topic.topic_id for name, topic in readable.items()}
    present = {key: pair for key, pair in names.items() if (ids.get(pair[1]) or pair[1]) == key}
    wanted = flow.group_filter
    known: _Offsets = {}
    for group, offsets in ledger.synced_groups().items():
        if wanted.matches(group) and not is_own_group(group):
            for (topic, number), offset in offsets.items():
                if offset.source >= 0 and not offset.refuted and topic in present:
                    source, remote = present[topic]
                    known.setdefault(group, {})[TopicPartition(remote, number)] = _Known(
                        TopicPartition(source, number),
                        frozenset(copied[topic]),
                        (topic, number),
                        offset,
                        offset.source_cluster_id,
                    )
    return known


def _find_gone(flow: Flow, synced: _Offsets, moves: GroupMoves, target: GroupControl) -> _Gone:
    """What is gone from the source, decided; ``moves`` are the groups that are known to be there."""
    kept = Kept()
    groups, source_cluster_id = _find_stale(flow, synced, moves, kept)
    names = [move.group.name for move in groups]
    states = target.describe(names)
    free = [state for state in states.values() if isinstance(state, Group)]
    committed_by_group = target.committed_offsets(
        [state for state in free if state.state != "Dead"]
    )
    decided = [
        _decide(
            move,
            states[move.group.name],
            committed_by_group.get(move.group.name, {}),
            synced,
            target,
        )
        for move in groups
    ]
    return _Gone(decided, committed_by_group, source_cluster_id, kept)


def _find_stale(
    flow: Flow, synced: _Offsets, moves: GroupMoves, kept: Kept
) -> tuple[list[GroupMove], str]:
    """The groups with something gone, with just these partitions, and the source's cluster id."""
    existing = {move.group.name: {one.source for one in move.partitions} for move in moves.groups}
    missing = {
        group: {known.source for known in offsets.values()} - existing.get(group, set())
        for group, offsets in synced.items()
    }
    missing = {group: partitions for group, partitions in missing.items() if partitions}
    if not missing:
        return [], ""
    topics = {tp.topic for partitions in missing.values() for tp in partitions}
    control = ClusterControl(flow.source)
    readable, _ = control.readable_topics(topics)
    topic_ids = {name: topic.topic_id for name, topic in readable.items()}
    # Brokers silently hide the offsets of topics that may not be seen.
    not_hidden = topic_ids.keys() | control.unknown(topics)
    with GroupControl(flow.source) as source:
        states = {
            name: state
            for name, state in source.describe(missing.keys()).items()
            if isinstance(state, Group)
        }
        offsets = source.committed_offsets(
            [state for state in states.values() if state.state != "Dead"]
        )
        # Of the very connections by which something was not found.
        source_cluster_id = source.cluster_id()
    gone = []
    for name, state in sorted(states.items()):
        still = offsets.get(name, {})
        if isinstance(still, FerryError):
            continue
        absent = {
            at: known
            for at, known in sorted(synced[name].items())
            if known.source in missing[name]
            and known.source not in still
            and (state.state == "Dead" or known.source.topic in not_hidden)
        }
        other_clusters = {
            known.created_for
            for known in absent.values()
            if not may_remove(flow, known.created_for, source_cluster_id)
        }
        for cluster in sorted(other_clusters)[:1]:
            kept.add("group's offsets", name, cluster)
        partitions = tuple(
            _absent(at, known, topic_ids.get(known.source.topic, ""))
            for at, known in absent.items()
            if known.created_for not in other_clusters
        )
        if partitions:
            gone.append(GroupMove(state, partitions, at=moves.at))
    return gone, source_cluster_id


def _absent(at: TopicPartition, known: _Known, topic_id: str) -> PartitionMove:
    """A partition whose offset is gone; held if the topic on the source is another one by now."""
    move = PartitionMove(known.source, None, target=at)
    if topic_id and topic_id not in known.topic_ids:
        return replace(move, action="held", reason=_RECREATED)
    return move


def _decide(
    move: GroupMove,
    state: Group | FerryError,
    committed: Mapping[TopicPartition, Committed] | FerryError,
    synced: _Offsets,
    target: GroupControl,
) -> GroupMove:
    """The group, its partitions ``deleted`` or ``held``."""
    if isinstance(state, FerryError):
        return left_alone(move, str(state))
    if isinstance(committed, FerryError):
        return left_alone(move, str(committed))
    # A group that is gone from the source has no type there.
    reason = why_not(replace(move.group, type=state.type), state, target.alias)
    if reason:
        return left_alone(move, reason)

    def decide(one: PartitionMove) -> PartitionMove:
        assert one.target is not None
        if one.action == "held":
            return one
        was, last = committed.get(one.target), synced[move.group.name][one.target].offset
        if was is None or was.offset == last.target:
            return replace(one, action="deleted")
        reason = (
            f"gone from the source, but another client has committed {was.offset} on the target."
        )
        return replace(one, action="held", reason=reason)

    return replace(move, partitions=tuple(map(decide, move.partitions)))


def _delete(
    target: GroupControl,
    groups: list[GroupMove],
    committed_by_group: Mapping[str, Mapping[TopicPartition, Committed] | FerryError],
) -> tuple[list[GroupMove], list[FerryError]]:
    """The groups after the deletion, and what was refused."""
    whole, parts = [], {}
    for move in groups:
        name, committed = move.group.name, committed_by_group.get(move.group.name, {})
        wanted = {one.target for one in move.partitions if one.action == "deleted" and one.target}
        left = committed.keys() & wanted if isinstance(committed, Mapping) else set()
        if left and isinstance(committed, Mapping) and not committed.keys() - wanted:
            whole.append(name)
        elif left:
            parts[name] = left
    by_group = target.delete(whole)
    refused = target.delete_offsets(parts)
    errors = [*by_group.values(), *chain.from_iterable(e.values() for e in refused.values())]

    def after(name: str, one: PartitionMove) -> PartitionMove:
        error = by_group.get(name) or (one.target and refused.get(name, {}).get(one.target))
        if error and one.action == "deleted":
            return replace(one, action="refused", reason=str(error))
        return one

    done = [
        replace(move, partitions=tuple(after(move.group.name, one) for one in move.partitions))
        for move in groups
    ]
    return done, errors


def _cleared_offsets(
    move: GroupMove, keys: Mapping[TopicPartition, tuple[str, int]]
) -> Iterator[Synced]:
    for one in move.partitions:
        if one.action == "deleted" and one.target:
            yield move.group.name, *keys[one.target], _GONE


def _merge(groups: tuple[GroupMove, ...], additional: list[GroupMove]) -> tuple[GroupMove, ...]:
    """All groups, ordered by name; the partitions of a group in both are merged."""
    merged = {move.group.name: move for move in groups}
    for move in additional:
        name = move.group.name
        if name in merged:
            both = sorted((*merged[name].partitions, *move.partitions), key=lambda one: one.source)
            merged[name] = replace(merged[name], partitions=tuple(both))
        else:
            merged[name] = move
    return tuple(merged[name] for name in sorted(merged))
