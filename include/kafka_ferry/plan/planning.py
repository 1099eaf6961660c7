"""Making a plan from what was found on both clusters. Pure: changes nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.config import Flow, TopicFilter
from kafka_ferry.plan.facts import LogBounds, Topic
from kafka_ferry.plan.naming import POLICIES, ReplicationPolicy
from kafka_ferry.plan.plan import Creation, Growth, Plan, Refusal, Skipped
from kafka_ferry.plan.positions import Position
from kafka_ferry.plan.ranges import Range, TopicPartition, writer_of

# Brokers forget the offsets of a group without members after seven days by default.
_REFRESH_AFTER_MS: Final = 24 * 60 * 60 * 1000
_MAX_NAME: Final = 249

# MirrorMaker 2's config.properties.exclude, and the codec: batches bring their own.
_CONFIGS_NOT_COPIED: Final = frozenset(
    {
        "compression.type",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)


_TARGET_GONE: Final = (
    "the target's topic was deleted since it was last copied; its history there is gone.",
    "To copy it again from its start, delete the ledger's topic too; the offset maps of all of the "
    "flow's topics go with it.",
)


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a plan is made from.

    Attributes:
        source_cluster_id: the source's cluster id.
        target_cluster_id: the target's.
        source_names: the names of all topics of the source.
        source_topics: those of them that the flow selects, by name; one that vanished is absent.
        target_topics: the topics of the target, by name.
        bounds: what each partition of the source holds.
        positions: the flow's positions by *target* partition: the group's, or else the ledger's.
        ledger_end: the ledger offset up to which its table is complete.
    """

    source_cluster_id: str
    target_cluster_id: str
    source_names: frozenset[str]
    source_topics: Mapping[str, Topic]
    target_topics: Mapping[str, Topic]
    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    ledger_end: int = 0


def policy_of(flow: Flow) -> ReplicationPolicy:
    """The flow's replication policy."""
    return POLICIES[flow.replication_policy_class](
        source_alias=flow.source.alias, separator=flow.replication_policy_separator
    )


def select_topics(flow: Flow, names: Iterable[str]) -> tuple[list[str], list[Skipped]]:
    """The source topics that the flow mirrors, and the others with the reason why not; both sorted."""
    policy = policy_of(flow)
    wanted = flow.topic_filter
    selected, skipped = [], []
    for name in sorted(names):
        why = _why_skipped(name, policy, wanted, flow)
        if why:
            skipped.append(Skipped(name, why))
        else:
            selected.append(name)
    return selected, skipped


def _why_skipped(
    name: str, policy: ReplicationPolicy, wanted: TopicFilter, flow: Flow
) -> str | None:
    if policy.is_internal_topic(name):
        return "an internal topic of Kafka or of a mirror"
    if policy.is_cycle(name, flow.target.alias):
        return f"it came from {flow.target.alias} itself"
    return wanted.why_not(name)


def make_plan(flow: Flow, found: Found, *, run: str, at: int) -> Plan:
    """Plan a run of ``flow``.

    Args:
        flow: the flow.
        found: the state of both clusters.
        run: the run's id.
        at: now, in milliseconds since 1970.
    """
    policy = policy_of(flow)
    selected, skipped = select_topics(flow, found.source_names)
    ranges: list[Range] = []
    creations: list[Creation] = []
    growths: list[Growth] = []
    refused: list[Refusal] = []
    for name in selected:
        topic = found.source_topics.get(name)
        if topic is None:
            skipped.append(Skipped(name, "it was deleted while the run was planned"))
            continue
        remote_name = policy.remote_topic(name)
        remote = found.target_topics.get(remote_name)
        positions = _positions_of(topic, remote_name, remote, found)
        problem = _problem_of(topic, remote_name, remote, positions)
        if problem:
            refused.append(problem)
            continue
        if remote is None:
            creations.append(_creation(topic, remote_name, flow.replication_factor))
        elif remote.partitions < topic.partitions:
            growths.append(Growth(remote_name, topic.partitions))
        for step in _partitions(topic, remote_name, remote, found, positions, flow.writers, at):
            if isinstance(step, Range):
                ranges.append(step)
            else:
                refused.append(step)
    return Plan(
        flow=flow.name,
        run=run,
        at=at,
        source_cluster_id=found.source_cluster_id,
        target_cluster_id=found.target_cluster_id,
        ledger_end=found.ledger_end,
        ranges=tuple(ranges),
        creations=tuple(creations),
        growths=tuple(growths),
        skipped=tuple(skipped),
        refused=tuple(refused),
    )


def _positions_of(
    topic: Topic, remote_name: str, remote: Topic | None, found: Found
) -> dict[int, Position]:
    """The topic's positions by partition.

    Those of an earlier topic that went into an earlier remote topic say nothing of this pair.
    """
    positions = {}
    for number in range(topic.partitions):
        position = found.positions.get(TopicPartition(remote_name, number))
        if position is None:
            continue
        other_source = position.topic_id not in ("", topic.topic_id)
        other_target = remote is None or position.remote_topic_id not in ("", remote.topic_id)
        if not (other_source and other_target):
            positions[number] = position
    return positions


def _problem_of(
    topic: Topic, remote_name: str, remote: Topic | None, positions: Mapping[int, Position]
) -> Refusal | None:
    if remote is None and positions:
        return Refusal(topic.name, None, *_TARGET_GONE)
    if len(remote_name) > _MAX_NAME:
        return Refusal(
            topic.name, None, f"{remote_name} is longer than {_MAX_NAME} characters.", "Rename it."
        )
    configs = remote.configs if remote else {}
    if configs.get("message.timestamp.type", "CreateTime") != "CreateTime":
        return Refusal(
            topic.name,
            None,
            f"{remote_name} on the target has message.timestamp.type={configs['message.timestamp.type']}, "
            "which would replace the records' timestamps.",
            "Set it to CreateTime.",
        )
    if configs.get("compression.type", "producer") != "producer":
        return Refusal(
            topic.name,
            None,
            f"{remote_name} on the target has compression.type={configs['compression.type']}, "
            "so that its broker would compress every batch anew.",
            "Set it to producer.",
        )
    return None


def _creation(topic: Topic, remote_name: str, replication_factor: int) -> Creation:
    configs = {name: topic.configs[name] for name in sorted(topic.overrides - _CONFIGS_NOT_COPIED)}
    return Creation(remote_name, topic.partitions, replication_factor, configs)


def _partitions(
    topic: Topic,
    remote_name: str,
    remote: Topic | None,
    found: Found,
    positions: Mapping[int, Position],
    writers: int,
    at: int,
) -> Iterator[Range | Refusal]:
    for number in range(topic.partitions):
        source, target = TopicPartition(topic.name, number), TopicPartition(remote_name, number)
        bounds = found.bounds.get(source)
        if bounds is None:
            yield Refusal(
                topic.name,
                number,
                "the partition has no leader.",
                "Is one of the source's brokers down?",
            )
            continue
        position = positions.get(number)
        reason = _misplaced(position, topic, remote, bounds) if position else None
        if reason:
            yield Refusal(topic.name, number, *reason)
            continue
        start = position.offset if position else bounds.start
        idle = start == bounds.stable_end
        if idle and (position is None or not _must_refresh(position, at)):
            continue
        yield Range(
            topic=topic.name,
            partition=number,
            start=start,
            end=bounds.stable_end,
            topic_id=topic.topic_id,
            remote_topic=remote_name,
            writer=writer_of(target, writers),
        )


def _must_refresh(position: Position, at: int) -> bool:
    return position.origin == "ledger" or at - position.at > _REFRESH_AFTER_MS


def _misplaced(
    position: Position, topic: Topic, remote: Topic | None, bounds: LogBounds
) -> tuple[str, str] | None:
    """Why copying must not go on at ``position``, and what to do; None where it may."""
    if position.topic_id not in ("", topic.topic_id):
        return (
            "the source's topic was deleted and made anew since it was last copied.",
            "Delete the remote topic to start again, or mirror the new one under another name.",
        )
    if remote and position.remote_topic_id not in ("", remote.topic_id):
        return _TARGET_GONE
    if position.offset < bounds.start:
        return (
            f"offsets [{position.offset}, {bounds.start}) were deleted on the source before they "
            "were copied.",
            "Mirror more often, or keep the source's records longer.",
        )
    if position.offset > bounds.stable_end:
        return (
            f"the source's log ends at {bounds.stable_end}, before the position {position.offset}: "
            "it has lost records that were copied.",
            "Was there an unclean leader election?",
        )
    return None
