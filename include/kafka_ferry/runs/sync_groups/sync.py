"""Moves groups: translates their offsets and, as a step of a run, commits them on the target.

The rules are in ``groups.decisions``; this module asks the clusters and the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.clock import now_ms
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, FerryError, GroupsFailed
from kafka_ferry.groups.decisions import FROM_TARGET
from kafka_ferry.groups.moves import GroupMove, GroupMoves, lost_since
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import (
    Committed,
    Group,
    chosen_groups,
    is_own_group,
    slow_names_notes,
    unused_patterns_notes,
)
from kafka_ferry.runs.state.file_digests import require_prepared
from kafka_ferry.runs.sync_groups.commit_offsets import commit_moves
from kafka_ferry.runs.sync_groups.delete_offsets import delete_stale_offsets, deletes_offsets
from kafka_ferry.runs.sync_groups.hidden_groups import hidden_groups
from kafka_ferry.runs.sync_groups.mm2_topics import emit
from kafka_ferry.runs.sync_groups.offset_routes import Logs, OffsetRoutes
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
        planned = run.folder.plan().source_cluster_id
        moves = move_groups(flow, ledger, run=run.run_id, write=write, cluster_id=planned)
        moves = _with_hidden(run, moves)
        if deletes_offsets(flow) and not moves.failures:
            moves = _delete_gone(run, moves)
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


def _with_hidden(run: RunContext, moves: GroupMoves) -> GroupMoves:
    """``moves`` with what is wrong with groups that an earlier run has seen, and that the source does not show now.

    Topics that it does not show are refused by the plan.
    """
    earlier = run.folder.groups_seen()
    listed = {move.group.name for move in moves.groups}
    lost = {move.group.name for move in lost_since(earlier, moves)} if earlier else set()
    names = list(filter(run.flow.group_filter.matches, lost - listed))
    # Of groups that no broker can list, the groups' own look has said so.
    if not names or moves.failures:
        return moves
    sentences = tuple(map(str, hidden_groups(run.flow, names).values()))
    if not run.flow.sync_group_offsets_enabled:
        return replace(moves, notes=(*moves.notes, *sentences))
    return replace(moves, failures=sentences, transient=not sentences)


def _delete_gone(run: RunContext, moves: GroupMoves) -> GroupMoves:
    plan = run.folder.plan()
    if not plan.removals.offset_deletions:
        return delete_stale_offsets(run.flow, run.ledger, moves, plan)
    try:
        require_prepared(run, plan)
    except FerryError as error:
        # Offsets are deleted only by the plan that was made, of which more than a few had to be approved.
        if error.transient:
            raise
        return replace(moves, failures=(*moves.failures, str(error)), transient=False)
    with run.by_topic() as by_topic:
        return delete_stale_offsets(run.flow, by_topic.ledger, moves, plan)


def move_groups(
    flow: Flow,
    ledger: LedgerTable,
    *,
    run: str,
    write: bool,
    only: Collection[str] = (),
    home: bool = False,
    cluster_id: str = "",
) -> GroupMoves:
    """Translate groups' offsets, as far as verified, and commit them on the target.

    Args:
        flow: the flow.
        ledger: its ledger, projected to its end.
        run: the run that commits them.
        write: whether to commit anything.
        only: names of groups, regardless of ``groups``; all that the flow selects where empty.
        home: whether offsets in topics that came from the target are moved too, not only named.
        cluster_id: the cluster that the source has to be; "" for any.

    Raises:
        FerryError: if a cluster, or its list of topics, cannot be read at all; or if the source is another cluster.
    """
    moves = _read(flow, ledger, only, write=write, home=home)
    if cluster_id and moves.source_cluster_id not in ("", cluster_id):
        # Where brokers give topics no ids, nothing else tells another cluster's topics of the same names.
        raise FerryError(
            f"{flow.source.alias} is the cluster {moves.source_cluster_id}, and was {cluster_id} when the run was "
            "planned: no group was moved.",
            advice=f"Look at bootstrap.servers of {flow.source.alias}. The next run plans for what is there.",
        )
    # A dry run of a failover says what would become of each group.
    if moves.groups and (write or home):
        moves = commit_moves(flow, ledger, moves, run=run, write=write)
    return moves


def translate_groups(
    flow: Flow,
    ledger: LedgerTable,
    offsets: Mapping[Group, Offsets],
    *,
    last_seen: Logs | None = None,
    by_records: bool = False,
) -> tuple[GroupMove, ...]:
    """Translate groups' offsets, as far as verified; changes nothing.

    Args:
        flow: the flow.
        ledger: its ledger, projected to its end.
        offsets: what each group has committed on the source.
        last_seen: the source's logs as a run has seen them; the source is not asked then.
        by_records: as of ``OffsetRoutes.of``.

    Returns:
        Each group with all its offsets, ordered by name.
    """
    topics = {tp.topic for committed in offsets.values() for tp in committed}
    known = OffsetRoutes.of(flow, ledger, topics, last_seen, by_records=by_records)
    moves = []
    for group, committed in sorted(offsets.items(), key=lambda item: item[0].name):
        answers = [(tp, known.move(tp, at)) for tp, at in sorted(committed.items())]
        moves.append(
            GroupMove(
                group,
                tuple(move for _, move in answers if move),
                outside=tuple((tp, committed[tp].offset) for tp, move in answers if not move),
            )
        )
    return tuple(moves)


def _read(
    flow: Flow, ledger: LedgerTable, only: Collection[str], *, write: bool, home: bool
) -> GroupMoves:
    """The selected groups with their offsets on the target; all groups of ``only``, whatever they read."""
    at = now_ms()
    errors: list[FerryError] = []
    groups: list[Group] = []
    offsets: dict[Group, Offsets] = {}
    unread = []
    notes: list[str] = []
    with GroupControl(flow.source) as source:
        try:
            groups = _choose(flow, source, only, errors, notes)
            committed = source.committed_offsets(groups) if groups else {}
            source_cluster_id = source.cluster_id()
        except AccessDenied as error:
            groups, committed, source_cluster_id = [], {}, ""
            errors.append(error)
    for group in groups:
        group_offsets = committed[group.name]
        if isinstance(group_offsets, FerryError):
            unread.append(GroupMove(group, reason=str(group_offsets), at=at))
            # A broker that is too old for share groups' offsets is not a failure.
            if not isinstance(group_offsets, TooOld):
                errors.append(group_offsets)
        else:
            offsets[group] = group_offsets
    known = translate_groups(flow, ledger, offsets, by_records=home) if offsets else ()
    known = tuple(replace(move, at=at) for move in known if move.partitions or only)
    if not home:
        known = tuple(map(_without_home, known))
    moves = (*known, *unread)
    found_all = GroupMoves(
        at,
        tuple(sorted(moves, key=lambda move: move.group.name)),
        notes=tuple(notes),
        source_cluster_id=source_cluster_id,
    )
    sentences = tuple(map(str, errors))
    if not (write or only or home):
        return replace(found_all, notes=(*notes, *sentences))
    may_pass = all(error.transient for error in errors)
    return replace(found_all, failures=sentences, transient=may_pass)


def _without_home(move: GroupMove) -> GroupMove:
    """The moves, with what a run leaves where it is held: the application may run on both clusters."""
    held = (
        replace(one, target=None, offset=None, kind=None, action="held", reason=FROM_TARGET)
        if one.home
        else one
        for one in move.partitions
    )
    return replace(move, partitions=tuple(held))


def _choose(
    flow: Flow,
    source: GroupControl,
    only: Collection[str],
    errors: list[FerryError],
    notes: list[str],
) -> list[Group]:
    """The groups to move; adds what is wrong with them, and which entries of ``groups`` match none."""
    if not only:
        listed, unlisted = source.known_groups()
        if unlisted:
            errors.append(unlisted)
        else:
            names = [group.name for group in listed]
            notes += unused_patterns_notes(flow.source.alias, names, flow.groups)
            notes += slow_names_notes(flow.source.alias, names, flow.group_filter)
        return chosen_groups(listed, flow.group_filter)
    chosen = []
    for name, group in source.describe(only).items():
        if isinstance(group, FerryError):
            errors.append(group)
        elif is_own_group(name):
            errors.append(FerryError(f"The group {name} is Kafka Ferry's own, and never moved."))
        elif group.state == "Dead":
            errors.append(source.no_such_group(name))
        else:
            chosen.append(group)
    return chosen
