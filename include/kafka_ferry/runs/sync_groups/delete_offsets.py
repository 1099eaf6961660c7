"""Deletes on the target the offsets that runs have committed, once they are gone from the source.

The plan names each deletion, by the same look at both clusters, and a run deletes only what its plan names.
Which are gone, ``stale_offsets`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.ledger_entries import Synced
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove, together
from kafka_ferry.ledger import SyncedOffset
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.remarks import Note
from kafka_ferry.model.removals import OffsetDeletion
from kafka_ferry.plan.removals import excess_of
from kafka_ferry.runs.sync_groups.commit_offsets import record_synced
from kafka_ferry.runs.sync_groups.stale_offsets import Gone, find_gone, synced_offsets

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Plan
    from kafka_ferry.runs.state.run_context import RunContext

_GONE: Final = SyncedOffset(source=-1, target=-1)


def deletes_offsets(flow: Flow) -> bool:
    """Whether a flow deletes offsets on the target that are gone from the source."""
    return flow.sync_group_offsets_enabled and flow.on_source_group_deleted == "delete"


def planned_deletions(run: RunContext, plan: Plan) -> Plan:
    """The plan with the offsets that its run is to delete; changes nothing.

    It asks both clusters about the groups whose offsets were committed, if the flow deletes any.

    Raises:
        ClusterUnreachable: if one of them does not answer.
    """
    flow = run.flow
    if not deletes_offsets(flow) or not plan.ledger_end or plan.options.window:
        return plan
    synced = synced_offsets(flow, run.ledger)
    try:
        with GroupControl(flow.target) as target:
            gone = find_gone(flow, synced, GroupMoves(plan.at), target)
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
    synced = synced_offsets(flow, ledger)
    with GroupControl(flow.target) as target:
        gone = find_gone(flow, synced, moves, target)
        if not gone.groups:
            return moves
        done, errors = _delete(target, gone, gone.limit_to_plan(plan))
    keys = {tp: known.key for offsets in synced.values() for tp, known in offsets.items()}
    cleared = chain.from_iterable(_cleared_offsets(move, keys) for move in done)
    record_synced(flow, plan.run, gone.source_cluster_id, cleared)
    return replace(
        moves,
        groups=_merge(moves.groups, done),
        failures=(*moves.failures, *map(str, errors)),
        transient=moves.transient and all(error.transient for error in errors),
    )


def _delete(
    target: GroupControl, gone: Gone, groups: list[GroupMove]
) -> tuple[list[GroupMove], list[FerryError]]:
    """The groups after the deletion, and what was refused.

    No group is deleted as such: that would delete its offsets of topics, too, which the flow may not see.
    """
    parts = {move.group.name: left for move in groups if (left := gone.deletable(move))}
    refused = target.delete_offsets(parts)
    errors = [*chain.from_iterable(e.values() for e in refused.values())]

    def after(name: str, one: PartitionMove) -> PartitionMove:
        error = one.target and refused.get(name, {}).get(one.target)
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
        merged[move.group.name] = together(merged.get(move.group.name), move)
    return tuple(merged[name] for name in sorted(merged))
