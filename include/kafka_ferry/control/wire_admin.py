"""An admin client over the data plane's connections, for logins that librdkafka lacks.

It answers as confluent-kafka's ``AdminClient`` does, as far as the control plane asks it. librdkafka has no
delegation tokens. The packages of confluent-kafka come without GSSAPI; and with it, librdkafka would take the
tickets of the whole process, where a flow has two principals. kafka-python's own admin client takes those too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.wire import WireCluster, borrow
from kafka_ferry.wire.any_broker import TooOld, ask
from kafka_ferry.wire.partition_leader import topic_id_text

# Later versions no longer say what the principal may do on the cluster.
_WITH_OPERATIONS: Final = 10
_NewTopic = CreateTopicsRequest.CreatableTopic
_Replicas = _NewTopic.CreatableReplicaAssignment
_NewConfig = _NewTopic.CreatableTopicConfig
_More = CreatePartitionsRequest.CreatePartitionsTopic
_Described = DescribeConfigsRequest.DescribeConfigsResource
_Altered = IncrementalAlterConfigsRequest.AlterConfigsResource
_Futures = dict[Any, "Future[Any]"]


class WireAdmin:
    """The methods of confluent-kafka's ``AdminClient`` that Kafka Ferry calls; their futures are done.

    Args:
        alias: the cluster's name in messages.
        settings: kafka-python's configuration names.

    Errors of a topic are in its future; every method raises ``ClusterUnreachable`` if no broker answers,
    and ``AccessDenied`` if the cluster refuses the login.
    """

    def __init__(self, alias: str, settings: Mapping[str, Any]) -> None:
        self._alias, self._settings = alias, settings

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, request_timeout: float = 0
    ) -> Future[Any]:
        """The cluster's id, its brokers, and what the principal may do on it."""
        answer = self._metadata([], operations=include_authorized_operations)
        # kafka-python gives the bits as numbers.
        may = answer.authorized_operations if include_authorized_operations else ()
        return _as_future(
            SimpleNamespace(
                cluster_id=answer.cluster_id,
                nodes=[SimpleNamespace(id=it.node_id, rack=it.rack) for it in answer.brokers],
                authorized_operations=[it for it in AclOperation if it.value in may],
            )
        )

    def list_topics(self, timeout: float = 0) -> Any:
        """The topics that the principal may see."""
        return SimpleNamespace(topics={topic.name: topic for topic in self._metadata(None).topics})

    def describe_topics(self, topics: TopicCollection, *, request_timeout: float = 0) -> _Futures:
        """Ids and replicas of topics."""
        futures = {
            topic.name: _future(
                topic.error_code,
                "",
                SimpleNamespace(
                    topic_id=topic_id_text(topic.topic_id),
                    partitions=[
                        SimpleNamespace(
                            id=partition.partition_index,
                            replicas=[SimpleNamespace(id=node) for node in partition.replica_nodes],
                        )
                        for partition in topic.partitions
                    ],
                ),
            )
            for topic in self._metadata(topics.topic_names).topics
        }
        return self._of_all(topics.topic_names, futures)

    def describe_configs(
        self, resources: Sequence[ConfigResource], *, request_timeout: float = 0
    ) -> _Futures:
        """The configs of topics."""
        by_name = {resource.name: resource for resource in resources}
        requested = [
            _Described(
                resource_type=resource.restype.value, resource_name=name, configuration_keys=None
            )
            for name, resource in by_name.items()
        ]
        with self._connect() as wire:
            results = wire.ask_any(
                lambda: DescribeConfigsRequest(
                    resources=requested, include_synonyms=False, include_documentation=False
                )
            ).results
        futures = {
            result.resource_name: _future(
                result.error_code,
                result.error_message,
                {entry.name: _config_entry(entry) for entry in result.configs},
            )
            for result in results
        }
        return {by_name[name]: it for name, it in self._of_all(by_name, futures).items()}

    def incremental_alter_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        request_timeout: float = 0,
        validate_only: bool = False,
    ) -> _Futures:
        """Set and delete configs of topics."""
        by_name = {resource.name: resource for resource in resources}
        altered = [
            _Altered(
                resource_type=resource.restype.value,
                resource_name=name,
                configs=[
                    _Altered.AlterableConfig(
                        name=it.name,
                        config_operation=it.incremental_operation.value,
                        value=it.value,
                    )
                    for it in resource.incremental_configs
                ],
            )
            for name, resource in by_name.items()
        ]
        try:
            answer = self._change(
                IncrementalAlterConfigsRequest(resources=altered, validate_only=validate_only)
            )
        except TooOld:
            return {it: _future(KafkaError.UNSUPPORTED_VERSION) for it in resources}
        futures = {
            it.resource_name: _future(it.error_code, it.error_message) for it in answer.responses
        }
        return {by_name[name]: it for name, it in self._of_all(by_name, futures).items()}

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        operation_timeout: float,
        request_timeout: float = 0,
        validate_only: bool = False,
    ) -> _Futures:
        """Create topics."""
        new_topics = [
            _NewTopic(
                name=topic.topic,
                # With an assignment, neither number may be given.
                num_partitions=-1 if topic.replica_assignment else topic.num_partitions,
                replication_factor=-1 if topic.replica_assignment else topic.replication_factor,
                assignments=[
                    _Replicas(partition_index=number, broker_ids=brokers)
                    for number, brokers in enumerate(topic.replica_assignment or ())
                ],
                configs=[
                    _NewConfig(name=name, value=value) for name, value in topic.config.items()
                ],
            )
            for topic in topics
        ]
        answer = self._change(
            CreateTopicsRequest(
                topics=new_topics, timeout_ms=_ms(operation_timeout), validate_only=validate_only
            )
        )
        return self._of_all([topic.topic for topic in topics], _by_name(answer.topics))

    def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        operation_timeout: float,
        request_timeout: float = 0,
    ) -> _Futures:
        """Add partitions to topics."""
        additions = [
            _More(
                name=topic.topic,
                count=topic.new_total_count,
                assignments=topic.replica_assignment
                and [
                    _More.CreatePartitionsAssignment(broker_ids=brokers)
                    for brokers in topic.replica_assignment
                ],
            )
            for topic in topics
        ]
        request = CreatePartitionsRequest(
            topics=additions, timeout_ms=_ms(operation_timeout), validate_only=False
        )
        try:
            answer = self._change(request)
        except TooOld:
            return {topic.topic: _future(KafkaError.UNSUPPORTED_VERSION) for topic in topics}
        return self._of_all([topic.topic for topic in topics], _by_name(answer.results))

    def delete_topics(
        self, topics: Sequence[str], *, operation_timeout: float, request_timeout: float = 0
    ) -> _Futures:
        """Delete topics."""
        answer = self._change(
            DeleteTopicsRequest(topic_names=list(topics), timeout_ms=_ms(operation_timeout))
        )
        return self._of_all(topics, _by_name(answer.responses))

    def _of_all(self, names: Iterable[str], futures: _Futures) -> _Futures:
        """What was answered for ``names``, and for no other one.

        Raises:
            ClusterUnreachable: if one has no answer, which says neither that it was changed nor that it is gone.
        """
        names = list(names)
        for name in names:
            if name not in futures:
                raise ClusterUnreachable(f"{self._alias} did not answer for {name}.")
        return {name: futures[name] for name in names}

    def _metadata(self, topics: Iterable[str] | None, *, operations: bool = False) -> Any:
        entries = topics and [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]

        def request() -> Any:
            return MetadataRequest(
                topics=entries,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=operations,
                include_topic_authorized_operations=False,
            )

        with self._connect() as wire:
            return wire.ask_any(request, newest=_WITH_OPERATIONS if operations else None)

    def _change(self, request: Any) -> Any:
        with self._connect() as wire:
            return ask(wire, request, of_controller=True)

    def _connect(self) -> AbstractContextManager[WireCluster]:
        return borrow(self._alias, self._settings)


def _future(code: int, message: str | None = None, result: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    if code:
        error = KafkaError(code, message) if message else KafkaError(code)
        future.set_exception(KafkaException(error))
    else:
        future.set_result(result)
    return future


def _as_future(result: Any) -> Future[Any]:
    return _future(0, result=result)


def _by_name(answers: Iterable[Any]) -> _Futures:
    return {answer.name: _future(answer.error_code, answer.error_message) for answer in answers}


def _config_entry(entry: Any) -> Any:
    source = max(entry.config_source, ConfigSource.UNKNOWN_CONFIG.value)
    return SimpleNamespace(
        name=entry.name,
        value=entry.value,
        source=source,
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        is_default=entry.is_default or source == ConfigSource.DEFAULT_CONFIG.value,
    )


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
