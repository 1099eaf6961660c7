"""What a run changes on the target other than topics and records: configs, ACLs, quotas, users.

Names of resources, operations and so on are Kafka's own constants, such as ``DESCRIBE_CONFIGS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from kafka_ferry.clock import moment_text
from kafka_ferry.model.rights import EVERY

EVERYBODY: Final = "User:*"
"""The principal of an ACL that applies to all principals."""

ACCESS_KINDS: Final = ("acls", "quotas", "users")
"""Who may do what: the fields of ``Applied`` for it."""

_PARTITIONS_SHOWN: Final = 5


class Difference(StrEnum):
    """What a run would change, copy or refuse: keys of counts, which ``ferry plan --json`` has too."""

    PARTITIONS_TO_COPY = "partitions_to_copy"
    TOPICS_TO_CREATE = "topics_to_create"
    TOPICS_TO_GROW = "topics_to_grow"
    CONFIGS_TO_CHANGE = "configs_to_change"
    TOPICS_TO_DELETE = "topics_to_delete"
    ACLS_TO_CHANGE = "acls_to_change"
    QUOTAS_TO_CHANGE = "quotas_to_change"
    USERS_TO_CHANGE = "users_to_change"
    SCHEMAS_TO_REGISTER = "schemas_to_register"
    SETTINGS_OF_SUBJECTS_TO_CHANGE = "settings_of_subjects_to_change"
    TRANSFORM_RULES_TO_CHANGE = "transform_rules_to_change"
    GROUPS_TO_DELETE_OFFSETS_OF = "groups_to_delete_offsets_of"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One config of a remote topic to set, or to set back to its default.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        name: the config's name.
        value: its new value; None deletes it, so that the target's default holds.
        before: what the remote topic has set now, None where it has nothing set.
    """

    topic: str
    remote_topic: str
    name: str
    value: str | None
    before: str | None

    def __str__(self) -> str:
        was = "" if self.before is None else f" (it was {self.before})"
        if self.value is None:
            return f"{self.remote_topic}: unset {self.name}{was}"
        return f"{self.remote_topic}: set {self.name}={self.value}{was}"


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """A ledger entry about a remote topic's configs, where the ledger has another one or none.

    Attributes:
        remote_topic: the topic on the target.
        remote_topic_id: its id.
        configs: all that the flow has set there, once the plan's changes are made.
        before: what the flow has set there by the ledger.
    """

    remote_topic: str
    remote_topic_id: str
    configs: Mapping[str, str]
    before: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Drift:
    """A config of a remote topic that is neither as on the source nor as the flow has set it.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        name: the config's name.
        wanted: what the flow would set, None for the target's default.
        found: what is set there, None where nothing is.
        overwritten: whether the run changes it, by ``on.config.drift``.
    """

    topic: str
    remote_topic: str
    name: str
    wanted: str | None
    found: str | None
    overwritten: bool

    def __str__(self) -> str:
        if self.found is None:
            clause = f"no longer has {self.name}, which this flow had set"
        else:
            clause = f"has {self.name}={self.found}, which this flow has not set"
        should = "the target's default" if self.wanted is None else self.wanted
        fate = "overwritten" if self.overwritten else "kept"
        return f"{self.remote_topic} {clause}; by the source it should be {should}: {fate}."


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A topic's records go through another transform rule than before.

    Attributes:
        topic: the source's topic.
        rule: the rule's place in the flow's list, from 1 on; 0 if they are copied as they are from now on.
        fingerprint: the rule's; "" for none.
        before: the fingerprint of the rule before, "" if they were copied as they are, None if none of
            them was copied.
    """

    topic: str
    rule: int
    fingerprint: str
    before: str | None = None

    def __str__(self) -> str:
        now = (
            f"go through rule {self.rule} ({self.fingerprint})" if self.rule else "stay as they are"
        )
        if self.before is None:
            return f"records of {self.topic} {now}"
        earlier = f"went through rule {self.before}" if self.before else "stayed as they are"
        return f"records of {self.topic} {now} from now on; earlier ones {earlier}"


@dataclass(frozen=True, slots=True)
class Misplacement:
    """A remote topic with replicas on other racks than ``topics.replica.placement`` says.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        placement: by rack, how many replicas each partition should have there.
        racks: by partition with replicas elsewhere, the rack of each of its replicas; "no rack" for a broker
            without one, "?" for a broker that is down.
    """

    topic: str
    remote_topic: str
    placement: Mapping[str, int]
    racks: Mapping[int, tuple[str, ...]]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Where the replicas of the first few of its partitions are, and how many more there are."""
        shown = sorted(self.racks)[:_PARTITIONS_SHOWN]
        more = len(self.racks) - len(shown)
        placements = (
            f"partition {number} is on {', '.join(self.racks[number])}" for number in shown
        )
        return (*placements, *([f"and so on for {more:,} more"] if more else []))

    def __str__(self) -> str:
        return (
            f"{self.remote_topic} has replicas on other racks than topics.replica.placement says "
            f"({placement_text(self.placement)}): {'; '.join(self.sentences)}. This flow moves none: use "
            "kafka-reassign-partitions.sh (docs/topic-configs.md)."
        )


def placement_text(placement: Mapping[str, int]) -> str:
    """Replicas by rack, such as ``rack-a: 2, rack-b: 1``."""
    return ", ".join(f"{rack}: {count}" for rack, count in placement.items())


@dataclass(frozen=True, slots=True)
class Retirement:
    """A remote topic whose source topic is gone, and that is to be deleted.

    Attributes:
        topic: the topic that the source had.
        remote_topic: the topic on the target.
        remote_topic_id: its id: no other topic of that name is ever deleted.
        since: when a run first missed the source's topic, in milliseconds since 1970.
        due: from when on it is deleted.
    """

    topic: str
    remote_topic: str
    remote_topic_id: str
    since: int
    due: int

    def is_due(self, at: int) -> bool:
        """Whether a run that was planned at this time deletes it."""
        return self.due <= at

    def __str__(self) -> str:
        since = moment_text(self.since, seconds=False)
        due = moment_text(self.due, seconds=False)
        return (
            f"{self.remote_topic}: {self.topic} is gone from the source since {since}; "
            f"deleted by the first run from {due} on."
        )


@dataclass(frozen=True, order=True, slots=True)
class Acl:
    """An ACL (``org.apache.kafka.common.acl.AclBinding``).

    Attributes:
        resource_type: ``TOPIC``, ``GROUP``, ``TRANSACTIONAL_ID`` or ``CLUSTER``.
        name: the resource's name or prefix.
        pattern_type: ``LITERAL`` or ``PREFIXED``.
        principal: such as ``User:anna``.
        host: the client's address, ``*`` for any.
        operation: ``READ``, ``ALL``, ...
        permission: ``ALLOW`` or ``DENY``.
    """

    resource_type: str
    name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        host = "" if self.host == "*" else f" from {self.host}"
        prefix = " with the prefix" if self.pattern_type == "PREFIXED" else ""
        resource = f"{self.resource_type.lower().replace('_', ' ')}{prefix} {self.name}"
        return f"{self.permission} {self.operation} on the {resource} to {self.principal}{host}"

    def covers(self, name: str) -> bool:
        """Whether it applies to the resource ``name`` of its type."""
        if self.pattern_type == "PREFIXED":
            return name.startswith(self.name)
        return self.name in (name, EVERY)

    def meets(self, other: Acl) -> bool:
        """Whether both may apply to one request, regardless of the host and the operation."""
        if self.resource_type != other.resource_type:
            return False
        if self.principal != other.principal and EVERYBODY not in (self.principal, other.principal):
            return False
        return self.covers(other.name) or other.covers(self.name)


@dataclass(frozen=True, slots=True)
class AclChange:
    """An ACL to create on the target, or to delete there."""

    acl: Acl
    change: Literal["grant", "revoke"]

    @property
    def widens(self) -> bool:
        """Whether it can give rights: an ACL that allows is created, or one that denies is deleted."""
        return (self.change == "grant") == (self.acl.permission == "ALLOW")

    def __str__(self) -> str:
        return f"{self.change} {self.acl}"


def needed_denials(changes: Iterable[object], waiting: Iterable[Acl]) -> set[AclChange]:
    """The deletions of ACLs that deny and still limit an ACL that allows.

    Args:
        changes: changes of any kind.
        waiting: ACLs that allow, and that are to be deleted later.
    """
    return {
        change
        for change in changes
        if isinstance(change, AclChange)
        and change.change == "revoke"
        and change.widens
        and any(map(change.acl.meets, waiting))
    }


Entity = tuple[tuple[str, str | None], ...]
"""A quota's entity: pairs of a type (``user``, ``client-id``, ``ip``) and a name, None for the default."""


Quotas = Mapping[tuple[Entity, str], float]
"""Client quotas by entity and key, such as ``producer_byte_rate``."""

Users = Mapping[tuple[str, str], int]
"""SCRAM credentials: the iterations, by user and mechanism."""


def quota_name(entity: Entity, key: str) -> str:
    """A quota's name in messages, such as ``producer_byte_rate of the user anna``."""
    whom = " and ".join(
        f"the {kind} {name}" if name is not None else f"every {kind} without one"
        for kind, name in entity
    )
    return f"{key} of {whom}"


def amount(value: float) -> str:
    """A quota's value, for people."""
    return f"{value:,.12g}"


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A client quota to set on the target, or to delete there (KIP-546).

    Attributes:
        entity: its entity.
        key: such as ``producer_byte_rate``.
        value: its new value, None deletes it.
        before: what the target has now, None where it has none.
    """

    entity: Entity
    key: str
    value: float | None
    before: float | None

    def __str__(self) -> str:
        was = "" if self.before is None else f" (it was {amount(self.before)})"
        done = "delete" if self.value is None else "set"
        value = "" if self.value is None else f" to {amount(self.value)}"
        return f"{done} {quota_name(self.entity, self.key)}{value}{was}"


@dataclass(frozen=True, slots=True)
class QuotaEnd:
    """A client quota that the flow has set and that is no longer its own: the source has none, the target another.

    Attributes:
        entity: its entity.
        key: such as ``producer_byte_rate``.
    """

    entity: Entity
    key: str


@dataclass(frozen=True, slots=True)
class UserChange:
    """A SCRAM credential to create on the target, or to delete there (KIP-554).

    Attributes:
        user: the user's name.
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        iterations: as the source has it.
        change: what to do.
    """

    user: str
    mechanism: str
    iterations: int
    change: Literal["create", "delete"]

    def __str__(self) -> str:
        return f"{self.change} the {self.mechanism} user {self.user}"


Created = Acl | tuple[Entity, str] | tuple[str, str]
"""An ACL, a quota's entity and key, or a SCRAM user's name and mechanism."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a flow has applied on its target so far, by the ledger.

    Attributes:
        configs: by remote topic's id, the configs that the flow has set there; any other value there
            was set by another client.
        pending: by remote topic's id, the earlier values of some of them, if it is unknown whether
            they were changed since; None where nothing was set.
        creations: by remote topic's name, the configs of topics that were about to be created, if it
            is unknown whether they were.
        sources: by remote topic's id, the id of the cluster that it is a copy of.
        created_for: by what is in ``acls``, ``quotas`` and ``users``, the id of the cluster for which the
            flow has created it; absent where unknown.
        acls: the ACLs that the flow has created: only these are ever deleted.
        quotas: the quotas that the flow has set, with its own values: the newest, and as long as it is
            unknown whether that was set, the one before, None for no quota.
        users: the SCRAM credentials that the flow has created, as user and mechanism.
        missed: by remote topic's id, since when its source topic is missing, in milliseconds since 1970.
        compacted_until: by remote topic's id, the last time at which the flow knew its log to be compacted, likewise.
    """

    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pending: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    creations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    created_for: Mapping[Created, str] = field(default_factory=dict)
    acls: frozenset[Acl] = frozenset()
    quotas: Mapping[tuple[Entity, str], frozenset[float | None]] = field(default_factory=dict)
    users: frozenset[tuple[str, str]] = frozenset()
    missed: Mapping[str, int] = field(default_factory=dict)
    compacted_until: Mapping[str, int] = field(default_factory=dict)
