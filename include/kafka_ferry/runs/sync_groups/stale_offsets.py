"""The offsets that runs have committed on the target, and that are gone from the source.

An offset counts as gone only from the cluster on which it was committed, and from the topic whose records
were copied (``plan.removals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.decisions import left_alone, why_not
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger.queries.copied_topics import copied_topics
from kafka_ferry.model.groups import Committed, Group, is_own_group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.plan.removals import Kept, may_remove
from kafka_ferry.runs.sync_groups.group_states import states_and_offsets

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable, SyncedOffset
    from kafka_ferry.model import Plan

_RECREATED: Final = (
    "its topic was recreated on the source, which says nothing about the records that were copied."
)
_NOT_PLANNED: Final = "gone from the source, and its deletion is not in the plan of this run: "
_NOT_APPROVED: Final = _NOT_PLANNED + "it waits for an approval (removals.max)."
_NEXT_RUN: Final = _NOT_PLANNED + "the next run deletes it."


@dataclass(frozen=True, slots=True)
class SyncedPartition:
    """An offset that a run has committed on the target.

    Attributes:
        source: the partition on the source.
        topic_ids: the ids of the source's topics whose records went to the remote topic.
        key: the ledger's key.
        offset: what was committed last.
    """

    source: TopicPartition
    topic_ids: frozenset[str]
    key: tuple[str, int]
    offset: SyncedOffset

    @property
    def created_for(self) -> str:
        """The cluster on which the group had committed, "" where unknown."""
        return self.offset.source_cluster_id


SyncedOffsets = dict[str, dict[TopicPartition, SyncedPartition]]
"""By group and *target* partition."""


@dataclass(frozen=True, slots=True)
class Gone:
    """What is gone from the source.

    Attributes:
        groups: the groups, their partitions ``deleted`` or ``held``.
        there: what each of them has committed on the target.
        source_cluster_id: the source's cluster id.
        kept: the groups whose offsets stay, at least in part, since the source is another cluster.
    """

    groups: list[GroupMove]
    there: Mapping[str, Mapping[TopicPartition, Committed] | FerryError]
    source_cluster_id: str
    kept: Kept

    def partitions_of(self, group: str) -> list[TopicPartition]:
        """The *target* partitions for which a group has committed offsets, as far as that is known."""
        offsets = self.there.get(group, {})
        return sorted(offsets) if isinstance(offsets, Mapping) else []

    def deletable(self, move: GroupMove) -> list[TopicPartition]:
        """The *target* partitions of a group whose offsets can be deleted, as far as there are any."""
        wanted = {one.target for one in move.partitions if one.action == "deleted"}
        return [tp for tp in self.partitions_of(move.group.name) if tp in wanted]

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


def synced_offsets(flow: Flow, ledger: LedgerTable) -> SyncedOffsets:
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
    known: SyncedOffsets = {}
    for group, offsets in ledger.synced_groups().items():
        if wanted.matches(group) and not is_own_group(group):
            for (topic, number), offset in offsets.items():
                if offset.source >= 0 and not offset.refuted and topic in present:
                    source, remote = present[topic]
                    known.setdefault(group, {})[TopicPartition(remote, number)] = SyncedPartition(
                        TopicPartition(source, number),
                        frozenset(copied[topic]),
                        (topic, number),
                        offset,
                    )
    return known


def find_gone(flow: Flow, synced: SyncedOffsets, moves: GroupMoves, target: GroupControl) -> Gone:
    """What is gone from the source, decided; ``moves`` are the groups that are known to be there."""
    kept = Kept()
    groups, source_cluster_id = _find_stale(flow, synced, moves, kept)
    states, committed_by_group = states_and_offsets(target, [it.group.name for it in groups])
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
    return Gone(decided, committed_by_group, source_cluster_id, kept)


def _find_stale(
    flow: Flow, synced: SyncedOffsets, moves: GroupMoves, kept: Kept
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
        states, offsets = states_and_offsets(source, missing)
        # Of the very connections by which something was not found.
        source_cluster_id = source.cluster_id()
    gone = []
    for name, state in sorted(states.items()):
        still = offsets.get(name, {})
        if isinstance(state, FerryError) or isinstance(still, FerryError):
            continue
        absent = {
            at: known
            for at, known in sorted(synced[name].items())
            if known.source in missing[name]
            and known.source not in still
            and (state.state == "Dead" or known.source.topic in not_hidden)
        }
        clusters = {known.created_for for known in absent.values()}
        other = {it for it in clusters if not may_remove(flow, it, source_cluster_id)}
        for cluster in sorted(other)[:1]:
            kept.add("group's offsets", name, cluster)
        partitions = tuple(
            _absent(at, known, topic_ids.get(known.source.topic, ""))
            for at, known in absent.items()
            if known.created_for not in other
        )
        if partitions:
            gone.append(GroupMove(state, partitions, at=moves.at))
    return gone, source_cluster_id


def _absent(at: TopicPartition, known: SyncedPartition, topic_id: str) -> PartitionMove:
    """A partition whose offset is gone; held if the topic on the source is another one by now."""
    move = PartitionMove(known.source, None, target=at)
    if topic_id and topic_id not in known.topic_ids:
        return replace(move, action="held", reason=_RECREATED)
    return move


def _decide(
    move: GroupMove,
    state: Group | FerryError,
    committed: Mapping[TopicPartition, Committed] | FerryError,
    synced: SyncedOffsets,
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
