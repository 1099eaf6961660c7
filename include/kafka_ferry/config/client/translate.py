"""Java client properties, translated for the two Kafka clients.

Users write the properties of the Java client and MirrorMaker 2. Only this module translates them to
those of librdkafka (confluent-kafka, the control plane) or kafka-python (the data plane). The results
hold passwords: pass them to a client and to nothing else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.config.client.jaas import (
    GSSAPI,
    OAUTHBEARER,
    TOKEN_AUTH,
    credentials,
    is_delegation_token,
)
from kafka_ferry.config.client.kerberos import (
    KERBEROS_LOGIN,
    SERVICE_NAME,
    is_kerberos,
    kerberos_login,
)
from kafka_ferry.config.client.oauth import OAUTH_LOGIN, is_oauth, oauth_login
from kafka_ferry.config.client.property_names import (
    CONNECTION_NAMES,
    IGNORED_CONNECTION_NAMES,
    OAUTH_NAMES,
    Role,
)
from kafka_ferry.config.client.tls import kafka_python_tls, librdkafka_tls, not_for_librdkafka
from kafka_ferry.errors import ConfigError

_LOG: Final = logging.getLogger(__name__)
_UNNAMED: Final = "client properties"

_ALL: Final[tuple[Role, ...]] = ("consumer", "producer", "admin")
_C: Final[tuple[Role, ...]] = ("consumer",)
_P: Final[tuple[Role, ...]] = ("producer",)
_DAY_MS: Final = 86_400_000


class Setting(NamedTuple):
    """A Java property's name in librdkafka, the clients that read it, and its limits there."""

    name: str
    roles: tuple[Role, ...] = _ALL
    low: int | None = None
    high: int | None = None


# Limits: librdkafka's CONFIGURATION.md, where they are narrower than the Java client's.
LIBRDKAFKA: Final[dict[str, Setting]] = {
    "bootstrap.servers": Setting("bootstrap.servers"),
    "security.protocol": Setting("security.protocol"),
    "client.id": Setting("client.id"),
    "client.rack": Setting("client.rack"),
    "client.dns.lookup": Setting("client.dns.lookup"),
    "connections.max.idle.ms": Setting("connections.max.idle.ms", _ALL, 0),
    "enable.metrics.push": Setting("enable.metrics.push"),
    "metadata.max.age.ms": Setting("metadata.max.age.ms", _ALL, 1, _DAY_MS),
    "metadata.recovery.strategy": Setting("metadata.recovery.strategy"),
    "receive.buffer.bytes": Setting("socket.receive.buffer.bytes", _ALL, 0, 100_000_000),
    "reconnect.backoff.max.ms": Setting("reconnect.backoff.max.ms", _ALL, 0, 3_600_000),
    "reconnect.backoff.ms": Setting("reconnect.backoff.ms", _ALL, 0, 3_600_000),
    "request.timeout.ms": Setting("socket.timeout.ms", _ALL, 10, 300_000),
    "retry.backoff.max.ms": Setting("retry.backoff.max.ms", _ALL, 1, 300_000),
    "retry.backoff.ms": Setting("retry.backoff.ms", _ALL, 1, 300_000),
    "send.buffer.bytes": Setting("socket.send.buffer.bytes", _ALL, 0, 100_000_000),
    "socket.connection.setup.timeout.ms": Setting("socket.connection.setup.timeout.ms", _ALL, 1000),
    "allow.auto.create.topics": Setting("allow.auto.create.topics", _C),
    "auto.commit.interval.ms": Setting("auto.commit.interval.ms", _C, 0, _DAY_MS),
    "auto.offset.reset": Setting("auto.offset.reset", _C),
    "check.crcs": Setting("check.crcs", _C),
    "enable.auto.commit": Setting("enable.auto.commit", _C),
    "fetch.max.bytes": Setting("fetch.max.bytes", _C, 1_000_000, 2_147_483_135),
    "fetch.max.wait.ms": Setting("fetch.wait.max.ms", _C, 0, 300_000),
    "fetch.min.bytes": Setting("fetch.min.bytes", _C, 1, 100_000_000),
    "group.id": Setting("group.id", _C),
    "group.instance.id": Setting("group.instance.id", _C),
    "group.protocol": Setting("group.protocol", _C),
    "group.remote.assignor": Setting("group.remote.assignor", _C),
    "heartbeat.interval.ms": Setting("heartbeat.interval.ms", _C, 1, 3_600_000),
    "isolation.level": Setting("isolation.level", _C),
    "max.partition.fetch.bytes": Setting("max.partition.fetch.bytes", _C, 1, 1_000_000_000),
    "max.poll.interval.ms": Setting("max.poll.interval.ms", _C, 1, _DAY_MS),
    "session.timeout.ms": Setting("session.timeout.ms", _C, 1, 3_600_000),
    "acks": Setting("acks", _P),
    "batch.size": Setting("batch.size", _P, 1),
    "compression.type": Setting("compression.type", _P),
    "delivery.timeout.ms": Setting("delivery.timeout.ms", _P),
    "enable.idempotence": Setting("enable.idempotence", _P),
    "linger.ms": Setting("linger.ms", _P, 0, 900_000),
    "max.in.flight.requests.per.connection": Setting(
        "max.in.flight.requests.per.connection", _P, 1, 1_000_000
    ),
    "max.request.size": Setting("message.max.bytes", _P, 1000, 1_000_000_000),
    "retries": Setting("retries", _P, 0),
    "transaction.timeout.ms": Setting("transaction.timeout.ms", _P, 1000),
    "transactional.id": Setting("transactional.id", _P),
}

KAFKA_PYTHON: Final = (
    *("client.id", "client.dns.lookup", "client.rack", "connections.max.idle.ms"),
    *("receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("request.timeout.ms", "send.buffer.bytes"),
    *("socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms"),
)
"""The Java properties that kafka-python has too, with ``_`` instead of each dot."""

# Several of these are combined into other settings: see tls and jaas.
_SECURITY: Final = CONNECTION_NAMES - IGNORED_CONNECTION_NAMES.keys() - OAUTH_NAMES - {SERVICE_NAME}


def confluent_config(properties: Mapping[str, str], role: Role) -> dict[str, object]:
    """The configuration of a ``confluent_kafka`` client of that role, for ``control.clients``.

    Properties that librdkafka lacks, or that have no meaning for the role, are left out; numbers
    outside its limits become the nearest limit. Each is logged once.

    Args:
        properties: ``Cluster.client_properties(role)``.
        role: the kind of client.

    Raises:
        ConfigError: stores or login are such that librdkafka cannot use them.
    """
    protocol, file = _protocol(properties), _origin(properties)
    config: dict[str, object] = {}
    known = _SECURITY | OAUTH_NAMES if is_oauth(properties) else _SECURITY
    for key, value in properties.items():
        setting = LIBRDKAFKA.get(key)
        if setting is not None and role in setting.roles:
            config[setting.name] = _within(key, value, setting, file)
        elif key not in known:
            _log_once(role, key, "is ignored: librdkafka has no such setting for this client")
    config["bootstrap.servers"] = ",".join(_brokers(properties))
    if config.get("auto.offset.reset") == "none":
        config["auto.offset.reset"] = "error"
    config |= _reconnect_backoff(properties, config)
    if "SSL" in protocol:
        config |= librdkafka_tls(properties, file)
        for key in not_for_librdkafka(properties):
            what = "applies to the data plane only: librdkafka has no setting for TLS versions"
            _log_once(role, key, what)
    if is_oauth(properties):
        # librdkafka could ask the token endpoint itself (sasl.oauthbearer.method=oidc), but not with the
        # data plane's TLS settings, retries and token: so both planes get theirs from kafka_ferry.oauth.
        config |= {"sasl.mechanism": OAUTHBEARER, OAUTH_LOGIN: oauth_login(properties, file)}
    elif is_kerberos(properties):
        raise ConfigError(file, "sasl.mechanism", "is GSSAPI, which librdkafka's packages lack")
    elif login := credentials(properties, protocol, file):
        if login.is_token:
            reason = "is a delegation token, with which librdkafka cannot log in"
            raise ConfigError(file, "sasl.jaas.config", reason)
        config["sasl.mechanism"] = login.mechanism
        config |= {"sasl.username": login.username, "sasl.password": login.password}
    return config


def kafka_python_config(properties: Mapping[str, str]) -> dict[str, object]:
    """The connection settings of kafka-python: addresses, security, login and timeouts.

    How much to fetch or to send at a time is set by the data plane itself.

    Raises:
        ConfigError: stores or login are such that kafka-python cannot use them.
    """
    protocol, file = _protocol(properties), _origin(properties)
    config: dict[str, object] = {
        "bootstrap_servers": _brokers(properties),
        "security_protocol": protocol,
    }
    for key in properties.keys() & KAFKA_PYTHON:
        value, is_number = properties[key], key.endswith((".ms", ".bytes"))
        config[key.replace(".", "_")] = _integer(key, value, file) if is_number else value
    if "SSL" in protocol:
        config |= kafka_python_tls(properties, file)
    if is_oauth(properties):
        config |= {"sasl_mechanism": OAUTHBEARER, OAUTH_LOGIN: oauth_login(properties, file)}
    elif is_kerberos(properties):
        config |= {"sasl_mechanism": GSSAPI, KERBEROS_LOGIN: kerberos_login(properties, file)}
    elif login := credentials(properties, protocol, file):
        config["sasl_mechanism"] = login.mechanism
        config |= {"sasl_plain_username": login.escaped, "sasl_plain_password": login.password}
        if login.is_token:
            config[TOKEN_AUTH] = True
    return config


def only_kafka_python_logs_in(properties: Mapping[str, str]) -> bool:
    """Whether librdkafka lacks the login of Java client properties, or is not to be used at all.

    It lacks Kerberos and delegation tokens. With ``FERRY_CONTROL_PLANE=wire`` it reads no answer of any broker: a
    hostile one can end the process by a name that is not UTF-8 (confluent-kafka 2.16).
    """
    if os.environ.get("FERRY_CONTROL_PLANE") == "wire":
        return True
    return is_kerberos(properties) or is_delegation_token(properties)


def _origin(properties: Mapping[str, str]) -> str:
    origin = properties.origin if isinstance(properties, ClientProperties) else ""
    return origin or _UNNAMED


def _protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "PLAINTEXT").upper()


def _brokers(properties: Mapping[str, str]) -> list[str]:
    """``host:port`` of each; Java accepts a listener's name before it and ignores that name."""
    servers = map(str.strip, properties.get("bootstrap.servers", "").split(","))
    return [server.rpartition("://")[2] for server in servers if server]


def _within(key: str, value: str, setting: Setting, file: str) -> str:
    if setting.low is None:
        return value
    number = _integer(key, value, file)
    nearest = max(number, setting.low)
    if setting.high is not None:
        nearest = min(nearest, setting.high)
    if nearest != number:
        _log_once("librdkafka", key, f"is {number}; librdkafka's nearest value is {nearest}")
    return str(nearest)


def _reconnect_backoff(
    properties: Mapping[str, str], config: Mapping[str, object]
) -> dict[str, object]:
    """One of the two defaults to the other, as in Java; librdkafka requires both."""
    first, longest = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
    if first in properties and longest not in properties:
        return {longest: config[first]}
    if longest in properties and first not in properties:
        return {first: str(min(50, int(str(config[longest]))))}
    return {}


def _integer(key: str, value: str, file: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(file, key, "must be a whole number") from None


@cache
def _log_once(client: str, key: str, what: str) -> None:
    _LOG.warning("%s: %s %s", client, key, what)
