"""A source topic and the remote topic that it is copied to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka_ferry.model.cluster_state import ClusterState, Mark, Topic
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right, how_to_grant


@dataclass(frozen=True, slots=True)
class Pair:
    """A source topic and its remote topic, with all that is known about copying between them.

    Attributes:
        topic: the source topic's name.
        source: the source topic, None once it is gone.
        remote_topic: the remote topic's name.
        remote: the remote topic, None where it does not exist.
        positions: by partition.
        foreign: whether the remote topic holds records, none of them copied by this flow.
        unreadable: why that is unknown, "" where it is known.
        invisible: how to let the flow see the source topic, "" where it does.
        refused: why one of the clusters does not describe its topic, "" where both do.
        mark: the flow's mark on exactly this remote topic.
        owner: the other flow that copies to it, "" where none is known.
        rival: another flow that brings the same records to it, "" where none is known.
        preserved: whether records keep their offsets in it.
        released: whether the flow has given it up, and it was not deleted yet.
        leftover: whether the flow's group still has positions in an earlier remote topic that was given up.
        source_cluster_id: the source's cluster id.
        untiered: whether the source's topic is tiered, and the target refuses tiered storage for the remote one.
        mixed: as of ``OtherFlows``.
        doubtful: as of ``OtherFlows``.
        copied_to: the remote topic that the source topic was last copied to, by the ledger; "" where it never was.
        unlisted: the partitions that were copied from this very source topic, and that the source does not list.
    """

    topic: str
    source: Topic | None
    remote_topic: str
    remote: Topic | None
    positions: Mapping[int, Position]
    foreign: bool = False
    unreadable: str = ""
    invisible: str = ""
    refused: str = ""
    mark: Mark | None = None
    owner: str = ""
    rival: str = ""
    preserved: bool = False
    released: bool = False
    leftover: bool = False
    source_cluster_id: str = ""
    untiered: bool = False
    mixed: bool = False
    doubtful: bool = False
    copied_to: str = ""
    unlisted: tuple[int, ...] = ()

    @classmethod
    def of(cls, topic: str, remote_topic: str, state: ClusterState) -> Pair:
        """The pair of ``topic`` and ``remote_topic``, from the state of both clusters.

        Positions of an earlier topic that went into an earlier remote topic do not count for this
        pair, and are left out; so are those in a remote topic that was given up.
        """
        remote, mark = state.target.topics.get(remote_topic), state.ledger.marks.get(remote_topic)
        pair = cls(
            topic=topic,
            source=state.source.topics.get(topic),
            remote_topic=remote_topic,
            remote=remote,
            positions={},
            foreign=remote_topic in state.target.foreign,
            unreadable=state.target.unreadable.get(remote_topic, ""),
            invisible=how_to_grant(Right.topic("READ", topic))
            if topic in state.source.invisible
            else "",
            refused=state.source.refused.get(topic) or state.target.refused.get(remote_topic, ""),
            mark=mark if mark and remote and mark.remote_topic_id == remote.topic_id else None,
            owner=state.ledger.other_owners.get(remote.topic_id, "") if remote else "",
            rival=state.other_flows.rivals.get(remote_topic, ""),
            released=remote is not None and remote.topic_id in state.ledger.released,
            source_cluster_id=state.source.cluster_id,
            untiered=remote_topic in state.target.untiered,
            mixed=topic in state.other_flows.mixed,
            doubtful=topic in state.other_flows.doubtful,
            copied_to=state.ledger.copied.get(topic, ""),
        )
        positions, leftover = {}, False
        for number in range(pair.source.partitions if pair.source else 0):
            position = state.positions.known.get(TopicPartition(remote_topic, number))
            if position is None:
                continue
            if position.remote_topic_id in state.ledger.released:
                leftover |= position.origin == "group"
                continue
            fits = pair.is_of_source(position), pair.is_of_remote(position)
            # Before offset 0 there is nothing, whatever the topic.
            if all(fits) or (any(fits) and position.offset > 0):
                positions[number] = position
        unlisted: tuple[int, ...] = ()
        if pair.source and remote and not pair.released:
            known = state.positions.known
            unlisted = unlisted_partitions(known, pair.source, remote_topic, remote.partitions)
        return replace(pair, positions=positions, unlisted=unlisted, leftover=leftover)

    def is_of_source(self, position: Position) -> bool:
        """Whether ``position`` is an offset of this source topic, as far as it says."""
        return self.source is not None and position.topic_id in ("", self.source.topic_id)

    @property
    def other_clusters(self) -> frozenset[str]:
        """The clusters that the records before the positions came through, if this source is none of them.

        Empty where topics have ids, which say more.
        """
        origins = (
            frozenset(position.origins)
            for position in self.positions.values()
            if not position.topic_id and position.origins
        )
        return next((some for some in origins if self.source_cluster_id not in some), frozenset())

    @property
    def copy_of(self) -> str:
        """The other source topic whose records the remote topic holds by the flow's mark; "" where it holds none."""
        is_other = self.mark is not None and self.mark.topic != self.topic and bool(self.positions)
        return self.mark.topic if self.mark and is_other else ""

    @property
    def copied_elsewhere(self) -> str:
        """Where the topic was copied to before, as a part of a sentence; "" where it was not."""
        is_elsewhere = self.copied_to not in ("", self.remote_topic)
        return f", and {self.topic} was copied to {self.copied_to}" if is_elsewhere else ""

    @property
    def advice_on_names(self) -> str:
        """How both topics get the names back under which they were copied, or this one a new one."""
        new = f"give {self.topic} a name that is not yet on the target."
        if not self.copied_elsewhere:
            return new[0].upper() + new[1:]
        names = f"{self.topic}: {self.copied_to}, {self.copy_of}: {self.remote_topic}"
        return f"Change them back, with topics.rename: {{{names}}}; both copies are whole. Or {new}"

    def is_of_remote(self, position: Position) -> bool:
        """Whether the records before ``position`` went into this remote topic, as far as it says."""
        return self.remote is not None and position.remote_topic_id in ("", self.remote.topic_id)

    def position(self, partition: int) -> Position | None:
        """The position from which copying the partition may continue; None if it starts over."""
        position = self.positions.get(partition)
        if position and self.is_of_source(position) and self.is_of_remote(position):
            return position
        return None

    def replaced_topic(self, partition: int) -> str:
        """The id of the former topic whose position a partition has; "" where it is of the one that is there."""
        position = self.positions.get(partition)
        return position.topic_id if position and not self.is_of_source(position) else ""

    def own_mark(self, *, given_back: bool = False, is_compared: bool = False) -> Mark:
        """The flow's mark on a remote topic that another mirror has filled; both topics are there.

        Args:
            given_back: whether the flow has given the topic to MirrorMaker 2.
            is_compared: whether the ledger is to have all that the remote topic holds.
        """
        assert self.source
        assert self.remote
        return Mark(
            topic=self.topic,
            topic_id=self.source.topic_id,
            remote_topic=self.remote_topic,
            remote_topic_id=self.remote.topic_id,
            preserved=False,
            created=self.mark.created if self.mark else False,
            given_back=given_back,
            empty=is_compared or (self.mark is not None and self.mark.empty),
        )


def unlisted_partitions(
    known: Mapping[TopicPartition, Position], source: Topic, remote_topic: str, count: int
) -> tuple[int, ...]:
    """The partitions that were copied from a source topic, and that its cluster does not list.

    Kafka takes no partition away from a topic: a broker that lists fewer is behind its controller, or lies.

    Args:
        known: the positions, by *target* partition.
        source: the source topic; one without an id may have been recreated with fewer partitions.
        remote_topic: the remote topic's name.
        count: how many partitions that one has.
    """

    def is_copied(number: int) -> bool:
        position = known.get(TopicPartition(remote_topic, number))
        return position is not None and position.offset > 0 and position.topic_id == source.topic_id

    numbers = range(source.partitions, count) if source.topic_id else ()
    return tuple(filter(is_copied, numbers))
