"""The TLS settings of both Kafka clients: trust, identity, versions and checks.

Both clients get stores as text in memory (see ``keystores``): librdkafka as PEM in its own
settings, kafka-python as an ``ssl_context``.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from kafka_ferry.config.client.keystores import key_pair, trusted_certificates
from kafka_ferry.config.client.pem import KeyPair
from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.errors import ConfigError
from kafka_ferry.memory_file import memory_file

PROTOCOLS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
"""Java's names of the versions of TLS, the oldest first."""

_ENABLED: Final = "ssl.enabled.protocols"
_CAP: Final = "ssl.protocol"
_SUITES: Final = "ssl.cipher.suites"
_JAVAS_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


def librdkafka_tls(properties: Mapping[str, str], file: str) -> dict[str, object]:
    """Stores, host name check and cipher suites by librdkafka's names.

    Raises:
        ConfigError: a store cannot be read, or OpenSSL does not know a setting.
    """
    config: dict[str, object] = {}
    if trusted := trusted_certificates(properties, file):
        config["ssl.ca.pem"] = trusted
    if pair := key_pair(properties, file):
        config |= {"ssl.certificate.pem": pair.certificates, "ssl.key.pem": pair.key}
    if not _checks_host_name(properties):
        config["ssl.endpoint.identification.algorithm"] = "none"
    if suites := _older_suites(properties):
        _tls_context(properties, file)  # it refuses what OpenSSL does not know
        config[_SUITES] = suites
    return config


def not_for_librdkafka(properties: Mapping[str, str]) -> list[str]:
    """The TLS properties that librdkafka has no setting for."""
    enabled = {*split_list(properties.get(_ENABLED, ""))} or {*_JAVAS_PROTOCOLS}
    too_wide = [_ENABLED] if enabled != {*_JAVAS_PROTOCOLS} else []
    if properties.get(_CAP, "TLSv1.3") not in ("TLSv1.3", "TLS"):
        too_wide.append(_CAP)
    if len({_is_of_tls_1_3(suite) for suite in _suites(properties)}) == 1:
        too_wide.append(_SUITES)
    return too_wide


def kafka_python_tls(properties: Mapping[str, str], file: str) -> dict[str, object]:
    """An ``ssl_context``, which kafka-python accepts instead of single settings.

    Raises:
        ConfigError: a store cannot be read, or OpenSSL does not know a setting.
    """
    context = _tls_context(properties, file)
    context.check_hostname = _checks_host_name(properties)
    trusted, pair = trusted_certificates(properties, file), key_pair(properties, file)
    try:
        if trusted:
            context.load_verify_locations(cadata=trusted)
        else:
            context.load_default_certs()
        if pair:
            _show(context, pair)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        detail = getattr(error, "reason", None) or type(error).__name__
        raise ConfigError(file, "ssl", f"keys or certificates cannot be used: {detail}") from None
    return {"ssl_context": context}


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    # Python reads a private key only from a file; this one is in memory, and a kill leaves no file.
    with memory_file(pair.key + pair.certificates) as both:
        context.load_cert_chain(both)


def _checks_host_name(properties: Mapping[str, str]) -> bool:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    return algorithm.lower() not in ("", "none")


def _tls_context(properties: Mapping[str, str], file: str) -> ssl.SSLContext:
    """A client's context with its TLS versions and cipher suites."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = _versions(properties, file)
    if suites := _older_suites(properties):
        try:
            context.set_ciphers(suites)
        except ssl.SSLError:
            raise ConfigError(file, _SUITES, "names no cipher suite that OpenSSL knows") from None
        for suite in context.get_ciphers():
            # Without a certificate, or without a cipher: such suites are OpenSSL's own, and Java has dropped its own.
            if suite["auth"] == "auth-null" or not suite["symmetric"]:
                reason = f"names {suite['name']}, with which a broker shows no certificate or nothing is encrypted"
                raise ConfigError(file, _SUITES, reason)
    return context


def _versions(properties: Mapping[str, str], file: str) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """The oldest and the newest version allowed.

    ``ssl.protocol`` is the newest, whatever ``ssl.enabled.protocols`` says (KIP-573).
    """
    enabled = split_list(properties.get(_ENABLED, "")) or list(_JAVAS_PROTOCOLS)
    cap = properties.get(_CAP, "TLSv1.3")
    cap = "TLSv1.3" if cap == "TLS" else cap
    for key, names in ((_ENABLED, enabled), (_CAP, [cap])):
        if any(name not in PROTOCOLS for name in names):
            raise ConfigError(file, key, f"must be of {', '.join(PROTOCOLS)}")
    newest = {_is_of_tls_1_3(suite) for suite in _suites(properties)}
    first = "TLSv1.3" if newest == {True} else "TLSv1"
    last = min(cap, "TLSv1.2") if newest == {False} else cap
    spoken = [PROTOCOLS[name] for name in PROTOCOLS if name in enabled and first <= name <= last]
    if not spoken:
        raise ConfigError(file, _ENABLED, f"leaves no TLS version that {_CAP} and {_SUITES} allow")
    return spoken[0], spoken[-1]


def _suites(properties: Mapping[str, str]) -> Sequence[str]:
    return split_list(properties.get(_SUITES, ""))


def _is_of_tls_1_3(suite: str) -> bool:
    return suite.startswith("TLS_") and "_WITH_" not in suite


def _older_suites(properties: Mapping[str, str]) -> str:
    """The suites up to TLS 1.2 in OpenSSL's form; those of TLS 1.3 are not configured there."""
    return ":".join(
        openssl_name(suite) for suite in _suites(properties) if not _is_of_tls_1_3(suite)
    )


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite that Java calls ``TLS_{exchange}_WITH_{cipher}``."""
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return suite
    words = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").split("_")
    if "CHACHA20" in words:
        words.remove("SHA256")
    words = [word for word in words if word != "CBC"]
    before = [] if exchange == "RSA" else exchange.split("_")
    return "-".join(before + words)
