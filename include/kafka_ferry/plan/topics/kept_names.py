"""Names as the mirrors before MirrorMaker 2 kept them: all of them, whatever they look like."""

from __future__ import annotations

from typing import Final

from kafka_ferry.plan.topics.replication_policy import ReplicationPolicy

# org.apache.kafka.common.internals.Topic: INTERNAL_TOPICS and CLUSTER_METADATA_TOPIC_NAME
_KAFKAS_OWN: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)


class KeptNames(ReplicationPolicy):
    """Every topic keeps its name, and only Kafka's own are internal (``kafka.tools.MirrorMaker``).

    Unlike ``IdentityReplicationPolicy`` it has no names with a meaning: ``device-heartbeats`` and
    ``__canary`` are topics like any other. A name does not tell where a topic came from; that is for
    the clusters' ids to tell.
    """

    def remote_topic(self, topic: str) -> str:
        """The same name."""
        return topic

    def topic_source(self, topic: str) -> str | None:
        """Nothing: a name does not tell."""
        del topic
        return None

    def upstream_topic(self, topic: str) -> str | None:
        """Nothing: a name does not tell."""
        del topic
        return None

    def is_heartbeats_topic(self, topic: str) -> bool:
        """No: those mirrors knew of none."""
        del topic
        return False

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it is one of Kafka's own, to which brokers let no client write."""
        return topic in _KAFKAS_OWN
