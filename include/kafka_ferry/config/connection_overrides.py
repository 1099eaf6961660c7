"""What a flow's own properties may change of an Airflow connection that the flow names.

The connection's login goes where the connection says, as the connection says. So in Airflow's processes a flow may make
its connections stricter and never weaker, and shows a login either whole from the connection or whole of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import regex

from kafka_ferry.config.client.jaas import GSSAPI, JAAS, LOGIN_MODULES
from kafka_ferry.config.client.msk_iam import iam_login, is_iam
from kafka_ferry.config.client.property_names import CONNECTION_NAMES
from kafka_ferry.config.permissions import HOSTS, TOKEN_ENDPOINT, allowed_names
from kafka_ferry.config.types.name_filter import NamePatterns, split_list
from kafka_ferry.config.types.problems import Problem
from kafka_ferry.errors import ConfigError

_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_SUITES: Final = "ssl.cipher.suites"
_ENCRYPTED: Final = ("SSL", "SASL_SSL")
_MSK: Final = regex.compile(r"[a-z0-9.-]+\.kafka(-serverless)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_OLD_TLS: Final = frozenset({"TLSv1", "TLSv1.1"})
_OF_LOGINS: Final = ("sasl.login.", "sasl.kerberos.ticket.", "sasl.kerberos.min.")
_LOGIN: Final = frozenset(
    name
    for name in CONNECTION_NAMES
    if name.startswith("sasl.")
    # When a login is renewed is the flow's affair, and who renews it is not.
    and (not name.startswith(_OF_LOGINS) or name.endswith(".class"))
)


def override_problems(own: Mapping[str, str], connection: Mapping[str, str]) -> Iterator[Problem]:
    """Where a flow's own properties would take the login of an Airflow connection elsewhere, or protect it less.

    Args:
        own: the properties of the flow's file, which win.
        connection: those that the connection stands for.
    """
    others = allowed_names(HOSTS)
    if others is None:
        return
    yield from _other_places(own, connection, others)
    yield from _weaker_protocol(own, connection)
    if connection.get(_PROTOCOL, "").upper() in _ENCRYPTED:
        yield from _weaker_tls(own, connection)
    if _has_login(connection) and not _is_whole_login(own, connection):
        for name in sorted(_LOGIN & own.keys() - {TOKEN_ENDPOINT}):
            if own[name] != connection.get(name):
                advice = f"Leave {name} out, or let the connection name the brokers only."
                yield Problem(name, "may not change the connection's login", advice)


def role_problems(properties: Mapping[str, str]) -> Iterator[Problem]:
    """Where a login with the machine's own role of AWS would go to others than Amazon MSK.

    Args:
        properties: a client's, the flow's own and those of its connection.
    """
    others = allowed_names(HOSTS)
    if others is None or not is_iam(properties) or _has_own_keys(properties):
        return
    hosts = {*_brokers(properties.get(_SERVERS, "")).values()}
    if foreign := sorted(it for it in hosts if not (_MSK.fullmatch(it) or others.fullmatch(it))):
        reason = f"the machine's role of AWS may not go to {', '.join(foreign)}"
        yield Problem(_SERVERS, reason, f"Who runs Airflow can allow it in {HOSTS}.")


def _has_own_keys(properties: Mapping[str, str]) -> bool:
    try:
        login = iam_login(properties, "")
    except ConfigError:
        return False  # as its reader says
    return bool(login.key_id) and not login.profile


def _other_places(
    own: Mapping[str, str], connection: Mapping[str, str], others: NamePatterns
) -> Iterator[Problem]:
    advice = f"Name them in the connection, or let who runs Airflow allow them in {HOSTS}."
    for key, places in {_SERVERS: _brokers, TOKEN_ENDPOINT: _endpoint}.items():
        foreign = {
            place: host
            for place, host in places(own.get(key, "")).items()
            if place not in places(connection.get(key, "")) and not others.fullmatch(host)
        }
        if foreign:
            listed = ", ".join(sorted(foreign))
            reason = f"the connection's login may not go to {listed}, which it does not name"
            yield Problem(key, reason, advice)
    if (
        urlsplit(connection.get(TOKEN_ENDPOINT, "")).scheme.lower() == "https"
        and urlsplit(own.get(TOKEN_ENDPOINT, "https:")).scheme.lower() != "https"
    ):
        yield _weaker(TOKEN_ENDPOINT, "Begin it with https://.")


def _weaker_protocol(own: Mapping[str, str], connection: Mapping[str, str]) -> Iterator[Problem]:
    """Without encryption a login is shown only where the connection itself says so."""
    its, wanted = connection.get(_PROTOCOL, "PLAINTEXT").upper(), own.get(_PROTOCOL, "").upper()
    if not wanted or wanted in (its, *_ENCRYPTED):
        return
    if its in _ENCRYPTED or (_has_login(connection) and not _is_whole_login(own, connection)):
        yield _weaker(_PROTOCOL)


def _weaker_tls(own: Mapping[str, str], connection: Mapping[str, str]) -> Iterator[Problem]:
    def is_off(properties: Mapping[str, str]) -> bool:
        return properties.get(_HOST_CHECK, "https").strip().lower() in ("", "none")

    if is_off(own) and not is_off(connection):
        yield _weaker(_HOST_CHECK)
    for name in sorted(own):
        if name.startswith("ssl.truststore."):
            reason = "the connection says which authorities count, or else those of the system do"
            yield Problem(
                name, reason, "Name them in the connection (ssl.ca.location, ssl.ca.pem)."
            )
    for name in ("ssl.enabled.protocols", "ssl.protocol"):
        if _OLD_TLS.intersection(split_list(own.get(name, ""))):
            yield _weaker(name)
    its, wanted = ({*split_list(it.get(_SUITES, ""))} for it in (connection, own))
    # OpenSSL's levels of security stand among its suites.
    if (its and not wanted <= its) or any("@" in it for it in wanted - its):
        yield _weaker(_SUITES)


def _weaker(name: str, advice: str = "") -> Problem:
    return Problem(name, "may not be weaker than the connection's", advice or f"Leave {name} out.")


def _has_login(connection: Mapping[str, str]) -> bool:
    return bool(_LOGIN.intersection(connection) - {_MECHANISM})


def _is_whole_login(own: Mapping[str, str], connection: Mapping[str, str]) -> bool:
    """Whether nothing of the connection's login is used; of logins with a token, more than ``sasl.jaas.config`` is."""
    if JAAS not in own:
        return False
    mechanism = own.get(_MECHANISM) or connection.get(_MECHANISM) or GSSAPI
    tokens = any(name.startswith("sasl.oauthbearer.") for name in connection)
    return mechanism in (*LOGIN_MODULES, GSSAPI) or not tokens


def _brokers(servers: str) -> dict[str, str]:
    """Each ``host:port`` in small letters, with its host."""
    named = (it.strip().rpartition("://")[2].lower() for it in split_list(servers))
    return {it: it.rpartition(":")[0] for it in named}


def _endpoint(url: str) -> dict[str, str]:
    return {url: urlsplit(url).hostname or ""} if url else {}
