"""Deletes on the target the offsets that runs have committed, once they are gone from the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.decisions import left_alone, why_not
from kafka_ferry.groups.ledger_entries import Synced, entries_of
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger import SyncedOffset, append_entry
from kafka_ferry.model.groups import Committed, Group, is_own_group
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable

_GONE: Final = SyncedOffset(source=-1, target=-1)


def delete_gone(flow: Flow, ledger: LedgerTable, moves: GroupMoves, *, run: str) -> GroupMoves:
    """Delete offsets that runs have committed, where the group or its offset is gone from the source.

    Offsets that another client has committed since stay, and so do those that may only be hidden.

    Args:
        flow: the flow.
        ledger: its ledger; deletions are recorded in it.
        moves: the groups that are still on the source.
        run: the run that deletes.

    Returns:
        The same, with the partitions that were deleted, held or refused.

    Raises:
        FerryError: if a cluster cannot be reached at all.
    """
    synced = _synced(flow, ledger)
    gone = _gone_from_source(flow, synced, moves)
    if not gone:
        return moves
    keys = {tp: key for offsets in synced.values() for tp, (_, key, _) in offsets.items()}
    with GroupControl(flow.target) as target:
        names = [move.group.name for move in gone]
        states = target.described(names)
        free = [state for state in states.values() if isinstance(state, Group)]
        there = target.committed([state for state in free if state.state != "Dead"])
        decided = [
            _decided(move, states[move.group.name], there.get(move.group.name, {}), synced, target)
            for move in gone
        ]
        done, errors = _deleted(target, decided, there)
    cleared = chain.from_iterable(_cleared(move, keys) for move in done)
    for entry in entries_of(cleared, flow=flow.name, run=run, at=now_ms()):
        append_entry(flow, entry)
    return replace(
        moves,
        groups=_merged(moves.groups, done),
        failures=(*moves.failures, *map(str, errors)),
        transient=moves.transient and all(error.transient for error in errors),
    )


_Known = dict[str, dict[TopicPartition, tuple[TopicPartition, tuple[str, int], SyncedOffset]]]
"""By group and *target* partition: the source's, the ledger's key, and what was committed last."""


def _synced(flow: Flow, ledger: LedgerTable) -> _Known:
    """What runs have committed in topics that still exist, for the groups that the flow moves."""
    columns = ["topic", "remote_topic", "remote_topic_id"]
    rows = ledger.read(pc.field("type") == "transaction", columns)
    names = {
        row["remote_topic_id"] or row["remote_topic"]: (row["topic"], row["remote_topic"])
        for row in rows.group_by(columns).aggregate([]).to_pylist()
    }
    ids = ClusterControl(flow.target).topic_ids({remote for _, remote in names.values()})
    present = {key: named for key, named in names.items() if (ids.get(named[1]) or named[1]) == key}
    wanted = flow.group_filter
    known: _Known = {}
    for group, offsets in ledger.synced_groups().items():
        if wanted.matches(group) and not is_own_group(group):
            for (topic, number), offset in offsets.items():
                if offset.source >= 0 and topic in present:
                    source, remote = present[topic]
                    at = TopicPartition(remote, number)
                    of = TopicPartition(source, number)
                    known.setdefault(group, {})[at] = (of, (topic, number), offset)
    return known


def _gone_from_source(flow: Flow, synced: _Known, moves: GroupMoves) -> list[GroupMove]:
    """The groups with something gone, with just these partitions."""
    there = {move.group.name: {one.source for one in move.partitions} for move in moves.groups}
    missing = {
        group: {of for of, _, _ in offsets.values()} - there.get(group, set())
        for group, offsets in synced.items()
    }
    missing = {group: partitions for group, partitions in missing.items() if partitions}
    if not missing:
        return []
    topics = {tp.topic for partitions in missing.values() for tp in partitions}
    control = ClusterControl(flow.source)
    # Brokers silently hide the offsets of topics that may not be seen.
    seen = control.topic_ids(topics).keys() | control.unknown(topics)
    with GroupControl(flow.source) as source:
        states = {
            name: state
            for name, state in source.described(missing.keys()).items()
            if isinstance(state, Group)
        }
        offsets = source.committed([state for state in states.values() if state.state != "Dead"])
    gone = []
    for name, state in sorted(states.items()):
        still = offsets.get(name, {})
        if isinstance(still, FerryError):
            continue
        partitions = tuple(
            PartitionMove(of, None, target=at)
            for at, (of, _, _) in sorted(synced[name].items())
            if of in missing[name]
            and of not in still
            and (state.state == "Dead" or of.topic in seen)
        )
        if partitions:
            gone.append(GroupMove(state, partitions, at=moves.at))
    return gone


def _decided(
    move: GroupMove,
    state: Group | FerryError,
    there: Mapping[TopicPartition, Committed] | FerryError,
    synced: _Known,
    target: GroupControl,
) -> GroupMove:
    """The group, its partitions ``deleted`` or ``held``."""
    if isinstance(state, FerryError):
        return left_alone(move, str(state))
    if isinstance(there, FerryError):
        return left_alone(move, str(there))
    # A group that is gone from the source has no type there.
    reason = why_not(replace(move.group, type=state.type), state, target.alias)
    if reason:
        return left_alone(move, reason)

    def decided(one: PartitionMove) -> PartitionMove:
        assert one.target is not None
        was, last = there.get(one.target), synced[move.group.name][one.target][2]
        if was is None or was.offset == last.target:
            return replace(one, action="deleted")
        reason = (
            f"gone from the source, but another client has committed {was.offset} on the target."
        )
        return replace(one, action="held", reason=reason)

    return replace(move, partitions=tuple(map(decided, move.partitions)))


def _deleted(
    target: GroupControl,
    groups: list[GroupMove],
    there: Mapping[str, Mapping[TopicPartition, Committed] | FerryError],
) -> tuple[list[GroupMove], list[FerryError]]:
    """The groups after the deletion, and what was refused."""
    whole, parts = [], {}
    for move in groups:
        name, committed = move.group.name, there.get(move.group.name, {})
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


def _cleared(move: GroupMove, keys: Mapping[TopicPartition, tuple[str, int]]) -> Iterator[Synced]:
    for one in move.partitions:
        if one.action == "deleted" and one.target:
            yield move.group.name, *keys[one.target], _GONE


def _merged(groups: tuple[GroupMove, ...], others: list[GroupMove]) -> tuple[GroupMove, ...]:
    """All groups, ordered by name; the partitions of a group in both are merged."""
    merged = {move.group.name: move for move in groups}
    for move in others:
        name = move.group.name
        if name in merged:
            both = sorted((*merged[name].partitions, *move.partitions), key=lambda one: one.source)
            merged[name] = replace(merged[name], partitions=tuple(both))
        else:
            merged[name] = move
    return tuple(merged[name] for name in sorted(merged))
