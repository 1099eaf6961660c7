"""Which source topics a flow mirrors, and their names on the target. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.types.name_filter import NameFilter
from kafka_ferry.config.types.values import KAFKAS_OWN, OWN_TOPICS, topic_name
from kafka_ferry.model.cluster_state import NO_HEARTBEATS, ClusterState, HeartbeatTopics
from kafka_ferry.model.remarks import Refusal, Skipped
from kafka_ferry.plan.topics.replication_policy import ReplicationPolicy, policy_of

_NO_HEARTBEATS: Final = (
    "it has the name of MirrorMaker's heartbeats, its first record is none, "
    "and topics does not select it"
)
_HEARTBEATS: Final = (
    "it is for the heartbeats of other flows, which are copied only if topics has its very name, "
    "or with heartbeats.replication.enabled"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is done with each topic of the source.

    Attributes:
        names: the remote topic's name of each mirrored topic, by its name.
        skipped: the topics that are not mirrored, and why.
        refused: those that should be mirrored and cannot, because of their names or where their records come from.
    """

    names: Mapping[str, str]
    skipped: Sequence[Skipped]
    refused: Sequence[Refusal]


def select(
    flow: Flow,
    names: Iterable[str],
    origins: Mapping[str, Sequence[str]],
    target_id: str,
    returned: Container[str] = (),
    heartbeats: HeartbeatTopics = NO_HEARTBEATS,
) -> Selection:
    """Decides which of the source's topics the flow mirrors, and under which names.

    Args:
        flow: the flow.
        names: the source's topics.
        origins: by topic, the ids of the clusters that its records came through (``plan.topics.provenance``).
        target_id: the target's cluster id.
        returned: topics of which the records that came from the target can be left out one by one.
        heartbeats: what the topics are that have the name of heartbeats.

    Raises:
        ConfigError: as ``policy_of``.
    """
    selected, skipped = select_topics(flow, names)
    wanted = flow.topic_filter
    returns = f"records of {flow.target.alias} itself are copied to it (cluster id {target_id})"

    def why_not(topic: str) -> str:
        if target_id in origins.get(topic, ()) and topic not in returned:
            return returns
        if topic in heartbeats.others and not wanted.matches(topic):
            return _NO_HEARTBEATS
        return _HEARTBEATS if topic in heartbeats.unasked else ""

    left_out = {topic: why for topic in selected if (why := why_not(topic))}
    remote, refused = _remote_names(flow, [topic for topic in selected if topic not in left_out])
    if flow.on_returned_records == "leave-out":
        # What the source's own producers have written there is to be copied: no run without it is a success.
        refused += [
            _inseparable(flow, topic, why) for topic, why in left_out.items() if why == returns
        ]
    refusals = {refusal.topic for refusal in refused}
    skipped += [Skipped(topic, why) for topic, why in left_out.items() if topic not in refusals]
    skipped.sort(key=attrgetter("topic"))
    return Selection(remote, skipped, refused)


def _inseparable(flow: Flow, topic: str, reason: str) -> Refusal:
    """Why a topic is not copied of which the records that came from the target cannot be left out one by one."""
    source, target = flow.source.alias, flow.target.alias
    return Refusal(
        topic,
        f"{reason}, and cannot be told from those of {source}.",
        f"That takes isolation.level: read_committed, DESCRIBE on the groups ferry.* of {source} and READ on "
        f"ferry-ledger.{target}.internal there, and no third flow that brings records of {target}. To leave the whole "
        "topic out, set on.returned.records: skip, or exclude it with topics.exclude.",
    )


def selection_of(flow: Flow, state: ClusterState, names: Iterable[str] | None = None) -> Selection:
    """The selection for a known state of both clusters.

    Args:
        flow: the flow.
        state: the state of both clusters.
        names: names of topics, if not those that the source has.

    Raises:
        ConfigError: as ``policy_of``.
    """
    names, other_flows = state.source.names if names is None else names, state.other_flows
    return select(
        flow,
        names,
        other_flows.origins,
        state.target.cluster_id,
        other_flows.returned,
        state.source.heartbeats,
    )


def select_topics(flow: Flow, names: Iterable[str]) -> tuple[list[str], list[Skipped]]:
    """The source topics that the flow mirrors by their names, and the others with the reason; both sorted.

    Raises:
        ConfigError: as ``policy_of``.
    """
    policy, wanted = policy_of(flow), flow.topic_filter
    selected, skipped = [], []
    for name in sorted(names):
        why = _why_not(flow, policy, wanted, name)
        if why:
            skipped.append(Skipped(name, why))
        else:
            selected.append(name)
    return selected, skipped


def _why_not(flow: Flow, policy: ReplicationPolicy, wanted: NameFilter, name: str) -> str | None:
    """Why a topic is not mirrored (``MirrorSourceConnector.shouldReplicateTopic``); None where it is."""
    if policy.is_internal_topic(name):
        return "an internal topic of Kafka or of a mirror"
    if any(map(OWN_TOPICS.fullmatch, policy.history(name))):
        return "a topic of Kafka Ferry's own"
    if policy.is_cycle(name, flow.target.alias):
        return f"its name says that it came from {flow.target.alias} itself"
    if flow.heartbeats_replication_enabled and policy.is_heartbeats_topic(name):
        return None
    return wanted.why_not(name)


def _remote_names(flow: Flow, selected: Iterable[str]) -> tuple[dict[str, str], list[Refusal]]:
    """The remote topic's name of each topic, and refusals of topics whose name is taken or invalid.

    Two topics never share a remote topic: their records could not be told apart again.
    """
    policy = policy_of(flow)
    names = {topic: policy.remote_topic(topic) for topic in selected}
    sharing: dict[str, list[str]] = defaultdict(list)
    for topic, name in names.items():
        sharing[name].append(topic)
    refused = []
    for topic, name in list(names.items()):
        other_topics = [other for other in sharing[name] if other != topic]
        reason = _unfit(flow, policy, name) or (
            f"{name} would be the remote topic of {', '.join(other_topics)} too."
            if other_topics
            else ""
        )
        if reason:
            del names[topic]
            refused.append(Refusal(topic, reason, "Give it another name in topics.rename."))
    return names, refused


def _unfit(flow: Flow, policy: ReplicationPolicy, name: str) -> str:
    """Why no remote topic may have this name, "" where one may."""
    try:
        topic_name(name)
    except ValueError as error:
        return f"its remote topic's name, {name!r}, {error}."
    if name in KAFKAS_OWN:
        return f"{name} on the target is Kafka's own."
    if name == flow.dead_letter_name:
        return f"{name} on the target is for the flow's dead letters (dead.letter.topic)."
    if OWN_TOPICS.fullmatch(name):
        return f"{name} on the target is Kafka Ferry's own."
    if flow.emit_checkpoints_enabled and name == policy.checkpoints_topic():
        return f"{name} on the target has the groups' checkpoints (emit.checkpoints.enabled)."
    return ""
