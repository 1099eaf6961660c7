"""Airflow's connections of the type ``kafka``: librdkafka's settings, translated to Java's names.

Such a connection holds librdkafka's settings in its extra (``KafkaBaseHook`` of Airflow's Kafka
provider). It is read from ``AIRFLOW_CONN_{ID}``, as JSON or as a URI, as Airflow documents; where
Airflow keeps its connections elsewhere, its tasks put them there first. Only the settings that say where
the cluster is and how to log in to it count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from kafka_ferry.config.client.assertion import PRIVATE_KEY, TEMPLATE
from kafka_ferry.config.client.jaas import (
    GSSAPI,
    MECHANISMS,
    OAUTHBEARER,
    JaasError,
    Login,
    jaas_config,
    login_text,
)
from kafka_ferry.config.client.kerberos import LOGIN_MODULE as KERBEROS_MODULE
from kafka_ferry.config.client.kerberos import SERVICE_NAME
from kafka_ferry.config.client.login_values import CARRIED
from kafka_ferry.config.client.oauth import (
    BY_ASSERTION,
    CLIENT_ID,
    CLIENT_SECRET,
    EXTENSION,
    LOGIN_MODULE,
    RETRIEVER,
)
from kafka_ferry.config.client.property_names import AIRFLOW_CONNECTION, OAUTH_NAMES
from kafka_ferry.config.file_content import content_of
from kafka_ferry.errors import ConfigError

_TYPE: Final = "kafka"
# The same in both dialects, or different in its name only.
_NAMES: Final = {
    "bootstrap.servers": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.keystore.password": "ssl.keystore.password",
}
_OAUTH: Final = {
    "sasl.oauthbearer.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.secret": CLIENT_SECRET,
    "sasl.oauthbearer.assertion.jwt.template.file": TEMPLATE,
}
_KEY_TEXT: Final = "sasl.oauthbearer.assertion.private.key.pem"
_GRANTS: Final[dict[str, dict[str, str]]] = {
    "client_credentials": {},
    "urn:ietf:params:oauth:grant-type:jwt-bearer": {RETRIEVER: BY_ASSERTION},
}
_OF_ENDPOINT: Final = {
    "https.ca.location": "ssl.truststore.location",
    "https.ca.pem": "ssl.truststore.certificates",
}
_CHECK: Final = "enable.ssl.certificate.verification"


def connection_variable(name: str) -> str:
    """The environment variable that holds the connection ``name``."""
    return f"AIRFLOW_CONN_{name.upper()}"


def connection_properties(name: str, origin: str) -> dict[str, str]:
    """The Java client properties that the connection ``name`` stands for.

    Args:
        name: the connection's id.
        origin: the place to fix, for errors.

    Raises:
        ConfigError: there is no such connection, it is not of the type ``kafka``, or it needs
            something that is not supported. The message repeats nothing of its content.
    """

    def wrong(reason: str, advice: str = "") -> ConfigError:
        sentence = f"the connection {name!r} {reason}"
        return ConfigError(
            origin, AIRFLOW_CONNECTION, f"{sentence}." if advice else sentence, advice=advice
        )

    text = os.environ.get(connection_variable(name))
    if not text:
        advice = (
            f"Create it in Airflow, or set {connection_variable(name)} as Airflow documents it."
        )
        raise wrong("is not known", advice)
    try:
        kind, extra = _read(text)
    except ValueError:
        raise wrong("can be read neither as JSON nor as a URI") from None
    if kind and kind != _TYPE:
        raise wrong(f"is of the type {kind}, not {_TYPE}")
    settings = {str(key): _as_text(value) for key, value in extra.items()}
    if settings.get(_CHECK, "true").lower() != "true":
        advice = "Name the certificates to trust in ssl.ca.location or ssl.ca.pem."
        raise wrong(f"sets {_CHECK} to false, which is not supported", advice)
    properties = {_NAMES[key]: value for key, value in settings.items() if key in _NAMES}
    try:
        return properties | _login(settings) | _trust(settings) | _keys(settings)
    except JaasError as error:
        raise wrong(f"cannot be used: {error}", f"It must be {', '.join(MECHANISMS)}.") from None
    except OSError as error:
        raise wrong(
            f"names the file {error.filename}, which cannot be read: {error.strerror}"
        ) from None


def _read(text: str) -> tuple[str, Mapping[str, Any]]:
    """Type and extra of a connection."""
    if text.lstrip().startswith("{"):
        read = json.loads(text)
        kind, extra = str(read.get("conn_type") or ""), read.get("extra") or {}
    else:
        url = urlsplit(text)
        if not url.scheme:
            raise ValueError("no scheme")
        kind, query = url.scheme, dict(parse_qsl(url.query, keep_blank_values=True))
        extra = query.get("__extra__", query)
    extra = json.loads(extra) if isinstance(extra, str) else extra
    if not isinstance(extra, Mapping):
        raise ValueError("no mapping")
    return kind.replace("-", "_"), extra


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    if protocol := settings.get("security.protocol"):
        properties["security.protocol"] = protocol.upper()
    if mechanism := settings.get("sasl.mechanism") or settings.get("sasl.mechanisms"):
        properties["sasl.mechanism"] = mechanism
        if mechanism == OAUTHBEARER:
            properties |= _oauth(settings)
        elif mechanism == GSSAPI:
            properties |= _kerberos(settings)
        elif "sasl.username" in settings or "sasl.password" in settings:
            properties["sasl.jaas.config"] = jaas_config(
                mechanism, settings.get("sasl.username", ""), settings.get("sasl.password", "")
            )
    return properties


def _kerberos(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings; without a key tab, the ticket cache counts, as it does there."""
    properties = {SERVICE_NAME: settings.get(SERVICE_NAME, "kafka")}
    if "sasl.jaas.config" in settings:
        return properties | {"sasl.jaas.config": settings["sasl.jaas.config"]}
    options = {"principal": settings.get("sasl.kerberos.principal", "")}
    if key_tab := settings.get("sasl.kerberos.keytab", ""):
        options |= {"useKeyTab": "true", "keyTab": key_tab}
    else:
        options |= {"useTicketCache": "true"}
    return properties | {"sasl.jaas.config": login_text(Login(KERBEROS_MODULE, options))}


def _oauth(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings of ``sasl.oauthbearer.method=oidc``; Java's names are taken as they are."""
    grant = settings.get("sasl.oauthbearer.grant.type", "client_credentials")
    if grant not in _GRANTS:
        raise JaasError(f"sasl.oauthbearer.grant.type={grant} is not supported")
    properties = {key: value for key, value in settings.items() if key in OAUTH_NAMES}
    properties |= _GRANTS[grant]
    for theirs, ours in _OAUTH.items():
        if theirs in settings:
            properties.setdefault(ours, settings[theirs])
    if "sasl.jaas.config" in settings:
        return properties | {"sasl.jaas.config": settings["sasl.jaas.config"]}
    pairs = filter(None, settings.get("sasl.oauthbearer.extensions", "").split(","))
    extensions = (pair.strip().partition("=") for pair in pairs)
    options = {f"{EXTENSION}{name}": value for name, _, value in extensions}
    if _KEY_TEXT in settings:
        options[f"{CARRIED}{PRIVATE_KEY}"] = settings[_KEY_TEXT]
    for theirs, ours in _OF_ENDPOINT.items():
        if settings.get(theirs, "probe") != "probe":
            options |= {"ssl.truststore.type": "PEM", ours: settings[theirs]}
    return properties | {"sasl.jaas.config": login_text(Login(LOGIN_MODULE, options))}


def _trust(settings: Mapping[str, str]) -> dict[str, str]:
    location = settings.get("ssl.ca.location", "probe")
    if text := settings.get("ssl.ca.pem", ""):
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    if location == "probe":  # librdkafka's value for the system's trusted certificates
        return {}
    if Path(location).is_dir():
        text = "".join(map(_text_of, sorted(Path(location).glob("*.pem"))))
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}


def _keys(settings: Mapping[str, str]) -> dict[str, str]:
    if "ssl.keystore.location" in settings:
        return {"ssl.keystore.type": "PKCS12"}

    def require(what: str) -> str:
        location = settings.get(f"ssl.{what}.location")
        return _text_of(Path(location)) if location else settings.get(f"ssl.{what}.pem", "")

    key, chain = require("key"), require("certificate")
    if not key and not chain:
        return {}
    pair = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    return {"ssl.keystore.type": "PEM", **pair}


def _text_of(file: Path) -> str:
    return content_of(file).decode(errors="replace")
