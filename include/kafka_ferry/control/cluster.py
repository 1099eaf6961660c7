"""The control plane's border: topics, configs, log bounds and group offsets, through confluent-kafka."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, ResourceType

from kafka_ferry.batched import batched
from kafka_ferry.config import Cluster, IsolationLevelName
from kafka_ferry.control.admin import admin_client, admin_config, forget_clients
from kafka_ferry.control.client_errors import as_ours
from kafka_ferry.control.log_bounds import read_log_bounds
from kafka_ferry.control.portions import ask_in_portions
from kafka_ferry.control.replica_assignment import racks_of, replicas_of, to_create, to_grow
from kafka_ferry.control.topic_configs import to_alter, with_configs
from kafka_ferry.control.wire_admin import WireAdmin
from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.cluster_state import LogBounds, Topic
from kafka_ferry.model.plan import Creation, Growth
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.retry import at_most, retry_calls
from kafka_ferry.wire import connect
from kafka_ferry.wire.groups.groups import list_groups

_TIMEOUT_S: Final = 15.0
_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
# Limits a request to so many topics, so that no answer gets too large.
_TOPICS_AT_ONCE: Final = 500
# What librdkafka gives for topics of brokers before 2.8, which have no ids.
_NO_TOPIC_ID: Final = "A" * 22


def _timeouts() -> dict[str, float]:
    """How long a controller may take for a change, and the request until it is answered."""
    return dict.fromkeys(("operation_timeout", "request_timeout"), at_most(_TIMEOUT_S))


class ClusterControl:
    """Reads and changes a cluster's metadata; never its records.

    Args:
        cluster: the cluster from the flow's config.

    Every method that only reads retries for a minute. Every method raises ``ClusterUnreachable`` if no
    broker answers in time, ``AccessDenied`` without permission, and ``BrokerError`` for any other error
    of a broker.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.alias = cluster.alias
        self._cluster = cluster

    @cached_property
    def _config(self) -> dict[str, Any]:
        return admin_config(self._cluster)

    @property
    def _admin(self) -> AdminClient | WireAdmin:
        return admin_client(self._cluster, self._config)

    @retry_calls
    def cluster_id(self) -> str:
        """The cluster's id, which two aliases of one cluster share."""
        with self._errors("reading the cluster's id"):
            return str(
                self._admin.describe_cluster(request_timeout=at_most(_TIMEOUT_S))
                .result()
                .cluster_id
            )

    def brokers(self) -> int:
        """How many brokers the cluster has now."""
        return len(self.racks())

    @retry_calls
    def racks(self) -> dict[int, str]:
        """The rack of each broker that is alive, "" for one without (``broker.rack``)."""
        with self._errors("listing brokers"):
            cluster = self._admin.describe_cluster(request_timeout=at_most(_TIMEOUT_S)).result()
        return racks_of(cluster.nodes)

    @retry_calls
    def topic_names(self) -> list[str]:
        """All topics that the principal may see."""
        with self._errors("listing topics"):
            return sorted(self._admin.list_topics(timeout=at_most(_TIMEOUT_S)).topics)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of ``names`` that exist, with their ids and configs."""
        topics, refused = self.readable_topics(names)
        _raise_first(refused)
        return topics

    @retry_calls
    def readable_topics(
        self, names: Iterable[str], *, partitions_max: float = math.inf
    ) -> tuple[dict[str, Topic], dict[str, FerryError]]:
        """The topics that the cluster describes; and for each one that it refuses to describe, the error.

        With more partitions together than ``partitions_max``, the rest of the topics is left out.
        """
        topics: dict[str, Topic] = {}
        refused: dict[str, FerryError] = {}
        for some in batched(sorted(names), _TOPICS_AT_ONCE):
            # Over a long link each answer counts: neither waits for the other's.
            futures = self._ask_configs(some)
            described, unseen = self._describe(some)
            configs, unread = self._configs(futures)
            refused |= unread | unseen
            for name, (topic_id, replicas) in described.items():
                if name in refused:
                    continue
                if name not in configs:
                    raise ClusterUnreachable(f"{self.alias} does not know {name} everywhere yet.")
                topic = Topic(name, topic_id, len(replicas), replicas=replicas)
                try:
                    topics[name] = with_configs(topic, configs[name])
                except FerryError as error:
                    refused[name] = error
            if sum(topic.partitions for topic in topics.values()) > partitions_max:
                break
        return topics, refused

    @retry_calls
    def topic_ids(
        self, names: Iterable[str], *, wait_for: Container[str] = (), only_visible: bool = False
    ) -> dict[str, str]:
        """The ids of those topics of ``names`` that exist.

        Args:
            names: names of topics.
            wait_for: those of them that were just created: brokers learn of them a moment later.
            only_visible: whether to leave out those that may not be described, instead of an error.
        """
        ids = {}
        for some in batched(sorted(names), _TOPICS_AT_ONCE):
            described, refused = self._describe(some)
            _raise_first({} if only_visible else refused)
            ids.update({name: topic_id for name, (topic_id, _) in described.items()})
            unknown = [name for name in some if name in wait_for and name not in described]
            if unknown:
                created = ", ".join(unknown)
                raise ClusterUnreachable(f"{self.alias} does not know {created} yet.")
        return ids

    def log_bounds(
        self,
        topics: Iterable[Topic],
        isolation: IsolationLevelName,
        *,
        wait_s: float = 0.0,
    ) -> dict[TopicPartition, LogBounds]:
        """What a consumer with that isolation level can read of the partitions of ``topics``.

        A partition that still has no leader after ``wait_s`` seconds is absent.
        """
        missing = [
            TopicPartition(topic.name, n) for topic in topics for n in range(topic.partitions)
        ]
        bounds, doubted = self._log_bounds(missing, isolation)
        unknown = set[TopicPartition]()
        deadline = time.monotonic() + wait_s
        pause = _PAUSE_S
        # A topic that brokers do not know is deleted, and there is nothing to wait for; but one that begins to lead a
        # partition may say so too, and it is asked again.
        while missing := [tp for tp in missing if tp not in bounds and tp not in unknown]:
            new_bounds, now_unknown = self._log_bounds(missing, isolation, afresh=True)
            bounds |= new_bounds
            unknown, doubted = doubted & now_unknown, doubted | now_unknown
            if time.monotonic() >= deadline:
                break
            time.sleep(0 if new_bounds else pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return bounds

    @retry_calls
    def _log_bounds(
        self,
        partitions: list[TopicPartition],
        isolation: IsolationLevelName,
        *,
        afresh: bool = False,
    ) -> tuple[dict[TopicPartition, LogBounds], set[TopicPartition]]:
        return read_log_bounds(self._cluster, partitions, isolation, afresh=afresh)

    def create_topics(
        self,
        creations: Iterable[Creation],
        *,
        validate_only: bool = False,
        must_be_new: Container[str] = (),
    ) -> dict[str, FerryError]:
        """Create topics with their final configs; existing topics stay unchanged.

        Args:
            creations: the topics.
            validate_only: whether only to ask if they could be created.
            must_be_new: the topics of which it is an error that they exist before the first request.

        Returns:
            An error for each topic that could not be created.
        """
        by_name = {creation.remote_topic: creation for creation in creations}
        unanswered: set[str] = set()

        def create(some: list[str]) -> dict[str, FerryError]:
            topics = [to_create(by_name[name]) for name in some]
            new = {name for name in some if name in must_be_new} - unanswered
            # Where no answer comes, the topic may have been created all the same.
            unanswered.update(some)
            futures = self._admin.create_topics(topics, **_timeouts(), validate_only=validate_only)
            errors = self._each("creating", "CREATE", futures)
            return {
                name: error
                for name, error in errors.items()
                if name in new or not exists_already(error)
            }

        records = {
            name: 1 + topic.partitions + len(topic.configs) for name, topic in by_name.items()
        }
        return ask_in_portions(records, create)

    def grow_topics(self, growths: Sequence[Growth]) -> dict[str, FerryError]:
        """Give topics more partitions; those that have them already stay unchanged.

        Returns:
            An error for each topic that could not grow.
        """
        by_name = {growth.remote_topic: growth for growth in growths}

        def grow(some: list[str]) -> dict[str, FerryError]:
            lacking = to_grow((by_name[name] for name in some), self.topics(some))
            if not lacking:
                return {}
            futures = self._admin.create_partitions(lacking, **_timeouts())
            return self._each("adding partitions to", "ALTER", futures)

        return ask_in_portions({name: topic.partitions for name, topic in by_name.items()}, grow)

    def alter_configs(
        self, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[str, FerryError]:
        """Set and unset configs of topics; for each topic all of them, or none.

        Args:
            changes: by topic's name.
            validate_only: whether only to ask if they could be set.

        Returns:
            An error for each topic whose configs could not be changed.
        """

        def alter(some: list[str]) -> dict[str, FerryError]:
            resources = [to_alter(name, changes[name]) for name in some]
            futures = self._admin.incremental_alter_configs(
                resources, request_timeout=at_most(_TIMEOUT_S), validate_only=validate_only
            )
            by_name = {resource.name: future for resource, future in futures.items()}
            return self._each("changing the configs of", "ALTER_CONFIGS", by_name)

        return ask_in_portions({name: len(changes[name]) for name in sorted(changes)}, alter)

    @retry_calls
    def unknown(self, names: Iterable[str]) -> set[str]:
        """The topics of ``names`` that the cluster says it does not have.

        Those that the principal may not see are not among them: for a topic that is requested by name,
        brokers say whether it does not exist or may not be seen.
        """
        unknown = set()
        for some in batched(sorted(names), _TOPICS_AT_ONCE):
            errors = self._each("describing", "READ", self._ask_topics(some))
            for name, error in errors.items():
                if _is_unknown(error):
                    unknown.add(name)
                elif not isinstance(error, AccessDenied):
                    raise error
        return unknown

    def hidden(self, names: Iterable[str], listed: Collection[str]) -> set[str]:
        """The topics of ``names`` of which the cluster does not tell whether it has them.

        Args:
            names: the topics.
            listed: those that the cluster lists; it silently omits what the principal may not see.
        """
        lacking = set(names).difference(listed)
        return lacking - self.unknown(lacking)

    @retry_calls
    def all_group_names(self) -> list[str]:
        """The names of all consumer groups.

        Raises:
            AccessDenied: also without DESCRIBE on the cluster, where brokers silently leave out the
                groups that the principal may not see.
        """
        with self._errors("reading the permissions on the cluster"):
            described = self._admin.describe_cluster(
                include_authorized_operations=True, request_timeout=at_most(_TIMEOUT_S)
            ).result()
        if AclOperation.DESCRIBE not in (described.authorized_operations or ()):
            raise AccessDenied(
                f"{self.alias} does not let all groups be seen.",
                advice=how_to_grant(Right.cluster("DESCRIBE")),
            )
        return self.group_names()

    @retry_calls
    def group_names(self) -> list[str]:
        """The names of the consumer groups that the principal may see.

        Over the data plane's connections: librdkafka ends its process where there are more than 100,000.

        Raises:
            IncompleteListing: if some are with no broker.
        """
        with connect(self._cluster, "admin") as wire:
            groups = list_groups(wire)
        return sorted(it.name for it in groups if it.protocol in ("consumer", ""))

    def delete_topics(self, topic_ids: Mapping[str, str]) -> dict[str, FerryError]:
        """Delete topics, each only if it still has the given id; needs DELETE on them.

        Returns:
            An error for each topic that could not be deleted; the others are gone.
        """

        def delete(some: list[str]) -> dict[str, FerryError]:
            known = self.topic_ids(some)
            existing = [name for name in some if known.get(name) == topic_ids[name]]
            if not existing:
                return {}
            futures = self._admin.delete_topics(existing, **_timeouts())
            return self._each("deleting", "DELETE", futures, done=KafkaError.UNKNOWN_TOPIC_OR_PART)

        errors = ask_in_portions(dict.fromkeys(topic_ids, 1), delete)
        self._await_deletion({name: id_ for name, id_ in topic_ids.items() if name not in errors})
        return errors

    @retry_calls
    def _await_deletion(self, topic_ids: Mapping[str, str]) -> None:
        """Brokers learn of a deletion a moment later."""
        left = dict(topic_ids.items() & self.topic_ids(topic_ids).items())
        if left:
            raise ClusterUnreachable(f"{self.alias} still knows {', '.join(sorted(left))}.")

    def _describe(
        self, names: Sequence[str]
    ) -> tuple[dict[str, tuple[str, tuple[tuple[int, ...], ...]]], dict[str, FerryError]]:
        """The id of each topic, and each partition's replicas; and errors as of ``_answers_of_existing``."""
        futures = self._ask_topics(names)
        topics, refused = self._answers_of_existing("describing the topic", "READ", futures)
        described = {}
        for name, topic in topics.items():
            # librdkafka prints ids in plain base64, Kafka in the URL-safe alphabet.
            topic_id = str(topic.topic_id).translate(str.maketrans("+/", "-_"))
            topic_id = "" if topic_id == _NO_TOPIC_ID else topic_id
            described[name] = (topic_id, replicas_of(topic.partitions))
        return described, refused

    def _ask_topics(self, names: Iterable[str]) -> Mapping[str, Future[Any]]:
        with self._errors("describing topics"):
            futures: Mapping[str, Future[Any]] = self._admin.describe_topics(
                TopicCollection(list(names)), request_timeout=at_most(_TIMEOUT_S)
            )
        return futures

    def _ask_configs(self, names: Iterable[str]) -> Mapping[ConfigResource, Future[Any]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        with self._errors("reading the configs of topics"):
            futures: Mapping[ConfigResource, Future[Any]] = self._admin.describe_configs(
                resources, request_timeout=at_most(_TIMEOUT_S)
            )
        return futures

    def _configs(
        self, by_resource: Mapping[ConfigResource, Future[Any]]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, FerryError]]:
        """The configs of those topics that the broker knows; and errors, as ``_answers_of_existing``."""
        futures = {resource.name: future for resource, future in by_resource.items()}
        return self._answers_of_existing(
            "reading the configs of the topic", "DESCRIBE_CONFIGS", futures
        )

    def _answers_of_existing(
        self, doing: str, operation: str, futures: Mapping[str, Future[Any]]
    ) -> tuple[dict[str, Any], dict[str, FerryError]]:
        """The answers about topics that exist; and by topic, an error that a retry does not help against."""
        answers: dict[str, Any] = {}
        refused: dict[str, FerryError] = {}
        for name, future in futures.items():
            try:
                with self._errors(f"{doing} {name}", Right.topic(operation, name)):
                    answers[name] = future.result()
            except FerryError as error:
                if _is_unknown(error):
                    continue
                if error.transient:
                    raise
                refused[name] = error
        return answers, refused

    def _each(
        self,
        doing: str,
        operation: str,
        futures: Mapping[str, Future[object]],
        *,
        done: int | None = None,
    ) -> dict[str, FerryError]:
        """Wait for all futures; each needs a right to ``operation`` on its topic.

        ``done`` is the error code that means that nothing was to be done, if there is one.
        """
        errors: dict[str, FerryError] = {}
        for name, future in futures.items():
            try:
                with self._errors(f"{doing} the topic {name}", Right.topic(operation, name)):
                    future.result()
            except FerryError as error:
                if not (isinstance(error, BrokerError) and error.code == done):
                    errors[name] = error
        return errors

    @contextmanager
    def _errors(self, doing: str, *needed: Right) -> Iterator[None]:
        try:
            with as_ours(self.alias, doing, *needed):
                yield
        except ClusterUnreachable:
            forget_clients()
            raise


def exists_already(error: FerryError) -> bool:
    """Whether a topic was not created because it exists."""
    return isinstance(error, BrokerError) and error.code == KafkaError.TOPIC_ALREADY_EXISTS


def _is_unknown(error: FerryError) -> bool:
    """Whether a broker says that there is no such topic."""
    return isinstance(error, BrokerError) and error.code == KafkaError.UNKNOWN_TOPIC_OR_PART


def _raise_first(refused: Mapping[str, FerryError]) -> None:
    for error in refused.values():
        raise error
