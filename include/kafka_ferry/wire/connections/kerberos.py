"""The login with Kerberos: kafka-python's exchange, with the credentials of one login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_ferry.config.client.kerberos import SERVICE_NAME, KerberosLogin
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.kerberos import credentials_for, gssapi_package, kerberos_fault

REFUSED: Final = (
    "The broker's log says why. Check that the clocks agree within five minutes, that the broker's key tab "
    f"has its current key; and {SERVICE_NAME}."
)


class KerberosExchange(SaslMechanismGSSAPI):  # type: ignore[misc]
    """The messages of a login; kafka-python's own takes the tickets that the whole process has.

    Args:
        login: whose tickets, and for which service.
        host: the broker's host name.
        address: the broker, for messages.

    Raises:
        AccessDenied: the KDC does not know the client or the service, or refuses it.
        ClusterUnreachable: the KDC does not answer.
        ConfigError: the package ``gssapi`` is not installed, or the key tab cannot be read.
    """

    def __init__(self, login: KerberosLogin, host: str, address: str) -> None:
        gssapi = gssapi_package(login)
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{host}"
        credentials = credentials_for(login)
        try:
            kind, kerberos = gssapi.NameType.hostbased_service, gssapi.MechType.kerberos
            self.gssapi_name = gssapi.Name(self.auth_id, kind).canonicalize(kerberos)
            self._client_ctx: Any = gssapi.SecurityContext(
                name=self.gssapi_name, creds=credentials, mech=kerberos, usage="initiate"
            )
            # Asks the KDC for a ticket for the broker.
            self._next_token = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:
            doing = f"{address}: no Kerberos ticket for {login.service}/{host}"
            raise kerberos_fault(error, doing, login) from None


def require_principal(call: Callable[[Any], Any], address: str, login: KerberosLogin) -> None:
    """Send a first request: a broker without a rule for the principal closes the connection only then.

    Args:
        call: sends a request and gives its response.
        address: the broker, for messages.
        login: the login.

    Raises:
        ClusterUnreachable: it has closed the connection, as a broker that stops does too.
    """
    try:
        call(ApiVersionsRequest(version=0))
    except ClusterUnreachable as error:
        who = login.principal or "the ticket's principal"
        raise ClusterUnreachable(
            f"{address} closed the connection after the login of {who}.",
            advice="If it runs, its log says whether its sasl.kerberos.principal.to.local.rules have a rule "
            "for that principal (NoMatchingRule).",
        ) from error
