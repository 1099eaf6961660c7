"""What a source topic is called on the target, and which names are never mirrored.

The rules are MirrorMaker 2's, version 4.3 (``org.apache.kafka.connect.mirror.ReplicationPolicy``,
``DefaultReplicationPolicy``, ``IdentityReplicationPolicy``, ``MirrorSourceConnector.isCycle``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

HEARTBEATS = "heartbeats"


class ReplicationPolicy(ABC):
    """Names remote topics, and reads names back."""

    def __init__(self, *, source_alias: str, separator: str = ".") -> None:
        self.source_alias = source_alias
        self.separator = separator

    @abstractmethod
    def remote_topic(self, topic: str) -> str:
        """The name on the target of the source's ``topic`` (``formatRemoteTopic``)."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that ``topic`` was mirrored from, None where it is local."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name that ``topic`` has one hop upstream, None where it is local."""

    def original_topic(self, topic: str) -> str:
        """The name that ``topic`` had where it was first written."""
        upstream = self.upstream_topic(topic)
        return topic if upstream in (None, topic) else self.original_topic(str(upstream))

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether ``topic`` holds heartbeats, mirrored or not."""
        return self.original_topic(topic) == HEARTBEATS

    def is_internal_topic(self, topic: str) -> bool:
        """Whether ``topic`` belongs to Kafka or to a mirror, and is never a user's."""
        of_mirror = topic.startswith("mm2") and topic.endswith(f"{self.separator}internal")
        checkpoints = topic.endswith(f".checkpoints{self.separator}internal")
        return of_mirror or checkpoints or topic.startswith(("__", "."))

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether mirroring ``topic`` to ``target_alias`` would send it back to where it came from."""
        source = self.topic_source(topic)
        if source is None:
            return False
        if source == target_alias:
            return True
        upstream = self.upstream_topic(topic)
        return upstream not in (None, topic) and self.is_cycle(str(upstream), target_alias)


class DefaultReplicationPolicy(ReplicationPolicy):
    """``{alias}{separator}{topic}``: every hop adds its alias in front."""

    def remote_topic(self, topic: str) -> str:
        """``orders`` from ``primary`` is ``primary.orders``."""
        return f"{self.source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """The text before the first separator; ``x.`` is no remote topic, ``.x`` has the source ""."""
        parts = topic.split(self.separator)
        # Java's split drops empty parts at the end.
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """``primary.orders`` was ``orders`` one hop upstream."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Names stay; only heartbeats are renamed, as MirrorMaker 2 does, so that hops can be counted."""

    def remote_topic(self, topic: str) -> str:
        """The same name, except for a name that ends in ``heartbeats``."""
        return super().remote_topic(topic) if self._looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """The flow's source, since a name cannot tell."""
        if self._looks_like_heartbeats(topic):
            return super().topic_source(topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """The same name."""
        return super().upstream_topic(topic) if self._looks_like_heartbeats(topic) else topic

    @staticmethod
    def _looks_like_heartbeats(topic: str) -> bool:
        return topic.endswith(HEARTBEATS)


POLICIES: dict[str, type[ReplicationPolicy]] = {
    "DefaultReplicationPolicy": DefaultReplicationPolicy,
    "IdentityReplicationPolicy": IdentityReplicationPolicy,
}
