"""The names that MirrorMaker 2 4.3.1 knows, sorted by what they mean here."""

from __future__ import annotations

from typing import Final, Literal

Role = Literal["consumer", "producer", "admin"]
"""The three kinds of Kafka clients that can be configured apart."""

ROLES: Final[tuple[Role, ...]] = ("consumer", "producer", "admin")
ROLE_PREFIXES: Final = tuple(f"{role}." for role in ROLES)


def _table(names: str) -> frozenset[str]:
    return frozenset(names.split())


# ConfigDef.withClientSslSupport, withClientSaslSupport and MirrorClientConfig.CLIENT_CONFIG_DEF.
CONNECTION_NAMES: Final = _table(
    """
    bootstrap.servers security.protocol
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url
    """
)
"""What a cluster's clients share: where the cluster is and how to log in to it."""

# The connectors' options, then those of the Connect workers and connectors around them.
WITHOUT_EFFECT: Final = _table(
    """
    source.cluster.alias target.cluster.alias replication.policy.internal.topic.separator.enabled
    admin.timeout.ms forwarding.admin.class metric.reporters metric.names.formats
    offset-syncs.topic.location offset-syncs.topic.replication.factor emit.offset-syncs.enabled
    topic.filter.class config.properties.exclude config.property.filter.class use.defaults.from
    offset.lag.max consumer.poll.timeout.ms
    refresh.topics.enabled refresh.topics.interval.seconds
    sync.topic.configs.enabled sync.topic.configs.interval.seconds
    sync.topic.acls.enabled sync.topic.acls.interval.seconds
    heartbeats.replication.enabled use.incremental.alter.configs add.source.alias.to.metrics
    groups groups.exclude group.filter.class
    refresh.groups.enabled refresh.groups.interval.seconds
    emit.checkpoints.enabled emit.checkpoints.interval.seconds
    sync.group.offsets.enabled sync.group.offsets.interval.seconds
    checkpoints.topic.replication.factor
    emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
    task.index task.assigned.partitions task.assigned.groups

    dedicated.mode.enable.internal.rest config.providers listeners admin.listeners
    response.http.headers.config name connector.class tasks.max tasks.max.enforce
    config.action.reload transforms predicates header.converter key.converter value.converter
    connect.protocol connector.client.config.override.policy exactly.once.source.support
    exactly.once.support transaction.boundary transaction.boundary.interval.ms
    offsets.storage.topic offset.flush.interval.ms offset.flush.timeout.ms
    plugin.path plugin.discovery scheduled.rebalance.max.delay.ms
    task.shutdown.graceful.timeout.ms
    client.id client.dns.lookup connections.max.idle.ms group.id heartbeat.interval.ms
    metadata.max.age.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    rebalance.timeout.ms receive.buffer.bytes reconnect.backoff.ms reconnect.backoff.max.ms
    request.timeout.ms retry.backoff.ms retry.backoff.max.ms security.providers
    send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.ms
    socket.connection.setup.timeout.max.ms
    """
)
"""MirrorMaker 2's options that change nothing here; a flow lists those its file sets."""

_WITHOUT_EFFECT_PREFIXES: Final = (
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "header.converter.",
    "key.converter.",
    "value.converter.",
    "transforms.",
    "predicates.",
    "errors.",
    "topic.creation.",
    "topic.tracking.",
    "inter.worker.",
    "worker.",
    "rest.",
    "access.control.",
    "admin.listeners.",
    "listeners.",
    "consumer.override.",
    "admin.override.",
)

REMOVED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Gone since MirrorMaker 2 4.0, which then copies what the list was meant to leave out."""


def is_without_effect(name: str) -> bool:
    """Whether MirrorMaker 2 knows the option and Kafka Ferry has no use for it."""
    return name in WITHOUT_EFFECT or name.startswith(_WITHOUT_EFFECT_PREFIXES)
