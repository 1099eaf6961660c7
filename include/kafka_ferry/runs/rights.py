"""The rights that a flow's principals need on its two clusters: the one list of them. Pure.

``python -m kafka_ferry.runs.rights`` writes it as a page, ``ferry rights`` for one flow. A test takes each right
away in turn and looks for the error that names it; whatever a run asks a cluster for stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from kafka_ferry.certificates import certificate_topic
from kafka_ferry.config import Flow
from kafka_ferry.config.types.first_start import read_first_start
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model.positions import position_group
from kafka_ferry.model.rights import CLUSTER_NAME, ResourceType, Right
from kafka_ferry.plan.topics.emitted_topics import HEARTBEATS_OPTION, emitted_topics
from kafka_ferry.plan.topics.resources import Resource, remote_resources, resources_of

Side = Literal["source", "target"]


@dataclass(frozen=True, slots=True)
class NeededRight:
    """A right that a flow needs.

    Attributes:
        side: on which of its clusters.
        right: the right.
        why: what the flow does with it.
    """

    side: Side
    right: Right
    why: str


@dataclass(frozen=True, slots=True)
class Need:
    """A line of the list.

    Attributes:
        operations: what the flow must be allowed to do there.
        on: the type of the resources, and these for people, as Markdown.
        why: what the flow does with the right.
        resources: the resources of a flow, none if it does not need the right.
        when: the options with which it does, as Markdown; "" for all flows.
    """

    operations: tuple[str, ...]
    on: tuple[ResourceType, str]
    why: str
    resources: Callable[[Flow], Iterable[Resource]]
    when: str = ""

    def of(self, flow: Flow) -> Iterator[Right]:
        """The rights of a flow."""
        for name, prefixed in self.resources(flow):
            for operation in self.operations:
                yield Right(self.on[0], name, operation, prefixed)


def needed_rights(flow: Flow) -> tuple[NeededRight, ...]:
    """The rights that the flow's principals need, without those that others of them imply.

    Raises:
        ConfigError: as ``policy_of``.
    """
    return tuple(chain.from_iterable(_needs_on(side, NEEDS[side], flow) for side in NEEDS))


def _needs_on(side: Side, needs: Iterable[Need], flow: Flow) -> Iterator[NeededRight]:
    whys: dict[Right, str] = {}
    for need in needs:
        for right in need.of(flow):
            whys.setdefault(right, need.why)
    for right, why in whys.items():
        if not any(other != right and other.implies(right) for other in whys):
            yield NeededRight(side, right, why)


def _if(applies: bool, *names: str, prefixed: bool = False) -> tuple[Resource, ...]:
    return tuple(Resource(name, prefixed) for name in names) if applies else ()


def _asks_other_flows(flow: Flow) -> bool:
    """Whether a plan asks which other flows write to the remote topics."""
    return flow.on_source_topic_deleted == "retire" or flow.on_foreign_records == "adopt"


def _the_cluster(applies: bool = True) -> tuple[Resource, ...]:
    return _if(applies, CLUSTER_NAME)


def _groups(flow: Flow, applies: bool) -> tuple[Resource, ...]:
    return resources_of(flow.groups) if applies else ()


def _groups_of_starts(flow: Flow) -> tuple[Resource, ...]:
    starts = (read_first_start(text) for _, text in flow.topics_start.rules if text)
    return _if(True, *(start.name for start in starts if start.kind == "group"))


def _emitted_topics(flow: Flow, side: Side, *, read: bool = False) -> tuple[Resource, ...]:
    cluster = flow.source if side == "source" else flow.target
    topics = (topic for topic in emitted_topics(flow) if topic.cluster.alias == cluster.alias)
    return _if(True, *(it.name for it in topics if not read or it.option != HEARTBEATS_OPTION))


def _has_preserved(flow: Flow) -> bool:
    return any(mode != "translated" for _, mode in flow.offsets.rules)


def _deletes(flow: Flow) -> tuple[Resource, ...]:
    deletes = _has_preserved(flow) or flow.on_source_topic_deleted == "retire"
    return remote_resources(flow) if deletes else ()


def _ledgers(applies: bool = True) -> tuple[Resource, ...]:
    return _if(applies, ledger_topic("").split(".", maxsplit=1)[0] + ".", prefixed=True)


_CLUSTER: Final = ("CLUSTER", "the cluster")
_REMOTE_TOPICS: Final = ("TOPIC", "the remote topics")
_GROUPS: Final = ("GROUP", "the groups")
_POSITIONS: Final = ("GROUP", "groups with the prefix `ferry.`")
_LEDGERS: Final = ("TOPIC", "topics with the prefix `ferry-ledger.`")

_ON_SOURCE: Final = (
    Need(
        ("READ", "DESCRIBE_CONFIGS"),
        ("TOPIC", "the topics"),
        "to copy the topics, and their configs",
        lambda flow: resources_of(flow.topics),
    ),
    Need(
        ("DESCRIBE",),
        _CLUSTER,
        "to know how much there is to copy, and which groups and ACLs there are",
        lambda _: _the_cluster(),
    ),
    Need(
        ("DESCRIBE",),
        _POSITIONS,
        "to know by the positions of flows into the source what came from the target",
        lambda _: _if(True, position_group(""), prefixed=True),
    ),
    Need(
        ("READ",),
        _LEDGERS,
        "to confirm those positions by the ledgers of these flows",
        lambda _: _ledgers(),
    ),
    Need(
        ("DESCRIBE",),
        _GROUPS,
        "to translate their offsets",
        lambda flow: _groups(
            flow, flow.sync_group_offsets_enabled or flow.emit_checkpoints_enabled
        ),
        when="`sync.group.offsets.enabled` or `emit.checkpoints.enabled`",
    ),
    Need(
        ("DESCRIBE",),
        ("GROUP", "the groups that it names"),
        "to begin at their offsets",
        _groups_of_starts,
        when="`topics.start: group=NAME`",
    ),
    Need(
        ("DESCRIBE_CONFIGS",),
        _CLUSTER,
        "to read the client quotas",
        lambda flow: _the_cluster(flow.sync_client_quotas_enabled),
        when="`sync.client.quotas.enabled`",
    ),
    Need(
        ("CREATE", "READ", "WRITE"),
        ("TOPIC", "`mm2-offset-syncs.{target}.internal`"),
        "to write offset syncs for MirrorMaker 2",
        lambda flow: _emitted_topics(flow, "source"),
        when="`emit.offset-syncs.enabled` with `offset-syncs.topic.location: source`",
    ),
)
_ON_TARGET: Final = (
    Need(
        ("CREATE", "READ", "WRITE", "ALTER", "DESCRIBE_CONFIGS"),
        _REMOTE_TOPICS,
        "to create, write, read back and enlarge the remote topics",
        remote_resources,
    ),
    Need(
        ("ALTER_CONFIGS",),
        _REMOTE_TOPICS,
        "to change their configs as they change on the source",
        lambda flow: remote_resources(flow) if flow.sync_topic_configs_enabled else (),
        when="unless `sync.topic.configs.enabled` is `false`",
    ),
    Need(
        ("DELETE",),
        _REMOTE_TOPICS,
        "to move the starts of their logs, or to delete them after their source topics",
        _deletes,
        when="`offsets: preserved` or `auto`, or `on.source.topic.deleted: retire`",
    ),
    Need(
        ("CREATE", "READ", "WRITE"),
        ("TOPIC", "`ferry-ledger.{source}.internal`"),
        "to keep the ledger",
        lambda flow: _if(True, ledger_topic(flow.source.alias)),
    ),
    Need(
        ("READ",),
        ("GROUP", "`ferry.{source}->{target}`"),
        "to keep the flow's positions",
        lambda flow: _if(True, position_group(flow.name)),
    ),
    Need(
        ("WRITE",),
        ("TRANSACTIONAL_ID", "those with the prefix `ferry.{source}->{target}.`"),
        "to write in transactions",
        lambda flow: _if(True, f"{position_group(flow.name)}.", prefixed=True),
    ),
    Need(
        ("READ",),
        _LEDGERS,
        "to tell foreign records from those of other flows into the same topic",
        lambda flow: _ledgers(flow.on_foreign_records == "adopt"),
        when="`on.foreign.records: adopt`",
    ),
    Need(
        ("READ",),
        _GROUPS,
        "to commit their offsets",
        lambda flow: _groups(flow, flow.sync_group_offsets_enabled),
        when="`sync.group.offsets.enabled`",
    ),
    Need(
        ("DELETE",),
        _GROUPS,
        "to delete their offsets after those on the source",
        lambda flow: _groups(
            flow,
            flow.sync_group_offsets_enabled and flow.on_source_group_deleted == "delete",
        ),
        when="the same, with `on.source.group.deleted: delete`",
    ),
    Need(
        ("CREATE", "WRITE"),
        (
            "TOPIC",
            "`{source}.checkpoints.internal`, `heartbeats` and `{source}.heartbeats`, or "
            "`mm2-offset-syncs.{source}.internal`",
        ),
        "to write for MirrorMaker 2's clients",
        lambda flow: _emitted_topics(flow, "target"),
        when="`emit.checkpoints.enabled`, `emit.heartbeats.enabled`, `emit.offset-syncs.enabled`",
    ),
    Need(
        ("READ",),
        ("TOPIC", "`{source}.checkpoints.internal`, or `mm2-offset-syncs.{source}.internal`"),
        "to write only what has changed",
        lambda flow: _emitted_topics(flow, "target", read=True),
        when="`emit.checkpoints.enabled`, `emit.offset-syncs.enabled`",
    ),
    Need(
        ("CREATE", "READ", "WRITE"),
        ("TOPIC", "`ferry-certificates.{source}.internal`"),
        "to issue certificates",
        lambda flow: _if(flow.certificates_enabled, certificate_topic(flow.source.alias)),
        when="`certificates.enabled`",
    ),
    Need(
        ("CREATE", "READ", "WRITE"),
        ("TOPIC", "the dead letter topic"),
        "to keep records that the remote topics reject, whose schema is unknown, or for which a transform rule fails",
        lambda flow: _if(flow.sets_records_aside, flow.dead_letter_name),
        when="`on.rejected.record`, `on.unknown.schema` or `on.transform.error: dead-letter`",
    ),
    Need(
        ("DESCRIBE",),
        _CLUSTER,
        "to know which other flows write to a topic before it is deleted or shared",
        lambda flow: _the_cluster(_asks_other_flows(flow)),
        when="`on.source.topic.deleted: retire`, or `on.foreign.records: adopt`",
    ),
    Need(
        ("DESCRIBE",),
        _POSITIONS,
        "to read the positions of these flows",
        lambda flow: _if(_asks_other_flows(flow), position_group(""), prefixed=True),
        when="the same",
    ),
    Need(
        ("CLUSTER_ACTION",),
        _CLUSTER,
        "to fill offsets without a record by control records",
        lambda flow: _the_cluster(_has_preserved(flow) and flow.fill == "markers"),
        when="`offsets: preserved` or `auto`, with `fill: markers`; since Kafka 3.8, `ALTER` is enough",
    ),
    Need(
        ("ALTER",),
        _CLUSTER,
        "to sync ACLs and SCRAM users",
        lambda flow: _the_cluster(flow.sync_topic_acls_enabled or flow.sync_scram_users_enabled),
        when="`sync.topic.acls.enabled` or `sync.scram.users.enabled`",
    ),
    Need(
        ("ALTER_CONFIGS",),
        _CLUSTER,
        "to sync client quotas",
        lambda flow: _the_cluster(flow.sync_client_quotas_enabled),
        when="`sync.client.quotas.enabled`",
    ),
)

NEEDS: Final[Mapping[Side, tuple[Need, ...]]] = {"source": _ON_SOURCE, "target": _ON_TARGET}
"""Every right that a run may need, by cluster."""

_HEAD: Final = """\
# Rights

Generated from `kafka_ferry.runs.rights`; do not edit. These are the rights that the principals of a flow need, on
the source and on the target. `ferry rights --config FILE` lists those of one flow, with its names and options;
with `--principal User:ferry` it prints the commands that grant them. A test takes each one away in turn, on two
clusters with an authorizer, and sees the error that names it; with all of them, and nothing else, whole runs
succeed. Commands beside a run need more: see [takeover](../takeover.md#rights) and
[failover](../failover.md).

`READ`, `WRITE`, `DELETE` and `ALTER` imply `DESCRIBE`, and `ALTER_CONFIGS` implies `DESCRIBE_CONFIGS`: Kafka's own
authorizers take the one for the other. With another authorizer, grant both.

| Cluster | Right | On | What for | With the options |
| --- | --- | --- | --- | --- |
"""


def rights_page() -> str:
    """The list as Markdown."""
    rows = (
        f"| {side} | {', '.join(f'`{name}`' for name in need.operations)} | {need.on[1]} | {need.why} "
        f"| {need.when or 'all'} |"
        for side, needs in NEEDS.items()
        for need in needs
    )
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(rights_page(), end="")
