"""Every key of MirrorMaker 2 4.3.1, with its default there and what it means here.

Sources: ``MirrorMakerConfig``, ``MirrorSourceConfig``, ``MirrorCheckpointConfig``,
``MirrorHeartbeatConfig``, their filters, and ``DistributedConfig`` for the workers below them. The keys to
connect and log in are in ``property_names``. docs/reference/mirrormaker2.md is made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from kafka_ferry.config.client.property_names import CONNECTION_NAMES
from kafka_ferry.config.client.translate import KAFKA_PYTHON, LIBRDKAFKA
from kafka_ferry.config.files.mm1_keys import WITHOUT_MEANING
from kafka_ferry.config.types.problems import did_you_mean

State = Literal["supported", "no meaning here"]

_MIRROR: Final = "org.apache.kafka.connect.mirror."
_NONE: Final = "none"
_REQUIRED: Final = "required"


class Key(NamedTuple):
    """A key of MirrorMaker 2.

    Attributes:
        default: its default there, in the form of a properties file; for a worker's keys, the value that
            MirrorMaker 2 sets.
        state: its meaning here.
        why: why it has no meaning, what replaces it, or where it differs; empty where it does not.
    """

    default: str
    state: State
    why: str = ""


def _rows(state: State, groups: Mapping[str, Mapping[str, str]]) -> dict[str, Key]:
    return {
        name: Key(default, state, why)
        for why, keys in groups.items()
        for name, default in keys.items()
    }


_SUPPORTED: Final = {
    "": {
        "clusters": _REQUIRED,
        "topics": ".*",
        "replication.policy.class": f"{_MIRROR}DefaultReplicationPolicy",
        "replication.policy.separator": ".",
        "replication.policy.internal.topic.separator.enabled": "true",
        "replication.factor": "2",
        "sync.topic.configs.enabled": "true",
        "sync.topic.acls.enabled": "true",
        "admin.timeout.ms": "60000",
        "groups": ".*",
        "sync.group.offsets.enabled": "false",
        "emit.checkpoints.enabled": "true",
        "checkpoints.topic.replication.factor": "3",
        "emit.heartbeats.enabled": "true",
        "heartbeats.topic.replication.factor": "3",
        "offset-syncs.topic.location": "source",
        "offset-syncs.topic.replication.factor": "3",
    },
    "only for client properties of clusters; the deployment says what tasks may look up": {
        "config.providers": _NONE,
        "config.providers.*": _NONE,
    },
    "for all flows too, where MirrorMaker 2 reads it only after source->target": {
        "use.defaults.from": "target",
    },
    "as source->target.enabled; without a flow before it, for all flows, but for those that emit.heartbeats.enabled "
    "is false for, which MirrorMaker 2 does not start either": {"enabled": "false"},
    "for your own policy, which receives them in configure": {"replication.policy.*": _NONE},
    "by default, Kafka Ferry's own topics are left out too": {
        "topics.exclude": r"mm2.*\.internal, .*\.replica, __.*"
    },
    "Kafka Ferry's own groups are never moved": {
        "groups.exclude": "console-consumer-.*, connect-.*, __.*",
    },
    "false by default in YAML": {"heartbeats.replication.enabled": "true"},
    "false by default: the ledger has every offset, and nothing here reads offset syncs": {
        "emit.offset-syncs.enabled": "true",
    },
    "by default, message.timestamp.before.max.ms and message.timestamp.after.max.ms are left out too: "
    "MirrorMaker 2 means them, and names the brokers' settings": {
        "config.properties.exclude": "follower.replication.throttled.replicas, "
        "leader.replication.throttled.replicas, message.timestamp.difference.max.ms, "
        "log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, "
        "message.timestamp.type, unclean.leader.election.enable, min.insync.replicas",
    },
    "only with its default: another class would change what is copied, cannot run here, and is an "
    "error": {
        "topic.filter.class": f"{_MIRROR}DefaultTopicFilter",
        "config.property.filter.class": f"{_MIRROR}DefaultConfigPropertyFilter",
        "group.filter.class": f"{_MIRROR}DefaultGroupFilter",
        "forwarding.admin.class": "org.apache.kafka.clients.admin.ForwardingAdmin",
    },
    "only after source->target, as MirrorMaker 2 reads them; Filter, DropHeaders and InsertHeader become a rule of "
    "transform, others are an error": {
        "transforms": _NONE,
        "transforms.*": _NONE,
        "predicates": _NONE,
        "predicates.*": _NONE,
    },
}

_NO_WORKERS: Final = "there are no Connect workers"
_NO_REST: Final = "there is no REST server"

_NO_MEANING: Final = {
    "the aliases are those of source->target": {
        "source.cluster.alias": _REQUIRED,
        "target.cluster.alias": "target",
    },
    "each run reads all topics and groups; schedule says when runs start": {
        "refresh.topics.enabled": "true",
        "refresh.topics.interval.seconds": "600",
        "refresh.groups.enabled": "true",
        "refresh.groups.interval.seconds": "600",
    },
    "each run writes them; schedule says when runs start": {
        "emit.checkpoints.interval.seconds": "60",
        "emit.heartbeats.interval.seconds": "1",
    },
    "translation is exact, by the ledger's offset map": {"offset.lag.max": "100"},
    "each run syncs; schedule says when runs start": {
        "sync.group.offsets.interval.seconds": "60",
        "sync.topic.configs.interval.seconds": "600",
        "sync.topic.acls.interval.seconds": "600",
    },
    "a run copies up to the ends that its plan names, and waits for nothing": {
        "consumer.poll.timeout.ms": "1000",
    },
    "there is no JVM to ask: metrics.prometheus.dir, metrics.prometheus.push.url, Airflow's metrics and "
    "each run's report have them": {
        "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
        "auto.include.jmx.reporter": "true (to 3.9)",
    },
    "metrics have the names and tags of the legacy format": {"metric.names.formats": "legacy"},
    "a run is one sample": {
        "metrics.num.samples": "2",
        "metrics.sample.window.ms": "30000",
    },
    "metrics.detail says how fine metrics are": {"metrics.recording.level": "INFO"},
    "the source is always a tag": {"add.source.alias.to.metrics": "false (to 3.9)"},
    "writers says how many tasks copy at a time": {
        "tasks.max": "1",
        "tasks.max.enforce": "true",
    },
    "only the configs that differ are sent": {
        "use.incremental.alter.configs": "requested (to 3.9)"
    },
    "every copy is exactly once": {
        "exactly.once.source.support": "disabled",
        "exactly.once.support": "requested",
        "transaction.boundary": "poll",
        "transaction.boundary.interval.ms": _NONE,
    },
    "positions are committed together with the records": {
        "offset.flush.interval.ms": "60000",
        "offset.flush.timeout.ms": "5000",
        "offset.storage.*": "topic mm2-offsets.{source}.internal",
        "offsets.storage.topic": _NONE,
    },
    "a record is never opened": {
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "key.converter.*": _NONE,
        "value.converter.*": _NONE,
        "header.converter.*": _NONE,
    },
    "on.rejected.record decides about a record that the target rejects": {
        "errors.*": "errors.tolerance is none",
    },
    "remote topics are created with the source's partitions and configs": {
        "topic.creation.*": "topic.creation.enable is true",
    },
    "values are read again in each run": {"config.action.reload": "restart"},
    _NO_WORKERS: {
        "name": "the connector's",
        "connector.class": "the connector's",
        "connector.plugin.version": _NONE,
        "connector.client.config.override.policy": "All",
        "connect.protocol": "sessioned",
        "config.storage.*": "topic mm2-configs.{source}.internal",
        "status.storage.*": "topic mm2-status.{source}.internal",
        "group.id": "{source}-mm2",
        "heartbeat.interval.ms": "3000",
        "rebalance.timeout.ms": "60000",
        "session.timeout.ms": "10000",
        "scheduled.rebalance.max.delay.ms": "300000",
        "inter.worker.*": "HmacSHA256",
        "worker.*": "worker.sync.timeout.ms is 3000",
        "plugin.path": _NONE,
        "plugin.discovery": "hybrid_warn",
        "task.index": "a task's",
        "task.assigned.partitions": "a task's",
        "task.assigned.groups": "a task's",
        "task.shutdown.graceful.timeout.ms": "5000",
        "topic.tracking.*": "topic.tracking.enable is true",
        "security.providers": _NONE,
    },
    _NO_REST: {
        "dedicated.mode.enable.internal.rest": "false",
        "listeners": "http://:8083",
        "listeners.*": _NONE,
        "admin.listeners": _NONE,
        "admin.listeners.*": _NONE,
        "access.control.*": _NONE,
        "response.http.headers.config": _NONE,
        "rest.*": _NONE,
        "ssl.client.auth": "none",
    },
    "only MirrorMaker 2's workers read it there; a client's own properties begin with "
    "{alias}.consumer, {alias}.producer or {alias}.admin": {
        "client.id": "{source}->{target}",
        "client.dns.lookup": "use_all_dns_ips",
        "connections.max.idle.ms": "540000",
        "metadata.max.age.ms": "300000",
        "metadata.recovery.strategy": "rebootstrap",
        "metadata.recovery.rebootstrap.trigger.ms": "300000",
        "receive.buffer.bytes": "32768",
        "reconnect.backoff.ms": "50",
        "reconnect.backoff.max.ms": "1000",
        "request.timeout.ms": "40000",
        "retry.backoff.ms": "100",
        "retry.backoff.max.ms": "1000",
        "send.buffer.bytes": "131072",
        "socket.connection.setup.timeout.ms": "10000",
        "socket.connection.setup.timeout.max.ms": "30000",
        "consumer.override.*": _NONE,
        "admin.override.*": _NONE,
    },
}

KEYS: Final = {
    **_rows("supported", _SUPPORTED),
    **_rows("no meaning here", _NO_MEANING),
}
"""All keys except those to connect and log in; ``.*`` stands for any text after the dot."""

_PREFIXES: Final = {name.removesuffix("*"): key for name, key in KEYS.items() if name[-1] == "*"}

FIXED: Final = {
    name: KEYS[name].default
    for name in (
        "topic.filter.class",
        "config.property.filter.class",
        "group.filter.class",
        "forwarding.admin.class",
        "transforms",
    )
}
"""Keys that may only have their default value."""

_INSTEAD: Final = {
    "topic.filter.class": "Use topics and topics.exclude.",
    "config.property.filter.class": "Use config.properties.exclude and use.defaults.from.",
    "group.filter.class": "Leave it out.",
    "forwarding.admin.class": "Leave it out; the target's topics are changed as ferry plan shows.",
    "transforms": "Write what it does as rules under transform, in a YAML file (docs/transforms.md).",
}

REMOVED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Removed in MirrorMaker 2 4.0, which copies what the list was to leave out."""


_PASSED_ON: Final = CONNECTION_NAMES | LIBRDKAFKA.keys() | {*KAFKA_PYTHON}
# ConsumerConfig, ProducerConfig and AdminClientConfig of 4.3.1 have these too.
_LEFT_OUT: Final = frozenset(
    {
        "bootstrap.controllers",
        "config.providers",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "metadata.recovery.rebootstrap.trigger.ms",
        "security.providers",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "transaction.two.phase.commit.enable",
    }
)
_KNOWN_TO_CLIENTS: Final = sorted(_PASSED_ON | _LEFT_OUT | WITHOUT_MEANING.keys())


def why_ignored(name: str) -> str | None:
    """Why an option of MirrorMaker 2 has no effect here; None for any other name."""
    key = KEYS.get(name) or next(
        (key for prefix, key in _PREFIXES.items() if name.startswith(prefix)), None
    )
    return None if key is None or key.state == "supported" else key.why


def why_client_ignores(name: str) -> str | None:
    """Why a property of one kind of client has no effect here; None where it is passed on."""
    if name in WITHOUT_MEANING:
        return WITHOUT_MEANING[name]
    if name in _PASSED_ON:
        return None
    if name in _LEFT_OUT:
        return "no client here has such a setting"
    return f"no Kafka client knows it. {did_you_mean(name, _KNOWN_TO_CLIENTS)}".rstrip()


def why_not(name: str, value: str) -> tuple[str, str] | None:
    """What is wrong with a key that may only have its default, and what to do; None where nothing is."""
    default = FIXED[name]
    if name == "transforms":
        return (f"{value!r} cannot run here", _INSTEAD[name]) if value.strip() else None
    if value in (default, default.rpartition(".")[2]):
        return None
    return f"{value!r} cannot run here, only {default} can", _INSTEAD[name]
