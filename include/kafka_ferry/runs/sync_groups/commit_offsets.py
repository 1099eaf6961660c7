"""Committing translated offsets on the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from kafka_ferry.batched import batched
from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.decisions import decide, is_renewal_due, left_alone, why_not
from kafka_ferry.groups.ledger_entries import Synced, entries_of, synced_key
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger import SyncedOffset, append_entry
from kafka_ferry.ledger.queries.run_starts import last_start_before
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.plan.removals import may_remove
from kafka_ferry.wire.any_broker import TooOld
from kafka_ferry.wire.error_codes import UNKNOWN_MEMBER_ID

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable

# The more groups at once, the longer the time between describing and committing one.
_GROUPS_AT_ONCE: Final = 1_000

Refused = Mapping[str, Mapping[TopicPartition, FerryError]]


def commit_moves(
    flow: Flow, ledger: LedgerTable, moves: GroupMoves, *, run: str, write: bool = True
) -> GroupMoves:
    """Commit translated offsets on the target, for groups that have no members there.

    Args:
        flow: the flow.
        ledger: its ledger; what is committed is appended to it.
        moves: the groups, translated.
        run: the run that commits them.
        write: whether to commit them; otherwise only what would be done is decided.

    Returns:
        The groups with what was done.

    Raises:
        FerryError: if the target, or its ledger, cannot be reached at all.
    """
    topics = {one.target.topic for _, one in moves.partitions() if one.target}
    remote_ids = ClusterControl(flow.target).topic_ids(topics)
    committer = _Committer(flow, ledger, remote_ids, run, moves.source_cluster_id)
    wanted = [group for group in moves.groups if group.partitions]
    done: dict[str, GroupMove] = {}
    with GroupControl(flow.target) as target:
        for some in batched(wanted, _GROUPS_AT_ONCE):
            done |= {group.group.name: group for group in committer.commit(target, some, write)}
    return replace(
        moves,
        groups=tuple(done.get(group.group.name, group) for group in moves.groups),
        failures=(*moves.failures, *committer.failures),
        transient=moves.transient and committer.transient,
    )


class _Committer:
    """Commits group by group, and collects failures."""

    def __init__(
        self,
        flow: Flow,
        ledger: LedgerTable,
        remote_ids: Mapping[str, str],
        run: str,
        source_cluster_id: str,
    ) -> None:
        self._flow, self._run = flow, run
        self._source_cluster_id = source_cluster_id
        self._remote_ids = remote_ids
        self._names = {synced_key(i, TopicPartition(n, 0))[0]: n for n, i in remote_ids.items()}
        self._synced = ledger.synced_groups()
        marks = ledger.marks().values()
        self._preserved = frozenset(mark.topic for mark in marks if mark.preserved)
        self._last_run = last_start_before(ledger, run)
        self.failures: list[str] = []
        self.transient = True

    def commit(
        self, target: GroupControl, groups: Sequence[GroupMove], write: bool
    ) -> list[GroupMove]:
        """What became of these groups, or would."""
        # Members first, then offsets: a member that leaves in between has committed before.
        states = target.describe([move.group.name for move in groups])
        free = [
            state
            for move in groups
            if not isinstance(state := states[move.group.name], FerryError)
            and not why_not(move.group, state, target.alias)
        ]
        committed_by_group = target.committed_offsets(
            [state for state in free if state.state != "Dead"]
        )
        done = [self._decide(move, states[move.group.name], committed_by_group) for move in groups]
        if not write:
            return done
        offsets = {move.group: to_commit for move in done if (to_commit := self._to_commit(move))}
        refused = target.commit(offsets) if offsets else {}
        done = [self._settle(move, refused) for move in done]
        synced = chain.from_iterable(map(self._synced_offsets, done))
        record_synced(self._flow, self._run, self._source_cluster_id, synced)
        return done

    def _decide(
        self,
        move: GroupMove,
        state: Group | FerryError,
        committed_by_group: Mapping[str, dict[TopicPartition, Committed] | FerryError],
    ) -> GroupMove:
        name = move.group.name
        if isinstance(state, FerryError):
            return self._with_failure(move, state)
        reason = move.reason or why_not(move.group, state, self._flow.target.alias)
        if reason:
            return left_alone(move, reason)
        committed = committed_by_group.get(name, {})
        if isinstance(committed, FerryError):
            return self._with_failure(move, committed)
        return decide(
            move,
            committed,
            self._last(name),
            follow=self._flow.on_source_group_reset == "follow",
            preserved=self._preserved,
        )

    def _last(self, group: str) -> dict[TopicPartition, SyncedOffset]:
        """What was committed last, by *target* partition; for another cluster's group of that name it says nothing."""
        return {
            TopicPartition(self._names[topic_id], partition): offset
            for (topic_id, partition), offset in self._synced.get(group, {}).items()
            if topic_id in self._names and not self._is_of_another_cluster(offset)
        }

    def _is_of_another_cluster(self, offset: SyncedOffset) -> bool:
        created_for, now = offset.source_cluster_id, self._source_cluster_id
        return bool(created_for and now) and not may_remove(self._flow, created_for, now)

    def _to_commit(self, move: GroupMove) -> dict[TopicPartition, Committed]:
        actions = {"written"}
        if is_renewal_due(move.group.name, since=self._last_run, now=move.at):
            actions.add("unchanged")
        return {
            # The leader epochs of the source mean nothing on the target.
            one.target: Committed(one.offset, metadata=one.committed.metadata)
            for one in move.partitions
            if one.action in actions and one.target and one.committed and one.offset is not None
        }

    def _settle(self, move: GroupMove, refused: Refused) -> GroupMove:
        errors = refused.get(move.group.name)
        if not errors:
            return move
        if any(getattr(error, "code", None) == UNKNOWN_MEMBER_ID for error in errors.values()):
            return left_alone(move, f"it was put to use on {self._flow.target.alias} just now.")

        def settle(one: PartitionMove) -> PartitionMove:
            error = errors.get(one.target) if one.target else None
            if error is None:
                return one
            if isinstance(error, TooOld):
                return replace(one, action="held", reason=str(error))
            self._fail(error)
            return replace(one, action="refused", reason=str(error))

        return replace(move, partitions=tuple(map(settle, move.partitions)))

    def _with_failure(self, move: GroupMove, error: FerryError) -> GroupMove:
        self._fail(error)
        return left_alone(move, str(error))

    def _fail(self, error: FerryError) -> None:
        self.failures.append(str(error))
        self.transient = self.transient and error.transient

    def _synced_offsets(self, move: GroupMove) -> Iterator[Synced]:
        for one in move.partitions:
            if one.action == "written" and one.target and one.committed and one.offset is not None:
                key = synced_key(self._remote_ids.get(one.target.topic, ""), one.target)
                offset = SyncedOffset(
                    source=one.committed.offset, target=one.offset, source_topic_id=one.topic_id
                )
                yield move.group.name, *key, offset


def record_synced(flow: Flow, run: str, source_cluster_id: str, synced: Iterable[Synced]) -> None:
    """Append to the ledger what a run has committed for groups on the target, or has deleted."""
    common = {"flow": flow.name, "run": run, "source_cluster_id": source_cluster_id}
    for entry in entries_of(synced, at=now_ms(), **common):
        append_entry(flow, entry)
