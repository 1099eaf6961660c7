"""The input of a plan: the clusters' topics and logs, and what was copied before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_ferry.clock import duration_text
from kafka_ferry.model.changes import Acl, Applied, Quotas, Users
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a cluster.

    Attributes:
        name: its name.
        topic_id: its id (KIP-516), as Kafka's tools print it.
        partitions: how many partitions it has.
        configs: the effective value of each of its configs.
        overrides: the names of those that are set on the topic itself.
        dynamic: the names of those that come from dynamic broker configs.
        defaults: the names of those with Kafka's default value. Configs that are read-only or secret,
            or come from the brokers' own files, are in none of the three.
        replicas: by partition, the brokers that have a replica of it, its preferred leader first.
    """

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    overrides: frozenset[str] = frozenset()
    dynamic: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()
    replicas: tuple[tuple[int, ...], ...] = ()

    @property
    def is_compacted(self) -> bool:
        """Whether log compaction removes records with a newer record of the same key."""
        return "compact" in self.configs.get("cleanup.policy", "")

    @property
    def is_kept_forever(self) -> bool:
        """Whether retention deletes none of its records, as far as its configs are known."""
        limits = (self.configs.get("retention.ms"), self.configs.get("retention.bytes"))
        return limits == ("-1", "-1") or self.configs.get("cleanup.policy") == "compact"

    @property
    def is_tiered(self) -> bool:
        """Whether its brokers keep old segments in remote storage (KIP-405)."""
        return self.configs.get("remote.storage.enable") == "true"

    @property
    def stamps_append_time(self) -> bool:
        """Whether its brokers replace records' timestamps with the time of appending."""
        return self.configs.get("message.timestamp.type") == "LogAppendTime"


@dataclass(frozen=True, slots=True)
class Mark:
    """The flow's mark of ownership on a remote topic, which the ledger keeps.

    Attributes:
        topic: the source's topic.
        topic_id: its id on the source.
        remote_topic: the topic on the target.
        remote_topic_id: its id there: another topic of that name is not marked.
        preserved: whether records keep their offsets in it, for as long as it exists.
        created: whether the flow has created it.
        given_back: whether the flow has given it to MirrorMaker 2, and not taken it over since.
        empty: whether nothing may be in a partition of which the ledger has nothing, although the flow has not created
            the topic: it held no record when the flow marked it, or a takeover has compared all that it held.
    """

    topic: str
    topic_id: str
    remote_topic: str
    remote_topic_id: str
    preserved: bool
    created: bool
    given_back: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The offsets that a consumer of some isolation level can read of a partition: ``[start, end)``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LogMismatch:
    """How the target's log of a partition contradicts the flow's ledger.

    Attributes:
        ledger_end: the offset after the last record that the ledger has there.
        log_end: where the log ends.
        unknown_at: the offset of a record after ``ledger_end`` that the flow's own writers have written and that
            the ledger does not have, -1 for none.
        is_replaced: whether another record lies where the ledger has its last one.
        is_aborted: whether that is one of an aborted transaction.
    """

    ledger_end: int
    log_end: int
    unknown_at: int = -1
    is_replaced: bool = False
    is_aborted: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the log ends before the ledger does."""
        return self.log_end < self.ledger_end

    @property
    def problem(self) -> str:
        """What is wrong with the log, without its name before it and without a stop."""
        if self.is_cut:
            return (
                f"ends at {self.log_end}, before {self.ledger_end}, up to which the ledger has records: they are "
                "gone (an unclean leader election?)"
            )
        if self.is_aborted:
            return (
                "has a record of an aborted transaction where the ledger has the last one that was copied, before "
                f"offset {self.ledger_end}: it was truncated (an unclean leader election?), and has grown again; or "
                "Kafka has skipped the marker of the committed transaction, and has aborted it when the run that ended "
                "it once more stood still"
            )
        if self.is_replaced:
            return (
                "has another record where the ledger has the last one that was copied, before offset "
                f"{self.ledger_end}: it was truncated (an unclean leader election?), and has grown again"
            )
        return (
            f"has records of this flow's own writers from offset {self.unknown_at} on that the ledger does not have: "
            "it has lost its newest ones (a power cut?)"
        )


@dataclass(frozen=True, slots=True)
class Access:
    """ACLs, quotas and users of both clusters; None for what the flow does not sync, or may not see.

    Attributes:
        source_acls: the source's ACLs of the kinds that the flow syncs.
        target_acls: the target's.
        source_quotas: the source's client quotas.
        target_quotas: the target's.
        source_users: the source's SCRAM credentials.
        target_users: the target's.
        passwords: the users that ``scram.passwords.file`` has a password for, by their names on the
            target; None if it cannot be read.
        notes: what could not be read, a sentence or two each.
        other_sources: the aliases of the other sources that flows copy to the target, where ACLs are synced.
        target_topics: the names of all topics of the target, where ACLs are synced.
    """

    source_acls: frozenset[Acl] | None = None
    target_acls: frozenset[Acl] | None = None
    source_quotas: Quotas | None = None
    target_quotas: Quotas | None = None
    source_users: Users | None = None
    target_users: Users | None = None
    passwords: frozenset[str] | None = frozenset()
    notes: tuple[str, ...] = ()
    other_sources: frozenset[str] = frozenset()
    target_topics: frozenset[str] = frozenset()


class HeldBack(NamedTuple):
    """Records that ``read_committed`` readers do not get yet, since a transaction before them is open.

    Attributes:
        offsets: how far the high watermark is ahead of the last stable offset.
        since: when that transaction's first record was written, in milliseconds since 1970.
        producer_id: the producer's.
    """

    offsets: int
    since: int
    producer_id: int

    def text(self, now: int) -> str:
        """A sentence that says so; ``now`` is in milliseconds since 1970."""
        ago = duration_text(max(0, now - self.since) / 1000)
        return (
            f"an open transaction of producer {self.producer_id}, begun {ago} ago, holds back {self.offsets:,} "
            "offsets: no read_committed reader gets them before it ends."
        )


HANGING: Final = (
    "If its application no longer runs, `kafka-transactions.sh find-hanging` and `abort` end it."
)
"""What to do about a transaction that stays open."""


@dataclass(frozen=True, slots=True)
class SourceLogs:
    """The logs of the topics that the flow selects; all keys are *source* partitions.

    Attributes:
        bounds: the log bounds, as visible at the flow's isolation level.
        diverged: where the log parts from the one that was copied, if that is below the position; -1 where it is
            another one and that is unknown.
        split: of these, where the first transaction begins that is cut there, and has ended otherwise since it was
            copied.
        densities: about which share of the offsets that are still to be copied has a record, of topics
            whose offsets are or could be preserved; partitions that could not be sampled are absent.
        sizes: how many bytes the log takes; absent where the source does not say.
        expiring: the first offset that retention leaves until the next run; partitions that keep all of
            their records are absent.
        recent: the first offset that was written within the last interval between runs.
        deletions: of compacted topics, the first offset that was written within ``delete.retention.ms``.
        oldest: of partitions with something to copy whose topic does not keep all records, the time of
            the log's first record, in milliseconds since 1970; absent where it has none.
        held_back: what open transactions keep from the flow; partitions without any are absent.
        local_starts: the first offset that the leader has on its own disk, of partitions of tiered topics with
            something to copy; absent where the source does not say.
        unproved_starts: those that start after their copies by the source's word alone, which does not refuse to be
            read before.
    """

    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    diverged: Mapping[TopicPartition, int] = field(default_factory=dict)
    split: Mapping[TopicPartition, int] = field(default_factory=dict)
    densities: Mapping[TopicPartition, float] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    expiring: Mapping[TopicPartition, int] = field(default_factory=dict)
    recent: Mapping[TopicPartition, int] = field(default_factory=dict)
    deletions: Mapping[TopicPartition, int] = field(default_factory=dict)
    oldest: Mapping[TopicPartition, int] = field(default_factory=dict)
    held_back: Mapping[TopicPartition, HeldBack] = field(default_factory=dict)
    local_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unproved_starts: frozenset[TopicPartition] = frozenset()

    def remote_offsets(self, partition: TopicPartition, start: int, end: int) -> int:
        """How many of the offsets ``[start, end)`` only the source's remote storage has, as far as known."""
        log = self.bounds.get(partition)
        first = max(start, log.start) if log else start
        return max(0, min(end, self.local_starts.get(partition, 0)) - first)


@dataclass(frozen=True, slots=True)
class HeartbeatTopics:
    """Selected topics of the source with the name of heartbeats that the flow has never copied.

    Attributes:
        others: those that are not known to hold any.
        unasked: those that hold heartbeats or nothing, and that the flow does not ask for.
    """

    others: frozenset[str] = frozenset()
    unasked: frozenset[str] = frozenset()


NO_HEARTBEATS: Final = HeartbeatTopics()


@dataclass(frozen=True, slots=True)
class SourceState:
    """The source's topics.

    Attributes:
        cluster_id: its cluster id.
        names: the names of all its topics.
        topics: those of them that the flow selects, by name; one that vanished is absent.
        logs: their logs.
        gone: topics that were copied and that the source says it does not have, if the flow asks.
        invisible: topics that the flow names or has copied, and that it may not see, so that it does not know
            whether they are there.
        refused: topics that it may see, and that the source does not describe, each with the reason.
        heartbeats: what the topics are that have the name of heartbeats.
        groups: the names of the groups that the flow may see; None where it names none, or may not list them.
    """

    cluster_id: str
    names: frozenset[str]
    topics: Mapping[str, Topic]
    logs: SourceLogs = SourceLogs()
    gone: frozenset[str] = frozenset()
    invisible: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    heartbeats: HeartbeatTopics = NO_HEARTBEATS
    groups: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TargetState:
    """The target's topics and brokers.

    Attributes:
        cluster_id: its cluster id.
        topics: its topics that the flow copies to, or has copied to, by name.
        bounds: by *target* partition, what a ``read_uncommitted`` consumer can read of the topics whose
            offsets are or could be preserved.
        foreign: remote topics that hold committed records, none of them copied by this flow.
        unreadable: remote topics for which that is unknown, each with the reason.
        of_others: remote topics of topics that are gone which hold records that the ledger does not have, or may hold
            some, a sentence for each.
        mismatches: by *target* partition, how its log contradicts the ledger.
        beyond: the *target* partitions with preserved offsets whose logs end after the source's.
        refused: remote topics that the target does not describe, so that it is unknown whether they exist, each
            with the reason.
        racks: the rack of each live broker, "" for none; no broker if the flow says of no topic where its
            replicas are placed, and creates none with several.
        untiered: the remote topics of tiered ones for which the target refuses tiered storage.
    """

    cluster_id: str
    topics: Mapping[str, Topic] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    of_others: Mapping[str, str] = field(default_factory=dict)
    mismatches: Mapping[TopicPartition, LogMismatch] = field(default_factory=dict)
    beyond: frozenset[TopicPartition] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)
    untiered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FlowPositions:
    """Where copying continues, as far as known; all keys are *target* partitions.

    Attributes:
        known: the ledger's positions, and the group's where the ledger has none.
        moved: the group's offset where the ledger has another one.
        unconfirmed: the partitions with a position only in the group.
        hidden: the partitions whose newest copied records a transaction hides that Kafka has left open.
        ledger_end: the ledger offset up to which the ledger was read; 0 where there is none.
    """

    known: Mapping[TopicPartition, Position] = field(default_factory=dict)
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    unconfirmed: frozenset[TopicPartition] = frozenset()
    hidden: frozenset[TopicPartition] = frozenset()
    ledger_end: int = 0


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What the flow's ledger says of earlier runs, other than positions.

    Attributes:
        copied: the source topics that it knows, each with its remote topic.
        marks: the newest mark on each remote topic's name.
        released: the ids of remote topics that the flow has given up: positions in them and marks
            on them no longer count.
        rules: by source topic that was copied, the fingerprint of the transform rule that its newest records
            went through; "" for none.
        applied: what the flow has applied on the target so far.
        first_marked: the ids of the remote topics that the flow's first run has marked, if it matters.
        first_copied: by *target* partition of topics whose offsets are or could be preserved, the
            first source offset that was ever copied.
        other_owners: by remote topic's id, the other flow of the same ledger that copies to it.
    """

    copied: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    rules: Mapping[str, str] = field(default_factory=dict)
    applied: Applied = field(default_factory=Applied)
    first_marked: frozenset[str] = frozenset()
    first_copied: Mapping[TopicPartition, int] = field(default_factory=dict)
    other_owners: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicStarts:
    """What ``topics.start`` says of topics that were never copied, and said of the others; and where they begin.

    Attributes:
        offsets: by *source* partition that it is about and that was never copied, the first offset to copy.
        refused: by source topic, why it does not say where the topic begins.
        begun: by remote topic's id, what it said when the topic's first copy began: "" for nothing;
            absent where the ledger does not know the topic.
        epochs: by *source* partition that begins where its log ends, the leader epoch of the last batch before that.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    begun: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherFlows:
    """What other flows copy to the source, and to the same remote topics.

    Attributes:
        origins: by source topic, the ids of the clusters that its records came through before they
            came to the source; topics that no flow copied there are absent.
        returned: by source topic with records that the opposite flow has copied from the target, and
            that are left out: the offset in that flow's ledger from which on it has to be read.
        returned_end: that ledger's end, where such records are left out, from which on it may name the first ones of
            any other topic; 0 where it does not exist yet, -1 where it does not matter, or cannot be read.
        mixed: the source topics with records that MirrorMaker 2 has copied there from the target, or may have, and that
            the opposite flow has not taken over since.
        shared: by remote topic of topics that are gone, the other flows that copy to it; "?" where
            unknown.
        rivals: by remote topic, another flow that brings the same records to it.
        doubtful: the source topics that may hold records of the remote topic, whose name they have: which flows copy
            to the source is not shown.
    """

    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    returned: Mapping[str, int] = field(default_factory=dict)
    returned_end: int = -1
    mixed: frozenset[str] = frozenset()
    shared: Mapping[str, str] = field(default_factory=dict)
    rivals: Mapping[str, str] = field(default_factory=dict)
    doubtful: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The whole input of a plan: both clusters, and what the flow and others have done before.

    Attributes:
        source: the source's topics and logs.
        target: the target's topics and brokers.
        positions: where copying continues.
        ledger: what earlier runs of the flow have done.
        starts: where new topics begin.
        other_flows: what other flows copy to the source and to the target.
        access: ACLs, quotas and users of both clusters.
        unknown: what could not be found out and the plan ignores, a sentence each.
    """

    source: SourceState
    target: TargetState
    positions: FlowPositions = FlowPositions()
    ledger: LedgerState = LedgerState()
    starts: TopicStarts = TopicStarts()
    other_flows: OtherFlows = OtherFlows()
    access: Access = Access()
    unknown: tuple[str, ...] = ()

    @property
    def is_first_run(self) -> bool:
        """Whether the flow has neither copied anything nor marked a topic."""
        return not (self.positions.known or self.ledger.copied or self.ledger.marks)
