"""What became of each group's offsets in one sync: for the report, checkpoints, metrics and failover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.groups.translation import Kind
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition

_KEPT_MS: Final = 7 * 24 * 60 * 60 * 1000

Action = Literal["shown", "written", "unchanged", "held", "refused", "deleted"]
"""``shown``: only translated, since nothing was to be committed; ``written``: committed on the target;
``unchanged``: already there; ``held``: left alone by a rule, which the reason names; ``refused``: refused
by a broker; ``deleted``: gone from the source, and now from the target."""


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One partition that a group has committed an offset for.

    Attributes:
        source: the partition on the cluster that the offset comes from.
        committed: what the group has committed there; None where it has been deleted.
        end: that partition's end, -1 where it is not known.
        target: the partition on the other cluster, None where the flow has none for it.
        offset: the counterpart of ``committed`` there, None where there is no correct answer.
        kind: how exact that is.
        action: what was done.
        reason: why nothing was done, or why there is no answer.
        start: the start of the log that the offset comes from, -1 where it is not known.
        home: whether its records came from the other cluster, so that the opposite flow's ledger
            has the counterpart.
        missing: how many of the offsets that the group has not read are before all that the other cluster's log
            has: they were never copied, or are deleted there.
        is_lost: whether the other cluster's log has lost records that were copied, or that are a copy's originals; or
            whether an offset that the group has there already has no counterpart any more.
        topic_id: the id of the topic that the offset is of, "" where it is not known: a recreated topic has other
            records at the same offsets.
    """

    source: TopicPartition
    committed: Committed | None
    end: int = -1
    target: TopicPartition | None = None
    offset: int | None = None
    kind: Kind | None = None
    action: Action = "shown"
    reason: str = ""
    start: int = -1
    home: bool = False
    missing: int = 0
    is_lost: bool = False
    topic_id: str = ""

    @property
    def lag(self) -> int | None:
        """How many source offsets the group has not read yet, None where not known."""
        if self.committed is None or self.end < 0:
            return None
        return max(self.end - self.committed.offset, 0)


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One group.

    Attributes:
        group: the group, as listed by the cluster that the offsets come from.
        partitions: its partitions that the flow copies, or whose records came from the other cluster; ordered.
        reason: why none of its offsets move, such as members on the target; "" if some may.
        at: when it was translated, in milliseconds since 1970.
        outside: its other offsets, ordered: no flow between the two clusters copies their topics.
    """

    group: Group
    partitions: tuple[PartitionMove, ...] = ()
    reason: str = ""
    at: int = 0
    outside: tuple[tuple[TopicPartition, int], ...] = ()


@dataclass(frozen=True)
class GroupMoves(AsJson):
    """All groups of a flow.

    Attributes:
        at: when the offsets were read, in milliseconds since 1970.
        groups: ordered by name.
        notes: sentences that are not about a single group.
        failures: a sentence for each failure, naming group, topic and partition.
        transient: whether all failures may disappear without a change.
        done_at: when the run had written everything for groups, in milliseconds since 1970; 0 where
            nothing was to be written.
        source_cluster_id: the id of the cluster that the offsets come from, "" if unknown.
        gone: offsets that an earlier run has found and this one has not: of each group, with the time when they
            were found. Only in what is kept for when the source is gone.
        unseen: topics in which the source does not show what groups have committed.
    """

    WHAT: ClassVar = "a record of groups"

    at: int
    groups: tuple[GroupMove, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    transient: bool = True
    done_at: int = 0
    source_cluster_id: str = ""
    gone: tuple[GroupMove, ...] = ()
    unseen: tuple[str, ...] = ()

    def partitions(self, *actions: Action) -> Iterator[tuple[GroupMove, PartitionMove]]:
        """Each partition of each group, or those with one of these actions."""
        for group in self.groups:
            for move in group.partitions:
                if not actions or move.action in actions:
                    yield group, move


def together(first: GroupMove | None, more: GroupMove) -> GroupMove:
    """A group with the partitions of both, ordered."""
    if first is None:
        return more
    partitions = sorted((*first.partitions, *more.partitions), key=lambda one: one.source)
    return replace(first, partitions=tuple(partitions))


def lost_since(earlier: GroupMoves, now: GroupMoves) -> tuple[GroupMove, ...]:
    """The offsets that ``earlier`` has and ``now`` has not: of each group, with the time when they were found.

    Brokers delete offsets with their topic, and those of a group without members after a while. After seven
    days, their usual time, they are forgotten here too.
    """
    here = {
        move.group.name: {one.source for one in move.partitions} | {tp for tp, _ in move.outside}
        for move in now.groups
    }
    moves = []
    for move in (*earlier.groups, *earlier.gone):
        at, current = move.at or earlier.at, here.get(move.group.name, set())
        lost = tuple(
            partition_move
            for partition_move in move.partitions
            if partition_move.committed and partition_move.source not in current
        )
        if lost and now.at - at <= _KEPT_MS:
            moves.append(GroupMove(move.group, lost, at=at))
    return tuple(moves)
