"""The kinds of clients, and the Java properties by which they connect and log in."""

from __future__ import annotations

from typing import Final, Literal

Role = Literal["consumer", "producer", "admin"]
"""The three kinds of Kafka clients that can be configured separately."""

ROLES: Final[tuple[Role, ...]] = ("consumer", "producer", "admin")
ROLE_PREFIXES: Final = tuple(f"{role}." for role in ROLES)


def without_role(name: str) -> str:
    """A property's name without the kind of client before it."""
    return name.removeprefix(next(filter(name.startswith, ROLE_PREFIXES), ""))


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

AIRFLOW_CONNECTION: Final = "airflow.connection"
"""Our own property of a cluster: the Airflow connection to use instead."""

REGISTRY_PREFIX: Final = "schema.registry."
"""What a cluster's properties of its schema registry begin with."""

# Those of confluent-kafka's client, and what files hold as text, by librdkafka's names.
REGISTRY_NAMES: Final = frozenset(
    REGISTRY_PREFIX + name
    for name in [
        "url",
        "proxy",
        "timeout",
        "basic.auth.user.info",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.credentials.source",
        "bearer.auth.identity.pool.id",
        "bearer.auth.issuer.endpoint.url",
        "bearer.auth.logical.cluster",
        "bearer.auth.scope",
        "bearer.auth.token",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    ]
)
"""All of these."""

CLUSTER_NAMES: Final = CONNECTION_NAMES | REGISTRY_NAMES | {AIRFLOW_CONNECTION}
"""A cluster's properties other than those of a single kind of client."""

OAUTH_NAMES: Final = _table(
    """
    sasl.client.callback.handler.class
    sasl.login.callback.handler.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    """
)
"""The connection properties that only a login with OAUTHBEARER or AWS_MSK_IAM reads."""

_OF_JAVA: Final = "it names a Java class or provider, which cannot run here"
_OF_KERBEROS: Final = "MIT Kerberos takes new tickets for a key tab when half of their life is over"
_KERBEROS_NAMES: Final = _table("sasl.kerberos.service.name")
_OF_BROKERS: Final = "brokers check tokens; a client passes them on"
_ON_DEMAND: Final = "tokens are renewed when a connection needs one"

IGNORED_CONNECTION_NAMES: Final = {
    **dict.fromkeys(
        _table(
            """
            ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider
            ssl.secure.random.implementation ssl.trustmanager.algorithm
            sasl.login.class
            """
        ),
        _OF_JAVA,
    ),
    **{
        name: why
        for prefix, why in {
            "sasl.kerberos.": _OF_KERBEROS,
            "sasl.oauthbearer.": _OF_BROKERS,
            "sasl.login.refresh.min.period.seconds": _ON_DEMAND,
        }.items()
        for name in CONNECTION_NAMES - OAUTH_NAMES - _KERBEROS_NAMES
        if name.startswith(prefix)
    },
}
"""The connection properties without effect here, each with the reason."""
