"""A source topic's name on the target, and which names are never mirrored.

The rules are MirrorMaker 2's, version 4.3 (``org.apache.kafka.connect.mirror.ReplicationPolicy``,
``DefaultReplicationPolicy``, ``IdentityReplicationPolicy``, ``MirrorSourceConnector.isCycle``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.permissions import check_module
from kafka_ferry.config.types.values import KAFKAS_OWN
from kafka_ferry.errors import ConfigError

HEARTBEATS = "heartbeats"
_KEY = "replication.policy.class"
_ADVICE = (
    "It must be a class that derives from kafka_ferry.plan.topics.replication_policy.ReplicationPolicy, "
    "named with its module, on the PYTHONPATH of every process that plans."
)


class ReplicationPolicy(ABC):
    """Names remote topics, and reads names back.

    A class of your own derives from this one or from one of the two below; a flow names it, with its
    module, as ``replication.policy.class``. It is instantiated for each plan.

    Args:
        source_alias: the source's alias.
        separator: ``replication.policy.separator``.
        internal_separator: the separator in the names of MirrorMaker 2's internal topics; the same
            unless ``replication.policy.internal.topic.separator.enabled`` is off.
    """

    def __init__(
        self, *, source_alias: str, separator: str = ".", internal_separator: str = ""
    ) -> None:
        self.source_alias = source_alias
        self.separator = separator
        self.internal_separator = internal_separator or separator

    def configure(self, settings: Mapping[str, str]) -> None:  # noqa: B027  (most have no settings)
        """Receives the other ``replication.policy.`` keys of the flow's file, once, before anything is named.

        Args:
            settings: whole keys, such as ``replication.policy.my.setting``, and their values.
        """

    @abstractmethod
    def remote_topic(self, topic: str) -> str:
        """The name on the target of the source's ``topic`` (``formatRemoteTopic``)."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that ``topic`` was mirrored from, None where it is local."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name that ``topic`` has one hop upstream, None where it is local."""

    def history(self, topic: str) -> Iterator[str]:
        """The name itself, then those that it had upstream, hop by hop."""
        visited: set[str] = set()
        name: str | None = topic
        while name is not None and name not in visited:
            yield name
            visited.add(name)
            name = self.upstream_topic(name)

    def original_topic(self, topic: str) -> str:
        """The name that ``topic`` had where it was first written."""
        *_, original = self.history(topic)
        return original

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether ``topic`` holds heartbeats, mirrored or not."""
        return self.original_topic(topic) == HEARTBEATS

    def is_internal_topic(self, topic: str) -> bool:
        """Whether ``topic`` belongs to Kafka or to a mirror, and is never a user's (KIP-1074)."""
        suffix = f"{self.internal_separator}internal"
        of_mirror = topic.startswith("mm2") and topic.endswith(suffix)
        checkpoints = topic.endswith(f"{self.internal_separator}checkpoints{suffix}")
        return of_mirror or checkpoints or topic.startswith(("__", "."))

    def checkpoints_topic(self) -> str:
        """The topic on the target of checkpoints of the source's groups (``checkpointsTopic``)."""
        between = self.internal_separator
        return f"{self.source_alias}{between}checkpoints{between}internal"

    def offset_syncs_topic(self, alias: str) -> str:
        """The topic of offset syncs, where ``alias`` is the cluster at the other end (``offsetSyncsTopic``)."""
        between = self.internal_separator
        return f"mm2-offset-syncs{between}{alias}{between}internal"

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether mirroring ``topic`` to ``target_alias`` would send it back, by its name."""
        return any(self.topic_source(name) == target_alias for name in self.history(topic))


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
    """Keeps names; only heartbeats are renamed, as in MirrorMaker 2, so that hops can be counted."""

    def remote_topic(self, topic: str) -> str:
        """The same name, except for a name that ends in ``heartbeats``."""
        return super().remote_topic(topic) if self._looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """The flow's source, since the name does not say."""
        if self._looks_like_heartbeats(topic):
            return super().topic_source(topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """The same name."""
        return super().upstream_topic(topic) if self._looks_like_heartbeats(topic) else topic

    @staticmethod
    def _looks_like_heartbeats(topic: str) -> bool:
        return topic.endswith(HEARTBEATS)


class Renamed(ReplicationPolicy):
    """Another policy, except for some topics with explicit names, in both directions.

    What a topic of the *source* is (internal, heartbeats, a cycle) is for the other policy to decide:
    ``names`` are of remote topics, which are on the target.

    Args:
        policy: the other policy.
        names: remote topics by source topic (``topics.rename``).
    """

    def __init__(self, policy: ReplicationPolicy, names: Mapping[str, str]) -> None:
        super().__init__(
            source_alias=policy.source_alias,
            separator=policy.separator,
            internal_separator=policy.internal_separator,
        )
        self._policy = policy
        self._names = dict(names)
        self._topics = {remote: topic for topic, remote in names.items()}

    def remote_topic(self, topic: str) -> str:
        """The explicit name, if it has one."""
        return self._names.get(topic) or self._policy.remote_topic(topic)

    def topic_source(self, topic: str) -> str | None:
        """The flow's source for an explicit name."""
        return self.source_alias if topic in self._topics else self._policy.topic_source(topic)

    def upstream_topic(self, topic: str) -> str | None:
        """The topic on the source that has this explicit name on the target."""
        return self._topics.get(topic) or self._policy.upstream_topic(topic)

    def history(self, topic: str) -> Iterator[str]:
        """Explicit names are on the target: one hop upstream, the other policy's names count."""
        if topic in self._topics:
            yield topic
        yield from self._policy.history(self._topics.get(topic, topic))

    def is_heartbeats_topic(self, topic: str) -> bool:
        """As in the other policy."""
        return self._policy.is_heartbeats_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """As in the other policy."""
        return self._policy.is_internal_topic(topic)

    def checkpoints_topic(self) -> str:
        """As in the other policy."""
        return self._policy.checkpoints_topic()

    def offset_syncs_topic(self, alias: str) -> str:
        """As in the other policy."""
        return self._policy.offset_syncs_topic(alias)

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """As in the other policy."""
        return self._policy.is_cycle(topic, target_alias)


class KeptNames(ReplicationPolicy):
    """Every topic keeps its name, and only Kafka's own are internal (``kafka.tools.MirrorMaker``).

    Unlike in ``IdentityReplicationPolicy``, no name has a meaning: ``device-heartbeats`` and
    ``__canary`` are topics like any other. Where a topic came from follows from the clusters' ids, not
    from its name.
    """

    def remote_topic(self, topic: str) -> str:
        """The same name."""
        return topic

    def topic_source(self, topic: str) -> str | None:
        """None: the name does not say."""
        del topic
        return None

    def upstream_topic(self, topic: str) -> str | None:
        """None: the name does not say."""
        del topic
        return None

    def is_heartbeats_topic(self, topic: str) -> bool:
        """False: MirrorMaker 1 had no heartbeats."""
        del topic
        return False

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it is one of Kafka's own."""
        return topic in KAFKAS_OWN


POLICIES: dict[str, type[ReplicationPolicy]] = {
    "DefaultReplicationPolicy": DefaultReplicationPolicy,
    "IdentityReplicationPolicy": IdentityReplicationPolicy,
}
# Two name suffixes that no policy treats in a special way.
_ENDS: Final = ("0", "z9")


def policy_of(flow: Flow) -> ReplicationPolicy:
    """The flow's replication policy, overridden by ``topics.rename``.

    A user's own class is imported here: when a flow is planned, never when its file is read.

    Raises:
        ConfigError: there is no such class, or it is not a replication policy.
    """
    own = "" if flow.replication_policy_internal_topic_separator_enabled else "."
    policy = _class(flow)
    try:
        made = policy(
            source_alias=flow.source.alias,
            separator=flow.replication_policy_separator,
            internal_separator=own,
        )
        made.configure(dict(flow.policy_settings))
    except (Exception, SystemExit) as error:
        name = flow.replication_policy_class
        raise _wrong(flow, f"{name} cannot be instantiated: {error!r}") from error
    return Renamed(made, flow.topics_rename) if flow.topics_rename else made


def remote_prefix(policy: ReplicationPolicy, prefix: str) -> str | None:
    """The prefix of the remote topics of topics that begin with ``prefix``; None where they have several."""
    begins = {
        name.removesuffix(end)
        for end in _ENDS
        if (name := policy.remote_topic(prefix + end)).endswith(end)
    }
    return begins.pop() if len(begins) == 1 else None


def _class(flow: Flow) -> type[ReplicationPolicy]:
    name = str(flow.replication_policy_class)
    known = POLICIES.get(name)
    if known:
        return known
    module_name, _, class_name = name.rpartition(".")
    check_module(flow.file, _KEY, name)
    try:
        module = import_module(module_name)
    # Also what a program does at its end, which would end this process: Airflow's API server, where a page is shown.
    except (Exception, SystemExit) as error:
        raise _wrong(flow, f"{module_name} cannot be imported: {error!r}") from error
    policy_class = getattr(module, class_name, None)
    if policy_class is None:
        raise _wrong(flow, f"{module_name} has no {class_name}")
    if not isinstance(policy_class, type) or not issubclass(policy_class, ReplicationPolicy):
        raise _wrong(flow, f"{name} is not a replication policy")
    return policy_class


def _wrong(flow: Flow, reason: str) -> ConfigError:
    return ConfigError(flow.file, _KEY, f"{reason}.", advice=_ADVICE)
