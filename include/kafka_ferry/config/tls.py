"""Java's key and trust stores, as each of the two Kafka clients wants them.

Both clients read PEM, from files or from the configuration itself. librdkafka also reads a
PKCS12 key store. Neither reads JKS, which is what Java takes a store for if no type is given.
"""

from __future__ import annotations

import ssl
import tempfile
import textwrap
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import regex

from kafka_ferry.errors import ConfigError

_PEM_BLOCK: Final = regex.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>[^-]*)-----END (?P=label)-----"
)
_ADVICE: Final = (
    "Export it as PEM (keytool -importkeystore to PKCS12, then openssl pkcs12 -nodes) "
    "and set its type to PEM."
)


class Store(NamedTuple):
    """A key or trust store: a file, or PEM text where there is no file."""

    type: Literal["PEM", "PKCS12"]
    location: str = ""
    certificates: str = ""
    key: str = ""


def librdkafka_tls(properties: Mapping[str, str], file: str) -> dict[str, object]:
    """The stores by librdkafka's names.

    Raises:
        ConfigError: librdkafka cannot read a store.
    """
    config: dict[str, object] = {}
    if trust := _trust_store(properties, file):
        config["ssl.ca.location" if trust.location else "ssl.ca.pem"] = (
            trust.location or trust.certificates
        )
    if keys := _key_store(properties, file):
        if keys.type == "PKCS12":
            config["ssl.keystore.location"] = keys.location
            config["ssl.keystore.password"] = properties.get("ssl.keystore.password", "")
        elif keys.location:
            config |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), keys.location)
        else:
            config |= {"ssl.certificate.pem": keys.certificates, "ssl.key.pem": keys.key}
        if keys.type == "PEM" and "ssl.key.password" in properties:
            config["ssl.key.password"] = properties["ssl.key.password"]
    if not _checks_host_name(properties):
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config


def kafka_python_tls(properties: Mapping[str, str], file: str) -> dict[str, object]:
    """The stores by kafka-python's names; an ``ssl_context`` where they are not all files.

    Raises:
        ConfigError: kafka-python cannot read a store.
    """
    trust, keys = _trust_store(properties, file), _key_store(properties, file)
    if keys and keys.type == "PKCS12":
        raise _unreadable(file, "ssl.keystore", "a PKCS12 store cannot be read by kafka-python")
    password = properties.get("ssl.key.password")
    check = _checks_host_name(properties)
    if any(store and not store.location for store in (trust, keys)):
        return {"ssl_context": _context(trust, keys, password, check, file)}
    config: dict[str, object] = {"ssl_check_hostname": check}
    if trust:
        config["ssl_cafile"] = trust.location
    if keys:
        config |= {"ssl_certfile": keys.location, "ssl_keyfile": keys.location}
        if password is not None:
            config["ssl_password"] = password
    return config


def _checks_host_name(properties: Mapping[str, str]) -> bool:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    return algorithm.lower() not in ("", "none")


def _trust_store(properties: Mapping[str, str], file: str) -> Store | None:
    certificates = properties.get("ssl.truststore.certificates", "")
    location = properties.get("ssl.truststore.location", "")
    if not certificates and not location:
        return None
    kind = properties.get("ssl.truststore.type", "JKS").upper()
    if kind != "PEM":
        reason = f"a {kind} store can be read by neither Kafka client"
        raise _unreadable(file, "ssl.truststore", reason)
    return Store("PEM", "" if certificates else location, _pem_lines(certificates))


def _key_store(properties: Mapping[str, str], file: str) -> Store | None:
    key = properties.get("ssl.keystore.key", "")
    chain = properties.get("ssl.keystore.certificate.chain", "")
    location = properties.get("ssl.keystore.location", "")
    if not key and not chain and not location:
        return None
    kind = properties.get("ssl.keystore.type", "JKS").upper()
    if kind == "PKCS12" and location:
        return Store("PKCS12", location)
    if kind != "PEM":
        reason = f"a {kind} store can be read by neither Kafka client"
        raise _unreadable(file, "ssl.keystore", reason)
    if bool(key) != bool(chain):
        missing = "ssl.keystore.certificate.chain" if key else "ssl.keystore.key"
        raise ConfigError(file, missing, "is required: a PEM key and its certificates go together")
    return Store("PEM", "" if key else location, _pem_lines(chain), _pem_lines(key))


def _unreadable(file: str, store: str, reason: str) -> ConfigError:
    return ConfigError(file, f"{store}.type", f"{reason}.", advice=_ADVICE)


def _pem_lines(text: str) -> str:
    """PEM in lines of 64, as OpenSSL demands; Java also takes it on one line."""

    def block(found: Any) -> str:
        body = textwrap.fill("".join(found["body"].split()), 64)
        return f"-----BEGIN {found['label']}-----\n{body}\n-----END {found['label']}-----\n"

    return "".join(block(found) for found in _PEM_BLOCK.finditer(text)) or text


def _context(
    trust: Store | None, keys: Store | None, password: str | None, check: bool, file: str
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check
    try:
        if trust:
            context.load_verify_locations(trust.location or None, cadata=trust.certificates or None)
        else:
            context.load_default_certs()
        if keys and keys.location:
            context.load_cert_chain(keys.location, password=password)
        elif keys:
            # Python reads a private key from a file only; this one is its owner's alone and
            # gone before the function returns.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
                both.write(keys.key + keys.certificates)
                both.flush()
                context.load_cert_chain(both.name, password=password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        detail = getattr(error, "reason", None) or type(error).__name__
        raise ConfigError(file, "ssl", f"keys or certificates cannot be used: {detail}") from None
    return context
