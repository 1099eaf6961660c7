"""The plan of a run: what would be created and copied, what not, and why; as JSON too."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.flat import Flat
from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    ConfigChange,
    Difference,
    Drift,
    Misplacement,
    QuotaChange,
    QuotaEnd,
    Retirement,
    RuleChange,
    SetConfigs,
    UserChange,
)
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.remarks import PlanRemarks
from kafka_ferry.model.removals import Removals
from kafka_ferry.model.run_options import ORDINARY, RunOptions
from kafka_ferry.model.schemas import SchemaChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_ferry.state import StateFolder

# Topics in a shard's name, which appears in lists.
_NAMES_LENGTH: Final = 40


@dataclass(frozen=True, slots=True)
class Creation:
    """A remote topic to create.

    Attributes:
        remote_topic: its name.
        partitions: how many it gets.
        replication_factor: how many replicas each has, -1 for the brokers' default.
        configs: all that are set on it.
        placement: by rack, how many of a partition's replicas it has; empty where brokers choose.
        assignment: by partition, the brokers of its replicas, its preferred leader first; empty where
            brokers choose.
    """

    remote_topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    placement: Mapping[str, int] = field(default_factory=dict)
    assignment: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Growth:
    """A remote topic that needs more partitions.

    Attributes:
        remote_topic: its name.
        partitions: how many it has then.
        placement: as of ``Creation``.
        assignment: as of ``Creation``, for the added partitions alone.
    """

    remote_topic: str
    partitions: int
    placement: Mapping[str, int] = field(default_factory=dict)
    assignment: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of how much there is to copy of a partition.

    Attributes:
        topic: the source's topic.
        partition: the partition.
        records: about how many records; offsets, where the partition was not sampled.
        bytes: about how many bytes they take on the source, as compressed there; None where the
            source does not say.
    """

    topic: str
    partition: int
    records: int
    bytes: int | None

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)


Origin = Literal["option", "begun", "auto", "fill.limit"]
"""The reason where a topic is translated, as the flow says and as before."""


@dataclass(frozen=True, slots=True)
class OffsetsChoice:
    """How a topic's offsets are kept on the target.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        preserved: whether records keep their offsets there.
        reason: why, as a sentence.
        origin: what has decided: the flow's option, how the remote topic was begun, ``auto``, or ``on.fill.limit``.
        gaps: about how many offsets without a record the run has to fill then.
        fill_ms: about how long that takes, in milliseconds.
        topic_id: the source topic's id.
        is_compacted: whether the source compacts the topic.
        kept_ms: for how long the source keeps records at least, in milliseconds; -1 where time does not limit it.
        kept_bytes: how many bytes of each partition it keeps at least; -1 where size does not limit it.
    """

    topic: str
    remote_topic: str
    preserved: bool
    reason: str
    origin: Origin = "option"
    gaps: int = 0
    fill_ms: int = 0
    topic_id: str = ""
    is_compacted: bool = False
    kept_ms: int = -1
    kept_bytes: int = -1

    @property
    def is_plain(self) -> bool:
        """Whether offsets are translated because the flow says so."""
        return not self.preserved and self.origin == "option"


@dataclass(frozen=True, slots=True)
class AdvisedAcl:
    """An ACL that a remote topic should have; Kafka Ferry sets none.

    Attributes:
        remote_topic: the topic on the target.
        principal: in Kafka's form, or a description where it is not known.
        operation: Kafka's name of it.
        permission: ``ALLOW`` or ``DENY``.
    """

    remote_topic: str
    principal: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return f"{self.permission} {self.operation} on {self.remote_topic} to {self.principal}"


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """What a run changes about remote topics, other than their records.

    Attributes:
        creations: remote topics to create before.
        growths: remote topics to give more partitions before.
        config_changes: configs of remote topics to set or to unset.
        set_configs: the ledger's new entries about remote topics' configs.
        drifts: configs of remote topics that another client has changed.
        misplacements: remote topics with replicas on other racks than the flow says.
        retirements: remote topics to delete, now or later, since their source topics are gone.
    """

    creations: tuple[Creation, ...] = ()
    growths: tuple[Growth, ...] = ()
    config_changes: tuple[ConfigChange, ...] = ()
    set_configs: tuple[SetConfigs, ...] = ()
    drifts: tuple[Drift, ...] = ()
    misplacements: tuple[Misplacement, ...] = ()
    retirements: tuple[Retirement, ...] = ()

    def counts(self, at: int) -> dict[Difference, int]:
        """The number of changes of each kind that are due at a time, in milliseconds since 1970."""
        return {
            Difference.TOPICS_TO_CREATE: len(self.creations),
            Difference.TOPICS_TO_GROW: len(self.growths),
            Difference.CONFIGS_TO_CHANGE: len(self.config_changes),
            Difference.TOPICS_TO_DELETE: sum(gone.is_due(at) for gone in self.retirements),
        }


@dataclass(frozen=True, slots=True)
class AccessChanges:
    """What a run changes about who may do what on the target.

    Attributes:
        acl_changes: ACLs to create or to delete.
        relied_on: ACLs that deny something on the target already, and without which one of the changes
            would widen rights.
        quota_changes: client quotas to set or to delete.
        ended_quotas: client quotas that the flow has set and that are no longer its own; none is changed.
        user_changes: SCRAM users to create or to delete.
        advised_acls: the ACLs that remote topics with preserved offsets should have; none is set.
    """

    acl_changes: tuple[AclChange, ...] = ()
    relied_on: tuple[Acl, ...] = ()
    quota_changes: tuple[QuotaChange, ...] = ()
    ended_quotas: tuple[QuotaEnd, ...] = ()
    user_changes: tuple[UserChange, ...] = ()
    advised_acls: tuple[AdvisedAcl, ...] = ()

    @property
    def counts(self) -> dict[Difference, int]:
        """The number of changes of each kind."""
        return {
            Difference.ACLS_TO_CHANGE: len(self.acl_changes),
            Difference.QUOTAS_TO_CHANGE: len(self.quota_changes),
            Difference.USERS_TO_CHANGE: len(self.user_changes),
        }


@dataclass(frozen=True, slots=True)
class Plan(Flat, AsJson):
    """What one run of a flow does.

    Attributes:
        flow: the flow's name.
        run: the run's id.
        at: when it was planned, in milliseconds since 1970.
        source_cluster_id: the source's cluster id.
        target_cluster_id: the target's.
        ledger_end: the ledger's end when it was planned: what this run copies comes after it.
        file: the flow's file, by its name and its folder's.
        isolation_level: the flow's, by which it is copied.
        options: the run's options.
        ranges: what to copy; empty ranges refresh a position.
        pins: in a backfill's plan, empty ordinary ranges that are copied first: where a flow begins that
            only copies future records, and that has not begun yet.
        shards: the writers of each shard that copies independently; empty where one task copies all.
        estimates: about how much each partition that has something to copy holds.
        choices: how the offsets of each planned topic are kept.
        rules: topics whose records go through another transform rule than before.
        heartbeats: planned topics with the name of heartbeats, whose records are counted apart.
        topics: what changes about remote topics.
        access: what changes about ACLs, quotas and users.
        schemas: what changes about schemas.
        removals: what is taken away, other than among these changes, and what of all that needs an approval.
        remarks: what it says of topics and partitions.
    """

    WHAT: ClassVar = "a plan"
    NESTED: ClassVar = ("options",)

    flow: str
    run: str
    at: int
    source_cluster_id: str
    target_cluster_id: str
    ledger_end: int = 0
    file: str = ""
    isolation_level: str = "read_committed"
    options: RunOptions = ORDINARY
    ranges: tuple[Range, ...] = ()
    pins: tuple[Range, ...] = ()
    shards: tuple[tuple[int, ...], ...] = ()
    estimates: tuple[Estimate, ...] = ()
    choices: tuple[OffsetsChoice, ...] = ()
    rules: tuple[RuleChange, ...] = ()
    heartbeats: tuple[str, ...] = ()
    topics: TopicChanges = TopicChanges()
    access: AccessChanges = AccessChanges()
    schemas: SchemaChanges = field(default_factory=SchemaChanges)
    removals: Removals = field(default_factory=Removals)
    remarks: PlanRemarks = field(default_factory=PlanRemarks)

    def of_shard(self, shard: int | None) -> tuple[Range, ...]:
        """The ranges that a shard copies; all of them for None.

        Raises:
            FerryError: if there is no such shard.
        """
        return self._of_shard(self.ranges, shard)

    def pins_of_shard(self, shard: int | None) -> tuple[Range, ...]:
        """The ``pins`` that a shard writes; all of them for None."""
        return self._of_shard(self.pins, shard)

    def _of_shard(self, ranges: tuple[Range, ...], shard: int | None) -> tuple[Range, ...]:
        if shard is None:
            return ranges
        if not 0 <= shard < len(self.shards):
            raise FerryError(
                f"The run {self.run} has no shard {shard}: it was planned with {len(self.shards)}.",
                advice="Plan it again, or name one of them.",
            )
        writers = frozenset(self.shards[shard])
        return tuple(range_ for range_ in ranges if range_.writer in writers)

    @property
    def shard_names(self) -> tuple[str, ...]:
        """The name of each shard: its number, and the first topics that it copies."""
        return tuple(_shard_name(shard, self.of_shard(shard)) for shard in range(len(self.shards)))

    @property
    def is_idle_backfill(self) -> bool:
        """Whether it is a backfill's plan with nothing to do: then nothing is written."""
        return self.options.window is not None and not (self.ranges or self.pins)

    @property
    def digest(self) -> str:
        """The SHA-256 of all of it: an approval is of one plan, and not of another in its place."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def offsets(self) -> int:
        """How many source offsets there are to copy or to account for."""
        return sum(len(range_) for range_ in self.ranges)

    @property
    def changes(self) -> dict[Difference, int]:
        """What a run changes other than records and positions: the number of each kind."""
        # That of a new topic is no change of what is there.
        rules = {
            Difference.TRANSFORM_RULES_TO_CHANGE: sum(
                rule.before is not None for rule in self.rules
            )
        }
        counts = self.topics.counts(self.at) | self.access.counts | self.schemas.counts
        counts |= rules | self.removals.counts
        return {kind: count for kind, count in counts.items() if count}

    @property
    def differences(self) -> dict[Difference, int]:
        """All that a run would change, copy or refuse: the number of each kind.

        Empty where both clusters agree: such a run only renews its positions.
        """
        counts = {
            Difference.PARTITIONS_TO_COPY: sum(range_.is_work for range_ in self.ranges),
            Difference.REFUSED: len(self.remarks.refused),
        }
        return self.changes | {kind: count for kind, count in counts.items() if count}


def _shard_name(shard: int, ranges: Sequence[Range]) -> str:
    topics = list(dict.fromkeys(range_.topic for range_ in ranges if range_.is_work))
    if not topics:
        return f"shard {shard}"
    name, *rest = topics
    name = name if len(name) <= _NAMES_LENGTH else f"{name[:_NAMES_LENGTH]}..."
    while rest and len(name) + len(rest[0]) < _NAMES_LENGTH:
        name = f"{name}, {rest.pop(0)}"
    more = f" and {len(rest):,} more" if rest else ""
    return f"shard {shard}: {name}{more}"


_FILE: Final = "plan.json"


def save_plan(folder: StateFolder, plan: Plan) -> None:
    """Store the plan of a run in its folder."""
    folder.write(_FILE, plan.to_json())


def is_planned(folder: StateFolder) -> bool:
    """Whether a run's folder has a plan."""
    return _FILE in folder.names()


def read_plan(folder: StateFolder) -> Plan:
    """The plan in a run's folder.

    Raises:
        InputError: if the run was not planned.
    """
    stored = folder.read(_FILE)
    if stored is None:
        raise InputError(f"There is no {_FILE} in {folder.location}.", advice="Plan the run first.")
    return Plan.from_json(stored)
