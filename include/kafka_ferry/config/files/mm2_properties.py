"""MirrorMaker 2's ``.properties`` files, read unchanged.

Format: ``java.util.Properties.load``.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Final

import javaproperties
import regex

from kafka_ferry.config.client.config_providers import PROVIDERS, Providers
from kafka_ferry.config.files.mm2_flows import FlowReader
from kafka_ferry.config.files.mm2_scopes import sort_by_scope
from kafka_ferry.config.files.places import properties_twins
from kafka_ferry.config.flow import Flow, names_of
from kafka_ferry.config.java_properties import read_text
from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.config.types.problems import (
    WHOLE_FILE,
    Problem,
    config_error,
    no_text,
    unknown_target,
)

_ALIASES: Final = "List the clusters' aliases, with commas between them: primary, backup."
_MOST_CLUSTERS: Final = 500
# Airflow takes back former ones of all flows at once, and PostgreSQL no more than 7,600: no flow is stored then.
_MOST_ASSETS: Final = 1_000
# For a wrong one, the most similar right one is looked for: some take a millisecond each.
_MOST_KEYS: Final = 10_000
_MOST_OF_SCOPE: Final = 1_000
# What a consumer's or producer's file has, and no flow's.
_OF_A_CLIENT: Final = frozenset({"group.id", "zookeeper.connect", "metadata.broker.list", "acks"})


def parse_flows(
    content: bytes, file: str, targets: Sequence[str] = (), name: str | None = None
) -> tuple[Flow, ...]:
    """The enabled flows of a file, in the order of its ``clusters``.

    Args:
        content: the file's content.
        file: its path.
        targets: only the flows into these clusters, where there are any.
        name: only the flow of this name or slug, where there is one. Keys that are only for other flows
            need not be valid.

    Raises:
        ConfigError: the file is invalid; all its problems are listed.
    """
    reader, pairs = _open(content, file, tuple(targets))
    reader = reader.again()
    matching = [pair for pair in pairs if name in names_of(*pair)]
    if reason := reader.too_many(pairs):
        raise config_error(file, Problem(WHOLE_FILE, reason, "Divide it into several files."))
    flows = [reader.flow(*pair) for pair in matching or pairs]
    problems = reader.problems
    assets = sum(len(flow.schedule_assets) for flow in flows if flow)
    if assets > _MOST_ASSETS:
        reason = f"names {assets:,} in all flows, and a file may name {_MOST_ASSETS:,}"
        problems.append(Problem("schedule.assets", reason, "Divide it into several files."))
    if problems:
        raise config_error(file, *problems)
    return tuple(flow for flow in flows if flow)


def flow_names(content: bytes, file: str) -> list[str]:
    """The names of a file's enabled flows, in the order of its ``clusters``.

    Raises:
        ConfigError: as ``parse_flows``, but for what is wrong with single flows.
    """
    return [names_of(*pair)[0] for pair in _open(content, file, ())[1]]


# Of a file with many flows, each has its opposite one looked for.
@lru_cache(maxsize=1)
def _open(
    content: bytes, file: str, targets: Sequence[str]
) -> tuple[FlowReader, list[tuple[str, str]]]:
    """A file's sorted keys, and source and target of each enabled flow."""
    raw, problems = read_properties(content, file), list[Problem]()
    if len(raw) > _MOST_KEYS:
        reason = f"has {len(raw):,} keys, and may have {_MOST_KEYS:,}"
        raise config_error(file, Problem(WHOLE_FILE, reason, "Divide it into several files."))
    for key, value in raw.items():
        if problem := no_text(repr(key)[1:-1], key + value):
            raise config_error(file, problem)
    providers = _providers(raw, problems)
    aliases = _aliases(raw, providers, file)
    if problem := unknown_target(targets, aliases):
        raise config_error(file, problem)
    if len(aliases) > _MOST_CLUSTERS:
        reason = f"lists {len(aliases):,} clusters, and a file may have {_MOST_CLUSTERS}"
        raise config_error(file, Problem("clusters", reason, "Divide it into several files."))
    settings, unknown = sort_by_scope(raw, aliases)
    for scope in settings.values.keys() | settings.ignored.keys():
        # Each flow has those of its clusters, and those without one.
        size = max(len(settings.values[scope]), len(settings.ignored[scope]))
        if size > _MOST_OF_SCOPE:
            reason = f"has {size:,} keys, and may have {_MOST_OF_SCOPE:,}"
            raise config_error(file, Problem(scope.rstrip(".") or WHOLE_FILE, reason))
    unknown = [_explain_blank(problem, raw) for problem in unknown]
    problems += unknown
    settings.ignored[""] += properties_twins(content)
    for twin in sorted(
        alias for alias, many in Counter(split_list(raw["clusters"])).items() if many > 1
    ):
        if unknown:
            problems.append(
                Problem("clusters", f"lists {twin!r} twice", "Is one of the two another?")
            )
        settings.ignored[""].append((f"the second {twin} in clusters", "it is one cluster"))
    reader = FlowReader(file, settings, providers, problems)
    pairs = [pair for pair in permutations(aliases, 2) if not targets or pair[1] in targets]
    return reader, [pair for pair in pairs if reader.is_enabled(*pair)]


def _explain_blank(problem: Problem, raw: Mapping[str, str]) -> Problem:
    """The problem with a key that its own blank has ended, such as ``a -> b.topics``: as for Java."""
    rest = raw.get(problem.key, "")
    if not rest.startswith("->"):
        return problem
    meant = "".join([problem.key, *rest.partition("=")[0].split()])
    return problem._replace(advice=f"A key ends at its first blank: write {meant}.")


def read_properties(content: bytes, file: str) -> dict[str, str]:
    """Keys and trimmed values as Java reads them: Latin-1, and the last of equal keys counts.

    A byte order mark, which editors put before text in UTF-8, is no part of the first key.

    Raises:
        ConfigError: a ``\\u`` escape is not complete, or the file holds nothing.
    """
    try:
        read = read_text(content.removeprefix(BOM_UTF8).decode("latin-1"))
    except javaproperties.InvalidUEscapeError:
        problem = Problem(WHOLE_FILE, "has a \\u without four hex digits")
        raise config_error(file, problem) from None
    if not read:
        raise config_error(file, Problem(WHOLE_FILE, "is empty", "It needs clusters and a flow."))
    return {key: value.strip() for key, value in read.items()}


def parse_aliases(content: bytes, file: str) -> tuple[str, ...]:
    """The file's ``clusters``.

    Raises:
        ConfigError: there are none.
    """
    raw = read_properties(content, file)
    return tuple(_aliases(raw, _providers(raw, []), file))


def _providers(raw: Mapping[str, str], problems: list[Problem]) -> Providers:
    settings = {key: value for key, value in raw.items() if key.startswith(PROVIDERS)}
    return Providers.declare(settings, problems)


def _aliases(raw: Mapping[str, str], providers: Providers, file: str) -> list[str]:
    listed = raw.get("clusters", "")
    if problem := providers.wrong("clusters", listed, of_client=False):
        raise config_error(file, problem)
    aliases = split_list(listed)
    if not aliases:
        advice = _ALIASES
        if "source" in raw and not raw["source"]:
            advice = "Is the file YAML? Then its name has to end in .yaml."
        elif _OF_A_CLIENT.intersection(raw):
            advice = (
                "Is it the file of a client of MirrorMaker 1? Then: ferry mirror-maker --consumer.config "
                "consumer.properties --producer.config producer.properties --include 'orders.*'."
            )
        raise config_error(file, Problem("clusters", "is required", advice))
    for alias in aliases:
        if not regex.fullmatch(r"[A-Za-z0-9._-]+", alias):
            raise config_error(
                file, Problem("clusters", f"{alias!r} is not a valid alias", _ALIASES)
            )
    return list(dict.fromkeys(aliases))


def enabling_line(content: bytes, file: str, targets: Sequence[str]) -> str:
    """What to write into a file that enables no flow.

    Args:
        content: the file's content.
        file: its path.
        targets: the clusters that the flow has to be into, where there are any.
    """
    pairs = permutations(parse_aliases(content, file), 2)
    source, target = next(
        (pair for pair in pairs if not targets or pair[1] in targets), ("source", "target")
    )
    return f"Write {source}->{target}.enabled = true."
