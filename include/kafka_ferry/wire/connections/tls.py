"""TLS connections, and the errors when they fail."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError

UNREACHED: Final = (
    "Is the broker running, is its address right, and security.protocol that of its listener?"
)
"""What to check where a broker does not answer, or its answer cannot be read."""

UNRESOLVED: Final = (
    "If bootstrap.servers does not name it, the broker itself gives this name, by advertised.listeners: correct it "
    "there, or let this machine and Spark's executors resolve it."
)
"""What to check where the host of a broker's address is unknown."""

_SECURED: Final = frozenset({"SSL", "SASL_SSL"})
_OTHER_HOST: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_, EMAIL_, IP_ADDRESS_MISMATCH
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
# Alerts that a broker sends while it stops, or without a reason.
_PASSING: Final = ("INTERNAL_ERROR", "USER_CANCELLED", "CLOSE_NOTIFY")


def secure(plain: socket.socket, host: str, settings: Mapping[str, Any]) -> socket.socket:
    """The socket to use: ``plain`` itself, or TLS over it where ``settings`` say so.

    Raises:
        ssl.SSLError: see ``tls_fault``.
    """
    if settings.get("security_protocol") not in _SECURED:
        return plain
    context: ssl.SSLContext = settings["ssl_context"]
    return context.wrap_socket(plain, server_hostname=host)


def tls_fault(address: str, error: ssl.SSLError) -> FerryError:
    """The error for one of OpenSSL's; only errors that may disappear by themselves are transient."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(address, error)
    reason = error.reason or ""
    if "ALERT" in reason and not reason.endswith(_PASSING):
        return AccessDenied(
            f"{address} refused the TLS connection: {reason}.",
            advice="If it asks for a client's certificate, the key store (ssl.keystore.*) must hold "
            "one that it trusts; else check ssl.enabled.protocols and ssl.cipher.suites.",
        )
    if reason in _NOT_TLS:
        return AccessDenied(
            f"{address} does not speak TLS ({reason}).",
            advice="Check security.protocol and the port.",
        )
    return ClusterUnreachable(f"{address}: {reason or error}.", advice=UNREACHED)


def _distrust(address: str, error: ssl.SSLCertVerificationError) -> AccessDenied:
    reason = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_HOST:
        return AccessDenied(
            f"{address} shows a certificate for another host: {reason}.",
            advice="Write the host in bootstrap.servers, and the brokers in advertised.listeners, as "
            "in the certificate; an empty ssl.endpoint.identification.algorithm lets any host pass.",
        )
    return AccessDenied(
        f"{address} shows a certificate that is not trusted: {reason}.",
        advice="The trust store (ssl.truststore.*) must hold the authority that has issued it.",
    )
