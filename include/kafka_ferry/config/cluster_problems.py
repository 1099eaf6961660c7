"""What is wrong with a cluster's properties in a file, as far as it shows before any client is created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import regex

from kafka_ferry.config.client.jaas import JAAS, MECHANISMS, uses_sasl, wrong_credentials
from kafka_ferry.config.client.property_names import (
    AIRFLOW_CONNECTION,
    CLUSTER_NAMES,
    ROLE_PREFIXES,
    ROLES,
)
from kafka_ferry.config.schema_registry import wrong_registry
from kafka_ferry.config.types.problems import Problem, did_you_mean

_BROKER: Final = regex.compile(r"(?:\w+://)?(?:\[[\da-fA-F:%]+\]|[\w.-]+):(?P<port>\d{1,5})")
_URL: Final = regex.compile(r"https?://", regex.IGNORECASE)
# What people write instead of brokers: its form, and what to write; the first that fits counts.
_WRONG: Final = (
    (regex.compile(".*@"), "No broker's address has '@': a login is in sasl.jaas.config."),
    (_URL, "That is the address of a page: write '{bare}'."),
    (regex.compile(r"[\w.-]+$"), "'{server}' has no port, which often is 9092: '{server}:9092'."),
    (regex.compile(r".*[; ]"), "Put commas between brokers: '{listed}'."),
    (regex.compile(r"$"), "Between two commas is none."),
    (regex.compile(""), "'{server}' is not of that form."),
)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def unknown_names(properties: Mapping[str, str]) -> Iterator[Problem]:
    """The problems with names that no client has, or only one kind of them."""
    for name in properties:
        if name not in CLUSTER_NAMES and not name.startswith(ROLE_PREFIXES):
            near = did_you_mean(name, [*CLUSTER_NAMES, *ROLES])
            roles = "Properties of a single client stand under consumer, producer or admin."
            yield Problem(name, "is not a property that a cluster's clients share", near or roles)


def wrong_values(properties: Mapping[str, str]) -> Iterator[Problem]:
    """The problems with values, as far as they are no references."""
    servers = properties.get("bootstrap.servers", "").strip()
    if not servers:
        # An Airflow connection may have it, which is not read before clients are created.
        if not properties.get(AIRFLOW_CONNECTION):
            advice = "List brokers as host:port, host:port."
            yield Problem("bootstrap.servers", "is required", advice)
    elif wrong := wrong_brokers(servers):
        yield Problem("bootstrap.servers", "must list brokers as host:port, host:port", wrong)
    for role in ("", *ROLE_PREFIXES):
        protocol = properties.get(f"{role}security.protocol", "PLAINTEXT")
        if protocol.upper() not in _PROTOCOLS:
            near = did_you_mean(protocol.upper(), _PROTOCOLS)
            reason = f"must be one of {', '.join(_PROTOCOLS)}"
            yield Problem(f"{role}security.protocol", reason, near)
        yield from _wrong_login(properties, role)
    yield from wrong_registry(properties)


def _wrong_login(properties: Mapping[str, str], role: str) -> Iterator[Problem]:
    """What is wrong with the form of a login, and with the name of its mechanism."""
    own = {key: value for key, value in properties.items() if not key.startswith(ROLE_PREFIXES)}
    own |= {k.removeprefix(role): it for k, it in properties.items() if role and k.startswith(role)}
    is_whole = not properties.get(AIRFLOW_CONNECTION)
    protocol, mechanism = own.get("security.protocol", ""), own.get("sasl.mechanism", "")
    keys = [key for key in ("sasl.mechanism", JAAS) if f"{role}{key}" in properties]
    if is_whole and keys and not protocol:
        reason = f"is required where there is {keys[0]}: without it, no client logs in"
        yield Problem(
            f"{role}security.protocol", reason, "Set it to SASL_SSL, or to PLAINTEXT if none is to."
        )
    if not uses_sasl(own):
        return
    if f"{role}sasl.mechanism" in properties and mechanism not in MECHANISMS:
        near = did_you_mean(mechanism.upper(), MECHANISMS)
        yield Problem(f"{role}sasl.mechanism", f"must be one of {', '.join(MECHANISMS)}", near)
    if is_whole and (keys or f"{role}security.protocol" in properties):
        yield from (it._replace(key=f"{role}{it.key}") for it in wrong_credentials(own))


def wrong_brokers(servers: str) -> str:
    """What is wrong with the first of the brokers that is none, in a sentence; nothing where all of them are."""
    return next(filter(None, (_wrong_broker(server.strip()) for server in servers.split(","))), "")


def _wrong_broker(server: str) -> str:
    """What is wrong with one of the brokers, in a sentence; nothing where it is one."""
    match = None if _URL.match(server) else _BROKER.fullmatch(server)
    if match is None:
        return next(
            sentence.format(**_parts(server)) for form, sentence in _WRONG if form.match(server)
        )
    if 0 < int(match["port"]) < 65536:
        return ""
    return f"The port of '{server}' is not between 1 and 65535."


def _parts(server: str) -> dict[str, str]:
    bare = _URL.sub("", server).split("/")[0]
    return {
        "server": server,
        "bare": bare if ":" in bare else f"{bare}:9092",
        "listed": ", ".join(regex.split("[; ]+", server)),
    }
