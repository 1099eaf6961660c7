"""MirrorMaker 1's property files: its consumers, its producer, its topics.

They are those of ``kafka.tools.MirrorMaker`` up to Kafka 3.9 and of the mirror inside Kafka 0.7's broker.
What each of their properties becomes here: ``mm1_keys``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import regex
from pydantic import ValidationError

from kafka_ferry.config.client.cluster import ClientProperties, Cluster
from kafka_ferry.config.client.config_providers import PROVIDERS, Providers
from kafka_ferry.config.client.property_names import CONNECTION_NAMES
from kafka_ferry.config.files.mm1_keys import (
    BROKER_LISTS,
    CARRIED,
    RENAMED,
    WITHOUT_MEANING,
    ZOOKEEPER,
)
from kafka_ferry.config.files.mm2_properties import read_properties
from kafka_ferry.config.options.copy import IsolationLevelName
from kafka_ferry.config.types.name_filter import PatternError, compile_patterns
from kafka_ferry.config.types.problems import (
    WHOLE_FILE,
    Problem,
    config_error,
    did_you_mean,
    problems_of,
)
from kafka_ferry.config.types.values import INTERNAL_TOPICS

ResetName = Literal["earliest", "latest"]

_WHITELIST: Final = "mirror.topics.whitelist"
_BLACKLIST: Final = "mirror.topics.blacklist"
_THREADS: Final = "mirror.consumer.numthreads"
_INTERNAL: Final = "exclude.internal.topics"
_ISOLATION: Final = "isolation.level"
_LEVELS: Final[tuple[IsolationLevelName, ...]] = get_args(IsolationLevelName)
_RESETS: Final = ("auto.offset.reset", "autooffset.reset")
_RESET_VALUES: Final[Mapping[str, ResetName]] = {
    "earliest": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "largest": "latest",
}
# Not groupid and mirror.topics.*, which remained in files for later releases.
_OF_0_7: Final = frozenset({"zk.connect", "autooffset.reset"})
_READ: Final = frozenset({*_RESETS, _WHITELIST, _BLACKLIST, _THREADS, _INTERNAL, _ISOLATION})
_PLACE: Final = "command line"
_OURS: Final = (r"ferry-ledger\..*\.internal", r"ferry-dead-letter\..*\.internal")


class Remark(NamedTuple):
    """A property with another effect here than there, with the reason or what replaces it."""

    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


@dataclass(frozen=True)
class MirrorClient:
    """One property file: a cluster, and its other settings.

    Attributes:
        file: its path.
        properties: a ``Cluster``'s properties, by Java names; those that all clients share at the top,
            the rest under the kind of client.
        remarks: the properties with another meaning here, or none.
    """

    file: str
    properties: ClientProperties
    remarks: tuple[Remark, ...]

    def cluster(self, alias: str) -> Cluster:
        """The cluster under the given alias; the file has none.

        Raises:
            ValidationError: the alias is invalid.
        """
        return Cluster(alias=alias, properties=self.properties)


@dataclass(frozen=True)
class MirrorSource(MirrorClient):
    """A consumer's property file.

    Attributes:
        isolation_level: the file's, None without one; MirrorMaker 1 then read everything.
        auto_offset_reset: the file's, in today's terms, None without one.
        default_auto_offset_reset: the default of the mirror that the file was written for.
        streams: how many threads Kafka 0.7's mirror read with, None where the file does not say.
        whitelist: the topics that Kafka 0.7's mirror copied, None where the file does not say.
        blacklist: those that it left out.
    """

    isolation_level: IsolationLevelName | None = None
    auto_offset_reset: ResetName | None = None
    default_auto_offset_reset: ResetName = "latest"
    streams: int | None = None
    whitelist: str | None = None
    blacklist: str | None = None


def read_source(path: str | Path) -> MirrorSource:
    """Reads a consumer's property file.

    Raises:
        ConfigError: it cannot be read, names no brokers, or has a wrong value.
    """
    file, raw = str(path), _read(path)
    problems: list[Problem] = []
    number = _positive(raw, problems)
    isolation = _isolation(raw, problems)
    reset = _reset(raw, problems)
    internal = raw.get(_INTERNAL, "true").lower()
    if internal not in ("true", "false"):
        problems.append(Problem(_INTERNAL, "must be true or false"))
    properties, remarks = _client(raw, "consumer", problems)
    if internal == "false":
        why = "Kafka's own topics are never copied: the target has its own groups and transactions"
        remarks.append(Remark(_INTERNAL, why))
    if problems:
        raise config_error(file, *problems)
    return MirrorSource(
        file=file,
        properties=properties,
        remarks=tuple(remarks),
        isolation_level=isolation,
        auto_offset_reset=reset,
        default_auto_offset_reset="earliest" if _OF_0_7.intersection(raw) else "latest",
        streams=number,
        whitelist=raw.get(_WHITELIST) or None,
        blacklist=raw.get(_BLACKLIST) or None,
    )


def read_target(path: str | Path) -> MirrorClient:
    """Reads the producer's property file.

    Raises:
        ConfigError: it cannot be read, names no brokers, or has a wrong value.
    """
    file, raw = str(path), _read(path)
    problems: list[Problem] = []
    properties, remarks = _client(raw, "producer", problems)
    if problems:
        raise config_error(file, *problems)
    return MirrorClient(file, properties, tuple(remarks))


def _read(path: str | Path) -> dict[str, str]:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        problem = Problem(WHOLE_FILE, f"cannot be read: {error.strerror}")
        raise config_error(str(path), problem) from None
    raw = read_properties(content, str(path))
    # As the Java clients do since 2.4 (KIP-421).
    problems: list[Problem] = []
    provider_settings = {key: value for key, value in raw.items() if key.startswith(PROVIDERS)}
    providers = Providers.declare(provider_settings, problems)
    for key, value in raw.items():
        if wrong := providers.wrong(key, value, of_client=key not in _READ):
            problems.append(wrong)
    if problems:
        raise config_error(str(path), *problems)
    resolved = {
        key: providers.resolve(key, value, problems)
        for key, value in raw.items()
        if key not in provider_settings
    }
    if problems:
        raise config_error(str(path), *problems)
    return resolved


def _client(
    raw: Mapping[str, str], role: Literal["consumer", "producer"], problems: list[Problem]
) -> tuple[ClientProperties, list[Remark]]:
    """The cluster's properties, and a remark on each that has no place among them."""
    brokers = _brokers(raw, problems)
    properties = {"bootstrap.servers": brokers} if brokers else {}
    remarks: list[Remark] = []
    for key, value in raw.items():
        name = RENAMED.get(key, key)
        if key in BROKER_LISTS or (role == "consumer" and key in _READ):
            continue
        if name in CONNECTION_NAMES:
            properties[name] = value
        elif name in CARRIED:
            if name == key or name not in raw:
                properties[f"{role}.{name}"] = value
        else:
            remarks.append(Remark(key, WITHOUT_MEANING.get(key) or _unknown(key)))
    if not problems:
        problems += _wrong(properties, raw)
    return ClientProperties(properties), remarks


def _unknown(key: str) -> str:
    known = {*CONNECTION_NAMES, *CARRIED, *RENAMED, *WITHOUT_MEANING, *_READ}
    return f"is unknown. {did_you_mean(key, known)}".rstrip()


def _wrong(properties: Mapping[str, str], raw: Mapping[str, str]) -> list[Problem]:
    """A cluster's errors, under the file's keys."""
    try:
        Cluster(alias="any", properties=ClientProperties(properties))
    except ValidationError as error:
        brokers = next((key for key in BROKER_LISTS if raw.get(key)), BROKER_LISTS[0])
        return problems_of(error, lambda path: brokers if path[-1] == BROKER_LISTS[0] else path[-1])
    return []


def _brokers(raw: Mapping[str, str], problems: list[Problem]) -> str:
    for key in BROKER_LISTS:
        if servers := raw.get(key, ""):
            # 0.7 wrote id:host:port.
            return str(regex.sub(r"(^|,)\s*\d+:([^:,]+:\d+)(?=\s*(,|$))", r"\1\2", servers))
    for key in ZOOKEEPER:
        if key in raw:
            reason = "clients no longer find brokers through ZooKeeper"
            advice = "Add bootstrap.servers = host:port with brokers of that cluster."
            problems.append(Problem(key, reason, advice))
            return ""
    near = next((did_you_mean("bootstrap.servers", [key]) and key for key in raw), "")
    advice = (
        f"{near!r} is not such a property." if near else "Name brokers as host:port, host:port."
    )
    problems.append(Problem("bootstrap.servers", "is required", advice))
    return ""


def _positive(raw: Mapping[str, str], problems: list[Problem]) -> int | None:
    text = raw.get(_THREADS)
    if text is None:
        return None
    if not regex.fullmatch(r"0*[1-9][0-9]{0,8}", text):
        problems.append(Problem(_THREADS, "must be a whole number of at least 1"))
        return None
    return int(text)


def _isolation(raw: Mapping[str, str], problems: list[Problem]) -> IsolationLevelName | None:
    level = raw.get(_ISOLATION)
    for known in _LEVELS:
        if level == known:
            return known
    if level is not None:
        problems.append(Problem(_ISOLATION, f"must be {' or '.join(_LEVELS)}"))
    return None


def _reset(raw: Mapping[str, str], problems: list[Problem]) -> ResetName | None:
    for key in _RESETS:
        if key in raw:
            reset = _RESET_VALUES.get(raw[key])
            if reset is None:
                advice = "A partition that was never copied needs a starting point."
                problems.append(Problem(key, f"must be one of {', '.join(_RESET_VALUES)}", advice))
            return reset
    return None


class MirroredTopics(NamedTuple):
    """The topics of a mirror, as the options ``topics`` and ``topics.exclude`` of a flow."""

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]


def mirrored_topics(whitelist: str | None, blacklist: str | None) -> MirroredTopics:
    """The topics that a whitelist names, or those that a blacklist does not.

    A list is one Java regular expression, matched against whole names, in which a comma is another way
    to write ``|``; spaces do not count, nor do quotes around it (``kafka.consumer.TopicFilter``).
    Kafka's own topics and Kafka Ferry's are left out.

    Raises:
        ConfigError: none of the two is given, or both are, or the expression is not valid.
    """
    if (whitelist is None) == (blacklist is None):
        key = "whitelist" if whitelist is None else "blacklist"
        reason = "neither it nor blacklist is given" if whitelist is None else "is given as well"
        raise config_error(_PLACE, Problem(key, reason, "Give exactly one of the two."))
    key, text = ("whitelist", whitelist) if blacklist is None else ("blacklist", blacklist)
    pattern = _as_pattern(text or "")
    try:
        compile_patterns([pattern])
    except PatternError as error:
        raise config_error(_PLACE, Problem(key, str(error))) from None
    if not pattern:
        raise config_error(_PLACE, Problem(key, "names no topic", "Any topic is '.*'."))
    if key == "whitelist":
        return MirroredTopics((pattern,), (*INTERNAL_TOPICS, *_OURS))
    return MirroredTopics((".*",), (pattern, *INTERNAL_TOPICS, *_OURS))


def _as_pattern(text: str) -> str:
    pattern = text.strip().replace(",", "|").replace(" ", "")
    return pattern.lstrip("\"'").rstrip("\"'")
