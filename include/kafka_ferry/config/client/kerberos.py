"""Logins with Kerberos (``GSSAPI``), as Java's ``Krb5LoginModule`` and Kafka's properties describe them.

Rules: the JDK's ``com.sun.security.auth.module.Krb5LoginModule``, and Kafka's ``KerberosLogin``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import regex

from kafka_ferry.config.client.jaas import (
    GSSAPI,
    JAAS,
    Login,
    login_text,
    module_options,
    uses_sasl,
)
from kafka_ferry.config.client.login_values import CARRIED
from kafka_ferry.config.file_content import content_of
from kafka_ferry.errors import ConfigError

KERBEROS_LOGIN: Final = "sasl_kerberos_login"
"""The data plane's setting with a ``KerberosLogin``."""
SERVICE_NAME: Final = "sasl.kerberos.service.name"
LOGIN_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_KEY_TAB: Final = "keyTab"
_SWITCHES: Final = ("useKeyTab", "useTicketCache")
# They say where Java keeps a key, whom it asks for passwords, and what it logs.
_NO_EFFECT: Final = frozenset(
    {
        *("storeKey", "doNotPrompt", "renewTGT", "refreshKrb5Config", "isInitiator", "debug"),
        *("useFirstPass", "tryFirstPass", "storePass", "clearPass"),
    }
)
_OPTIONS: Final = (*_SWITCHES, _KEY_TAB, "principal", "ticketCache", "serviceName")
FILE_PREFIX: Final = regex.compile(r"^file:(?://)?", regex.IGNORECASE)
"""What may stand before the path of a key tab or a ticket cache."""
_FORM: Final = (
    f'Its form is: {LOGIN_MODULE} required useKeyTab=true keyTab="/etc/kafka/ferry.keytab" '
    'principal="ferry@EXAMPLE.COM";'
)


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Who logs in, where the key or the ticket comes from, and for which service.

    Attributes:
        origin: the file and the cluster, for errors.
        service: the first part of the brokers' principals.
        principal: the client's; "" for the one that the ticket cache holds.
        key_tab: the file with its keys, "" for none.
        carried: that file's content on the driver, in base64, for machines that lack the file.
        uses_cache: whether tickets of a cache count, which come before those for the key tab.
        cache: the ticket cache's file, "" for the one that Kerberos's own settings name.
    """

    origin: str
    service: str
    principal: str = ""
    key_tab: str = ""
    carried: str = field(default="", repr=False)
    uses_cache: bool = False
    cache: str = ""

    def carried_keys(self) -> bytes | None:
        """The content of the key tab where this machine does not have the file; None where it has.

        Raises:
            ConfigError: there is neither.
        """
        try:
            with Path(self.key_tab).open("rb"):
                return None
        except OSError as error:
            if self.carried:
                return base64.b64decode(self.carried)
            raise _unreadable(self.origin, self.key_tab, error) from None


def is_kerberos(properties: Mapping[str, str]) -> bool:
    """Whether Java client properties say that the client logs in with Kerberos, Java's default."""
    return uses_sasl(properties) and properties.get("sasl.mechanism", GSSAPI) == GSSAPI


def kerberos_login(properties: Mapping[str, str], place: str) -> KerberosLogin:
    """The login that Java client properties describe for which ``is_kerberos`` is true.

    Args:
        properties: the client's properties.
        place: the file and the cluster, for errors.

    Raises:
        ConfigError: the login module, one of its options or the service's name is missing or wrong.
    """
    options = _options(properties, place)
    by_key, by_cache = (_switch(options, name, place) for name in _SWITCHES)
    key_tab = FILE_PREFIX.sub("", options.get(_KEY_TAB, "")) if by_key else ""
    principal = options.get("principal", "")
    if by_key and not (key_tab and principal):
        reason = "useKeyTab=true needs keyTab and principal."
        raise ConfigError(place, JAAS, reason, advice=_FORM)
    if not (by_key or by_cache):
        reason = "needs useKeyTab=true with keyTab and principal, or useTicketCache=true."
        raise ConfigError(place, JAAS, reason, advice=_FORM)
    return KerberosLogin(
        origin=place,
        service=_service(properties, options, place),
        principal=principal,
        key_tab=key_tab,
        carried=options.get(f"{CARRIED}{_KEY_TAB}", ""),
        uses_cache=by_cache,
        cache=FILE_PREFIX.sub("", options.get("ticketCache", "")),
    )


def with_inline_key_tab(properties: Mapping[str, str], place: str) -> dict[str, str]:
    """The properties with the key tab's content, for machines that lack the file.

    Raises:
        ConfigError: the key tab cannot be read, or the login is wrong.
    """
    if not is_kerberos(properties):
        return dict(properties)
    login = kerberos_login(properties, place)
    if not login.key_tab or login.carried:
        return dict(properties)
    try:
        content = content_of(Path(login.key_tab))
    except OSError as error:
        raise _unreadable(place, login.key_tab, error) from None
    carried = {f"{CARRIED}{_KEY_TAB}": base64.b64encode(content).decode()}
    options = {**_options(properties, place), **carried}
    return {**properties, JAAS: login_text(Login(LOGIN_MODULE, options))}


def _unreadable(place: str, key_tab: str, error: OSError) -> ConfigError:
    reason = f"keyTab {key_tab} cannot be read: {error.strerror}."
    advice = "Name a key tab that the user of the flow's tasks may read."
    return ConfigError(place, JAAS, reason, advice=advice)


def _options(properties: Mapping[str, str], place: str) -> Mapping[str, str]:
    if JAAS not in properties:
        raise ConfigError(place, JAAS, f"is required with {GSSAPI}.", advice=_FORM)
    return module_options(
        properties, LOGIN_MODULE, place, form=_FORM, known=_OPTIONS, ignored=_NO_EFFECT
    )


def _switch(options: Mapping[str, str], name: str, place: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(place, JAAS, f"{name} must be true or false")
    return text == "true"


def _service(properties: Mapping[str, str], options: Mapping[str, str], place: str) -> str:
    """As ``KerberosLogin.getServiceName``: the property or the option, but not two different ones."""
    names = {name for name in (properties.get(SERVICE_NAME), options.get("serviceName")) if name}
    if len(names) > 1:
        reason = "differs from serviceName in sasl.jaas.config; leave one of them out"
        raise ConfigError(place, SERVICE_NAME, reason)
    if not names:
        reason = f"is required with {GSSAPI}: the first part of the brokers' principals."
        advice = "It is kafka for brokers with the principal kafka/host@REALM."
        raise ConfigError(place, SERVICE_NAME, reason, advice=advice)
    return names.pop()
