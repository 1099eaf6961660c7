"""The topics that a flow writes for MirrorMaker 2's clients, to write them and to recognize them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafka_ferry.config.types.values import KAFKAS_OWN, OWN_TOPICS
from kafka_ferry.errors import ConfigError
from kafka_ferry.plan.topics.replication_policy import HEARTBEATS, policy_of

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow

CHECKPOINTS: Final = "emit.checkpoints.enabled"
HEARTBEATS_OPTION: Final = "emit.heartbeats.enabled"
OFFSET_SYNCS: Final = "emit.offset-syncs.enabled"


@dataclass(frozen=True, slots=True)
class EmittedTopic:
    """A topic that a flow writes for MirrorMaker 2's clients.

    Attributes:
        name: its name.
        cluster: its cluster.
        option: the option that switches it off.
        replication_factor: its replicas, if there are enough brokers; -1 for the brokers' default.
    """

    name: str
    cluster: Cluster
    option: str
    replication_factor: int


def emitted_topics(flow: Flow) -> list[EmittedTopic]:
    """The topics that ``emit`` creates where they are missing, and writes to.

    The remote topic of heartbeats is among them as long as the flow does not copy heartbeats.

    Raises:
        ConfigError: as ``policy_of``, or one of them would be a topic of Kafka's own, or of Kafka Ferry's: a heartbeat
            in a ledger stops each run of the flow that has it.
    """
    topics = _named_topics(flow)
    for topic in topics:
        if topic.name in KAFKAS_OWN or OWN_TOPICS.fullmatch(topic.name):
            reason = f"would write to {topic.name} on {topic.cluster.alias}, which is not for this"
            advice = "Give it another name: correct topics.rename, or the source's alias."
            raise ConfigError(flow.file, topic.option, reason, advice=advice)
    return topics


def _named_topics(flow: Flow) -> list[EmittedTopic]:
    policy, target = policy_of(flow), flow.target
    topics = []
    if flow.emit_checkpoints_enabled:
        factor = flow.checkpoints_topic_replication_factor
        topics.append(EmittedTopic(policy.checkpoints_topic(), target, CHECKPOINTS, factor))
    if flow.emit_heartbeats_enabled:
        names = [HEARTBEATS, policy.remote_topic(HEARTBEATS)]
        factor = flow.heartbeats_topic_replication_factor
        topics += [
            EmittedTopic(name, target, HEARTBEATS_OPTION, factor) for name in dict.fromkeys(names)
        ]
    if flow.emit_offset_syncs_enabled:
        at_source = flow.offset_syncs_topic_location == "source"
        cluster, other = (flow.source, target) if at_source else (target, flow.source)
        factor = flow.offset_syncs_topic_replication_factor
        name = policy.offset_syncs_topic(other.alias)
        topics.append(EmittedTopic(name, cluster, OFFSET_SYNCS, factor))
    return topics
