"""Which logs are no longer those that the flow has copied: deleted, recreated, truncated, given up."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.queries.accepted_losses import accepted_cuts
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.plan.topics.provenance import same_topic
from kafka_ferry.runs.provenance.diverged_logs import diverged_logs
from kafka_ferry.runs.provenance.log_mismatches import lost_ends

Gone = Literal[
    "",
    "source recreated",
    "source truncated",
    "source replaced",
    "copy gone",
    "copy truncated",
    "names changed",
    "ledger gone",
    "given up",
    "undeleted",
]
"""Which of the two topics that a position is of is not the one that is there now; "" where both are.
``source truncated``: the source's log parts from what was copied, and the position is where; ``source replaced``:
where it parts is unknown. ``names changed``: the remote topic is the copy of another topic. ``ledger gone``: the target
has no position of a topic that the state folder calls proved. ``given up``: the flow has given up its copy, which is
deleted; ``undeleted``: which is still there. ``copy truncated``: the target's log no longer has its last record."""


@dataclass(frozen=True)
class CopiedLogs:
    """What both clusters and the ledger say of the logs of some topics and of their copies.

    Attributes:
        ids: of the source's topics, by name.
        remote_ids: of the remote topics, by name, as far as they may be described.
        deleted: the remote topics that the target does not have.
        known: the *target* partitions with a position.
        diverged: by source partition, where its log parts from what was copied, below the position; -1 where that is
            unknown. What the source has from there on is not copied, though its log may end at the position.
        unknown: what could not be found out of that, a sentence each.
        cut: the *target* partitions that no longer have their last record.
        marks: as of ``LedgerTable.marks``.
        released: the ids of the remote topics that the flow has given up.
        unseen: by remote topic that was copied and that the target does not show, the error: nothing tells whether it
            is still there.
    """

    ids: Mapping[str, str]
    remote_ids: Mapping[str, str]
    deleted: Container[str]
    known: Mapping[TopicPartition, Position]
    diverged: Mapping[TopicPartition, int]
    unknown: tuple[str, ...]
    cut: Container[TopicPartition]
    marks: Mapping[str, Mark]
    released: Collection[str]
    unseen: Mapping[str, FerryError]

    @classmethod
    def of(
        cls,
        flow: Flow,
        ledger: LedgerTable,
        target: ClusterControl,
        known: Mapping[TopicPartition, Position],
        topics: tuple[Mapping[str, str], Mapping[str, str]],
        partitions: Collection[TopicPartition],
    ) -> CopiedLogs:
        """Ask both clusters.

        Args:
            flow: the flow.
            ledger: its ledger, projected.
            target: the target.
            known: the positions, by *target* partition.
            topics: the ids of the source's topics, and the names of their remote ones, by name.
            partitions: the source's partitions that have a leader.

        Raises:
            FerryError: if a cluster does not answer.
        """
        ids, remote_names = topics
        copied = {
            tp: position
            for tp in partitions
            if (position := known.get(TopicPartition(remote_names[tp.topic], tp.partition)))
            and same_topic(position.topic_id, ids[tp.topic])
        }
        remote_ids = target.topic_ids(remote_names.values(), only_visible=True)
        remote_topics, refused = target.readable_topics(remote_names.values())
        with_copy = {tp.topic for tp, position in known.items() if position.offset}
        return cls(
            ids,
            remote_ids,
            target.unknown(remote_names.values() - remote_ids.keys()),
            known,
            *diverged_logs(
                *(flow.source, flow.target, ledger, copied, remote_names, remote_topics),
                whole=False,
            ),
            lost_ends(flow, target, ledger, remote_topics.values()),
            ledger.marks(),
            ledger.released_topics(),
            {topic: error for topic, error in refused.items() if topic in with_copy},
        )

    def gone(self, source: TopicPartition, remote: TopicPartition) -> Gone:
        """Which of a partition's two logs is not the one of its position."""
        gone = self._gone_topic(source.topic, remote)
        mark = self.marks.get(remote.topic)
        if gone == "source recreated" and mark and mark.topic != source.topic:
            return "names changed"
        if gone:
            return gone
        if remote in self.cut:
            return "copy truncated"
        if source in self.diverged:
            return "source truncated" if self.diverged[source] >= 0 else "source replaced"
        return ""

    def _gone_topic(self, topic: str, remote: TopicPartition) -> Gone:
        remote_id = None if remote.topic in self.deleted else self.remote_ids.get(remote.topic, "")
        position = self.known.get(remote)
        if remote_id in self.released:
            return "undeleted"
        # Before offset 0 there is nothing, whatever the topic.
        if position is None or not position.offset:
            return ""
        if position.remote_topic_id in self.released:
            return "given up"
        if not same_topic(position.topic_id, self.ids[topic]):
            return "source recreated"
        is_same = remote_id is not None and same_topic(position.remote_topic_id, remote_id)
        return "" if is_same else "copy gone"


class LostCopies(NamedTuple):
    """What the target has lost of what was copied.

    Attributes:
        truncated: the *target* partitions that no longer have their last record.
        gone: those whose topic was deleted or recreated.
        accepted: those of ``truncated`` whose last record a person has accepted as missing.
        unseen: those whose topic the target does not show, without saying whether it is still there.
    """

    truncated: frozenset[TopicPartition]
    gone: frozenset[TopicPartition]
    accepted: frozenset[TopicPartition] = frozenset()
    unseen: frozenset[TopicPartition] = frozenset()

    @property
    def without_consent(self) -> frozenset[TopicPartition]:
        """All but those whose last record is missing by a person's word."""
        return self.gone | (self.truncated - self.accepted)


def lost_copies(
    flow: Flow,
    target: ClusterControl,
    ledger: LedgerTable,
    copies: Collection[tuple[TopicPartition, str]],
) -> LostCopies:
    """What the target has lost of some copies.

    Args:
        flow: the flow.
        target: its target.
        ledger: its ledger.
        copies: *target* partitions, each with the id that its topic had when it was copied.

    Raises:
        FerryError: if the target does not answer.
    """
    names = {tp.topic for tp, _ in copies}
    topics, refused = target.readable_topics(names)
    deleted = target.unknown(names - topics.keys())
    ids = {name: topic.topic_id for name, topic in topics.items()}
    gone = frozenset(
        tp
        for tp, topic_id in copies
        if tp.topic in deleted or not same_topic(topic_id, ids.get(tp.topic, ""))
    )
    truncated = lost_ends(flow, target, ledger, topics.values())
    ends = ledger.target_ends(topics.values()) if truncated else {}
    unseen = frozenset(tp for tp, _ in copies if tp.topic in refused)
    return LostCopies(truncated, gone, truncated & accepted_cuts(ledger, ends), unseen)


def kept_copies(ledger: LedgerTable) -> set[tuple[TopicPartition, str]]:
    """As of ``lost_copies``, all that was copied, and that the flow has not given up itself."""
    released = ledger.released_topics()
    return {
        (tp, position.remote_topic_id)
        for tp, position in ledger.positions().items()
        if position.offset and position.remote_topic_id not in released
    }


def topics_with_losses(
    flow: Flow, ledger: LedgerTable, remote_topics: Collection[str]
) -> frozenset[str]:
    """The remote topics that have lost copies on the target which no person has accepted as missing.

    Raises:
        FerryError: if the target does not answer.
    """
    copies = {copy for copy in kept_copies(ledger) if copy[0].topic in remote_topics}
    lost = lost_copies(flow, ClusterControl(flow.target), ledger, copies)
    return frozenset(tp.topic for tp in lost.without_consent)
