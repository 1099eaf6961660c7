"""Which scope and name a key of a MirrorMaker 2 ``.properties`` file means.

A scope is empty (all clusters and flows), a cluster (``primary.``) or a flow
(``primary->backup.``). Aliases may hold dots and be each other's beginnings, so a key may be read
in several ways: the longest scope in which the rest is a known name wins, the empty one comes
last. What MirrorMaker 2 knows where: ``MirrorMakerConfig``, ``MirrorConnectorConfig``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, Literal, NamedTuple

import regex

from kafka_ferry.config.flow import OPTIONS
from kafka_ferry.config.problems import Problem, did_you_mean
from kafka_ferry.config.vocabulary import (
    CONNECTION_NAMES,
    REMOVED,
    ROLE_PREFIXES,
    WITHOUT_EFFECT,
    is_without_effect,
)

SIDES: Final = ("source", "target")


class _Known(NamedTuple):
    """The names of one kind of scope: those that count, and those that MirrorMaker 2 drops."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    dropped_names: frozenset[str] = frozenset()
    dropped_prefixes: tuple[str, ...] = ()


_SIDE_PREFIXES: Final = tuple(f"{side}.{role}" for side in SIDES for role in ROLE_PREFIXES)
_SIDE_CLUSTERS: Final = tuple(f"{side}.cluster." for side in SIDES)
_SIDE_NAMES: Final = frozenset(
    f"{side}{name}" for side in _SIDE_CLUSTERS for name in CONNECTION_NAMES
)

_KNOWN: Final[dict[str, _Known]] = {
    "all": _Known(
        names=CONNECTION_NAMES.union(OPTIONS, {"clusters"}),
        dropped_prefixes=(*ROLE_PREFIXES, *_SIDE_PREFIXES, *_SIDE_CLUSTERS),
    ),
    "cluster": _Known(names=CONNECTION_NAMES, prefixes=ROLE_PREFIXES),
    "flow": _Known(
        names=_SIDE_NAMES.union(OPTIONS),
        prefixes=(*ROLE_PREFIXES, *_SIDE_PREFIXES),
        # A connector has these options, and the clients that it starts do not read them.
        dropped_names=CONNECTION_NAMES,
        dropped_prefixes=_SIDE_CLUSTERS,
    ),
}


@dataclass
class Settings:
    """A file's values by scope and name, and its whole keys without effect by scope."""

    values: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    ignored: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def sort_by_scope(raw: Mapping[str, str], aliases: Sequence[str]) -> tuple[Settings, list[Problem]]:
    """A file's keys, sorted; keys that have no meaning come back as problems."""
    settings, problems = Settings(), []
    flows = [f"{source}->{target}." for source, target in permutations(aliases, 2)]
    scopes = sorted([*flows, *(f"{alias}." for alias in aliases)], key=len, reverse=True)
    for key, value in raw.items():
        readings = [(scope, key.removeprefix(scope)) for scope in scopes if key.startswith(scope)]
        if "->" not in key:
            readings.append(("", key))
        for scope, name in readings:
            use = _use(scope, name)
            if use == "counts":
                settings.values[scope][name] = value
            elif use == "dropped":
                settings.ignored[scope].append(key)
            if use:
                break
        else:
            problems.append(_unknown(key, aliases, readings))
    return settings, problems


def _kind(scope: str) -> str:
    if not scope:
        return "all"
    return "flow" if "->" in scope else "cluster"


def _use(scope: str, name: str) -> Literal["counts", "dropped"] | None:
    known = _KNOWN[_kind(scope)]
    if is_without_effect(name):
        return "dropped"
    if name in known.names or name.startswith(known.prefixes):
        return "counts"
    if name in known.dropped_names or name.startswith(known.dropped_prefixes):
        return "dropped"
    return None


def _unknown(key: str, aliases: Sequence[str], readings: Sequence[tuple[str, str]]) -> Problem:
    scope, name = readings[0] if readings else ("", key)
    if replacement := REMOVED.get(name):
        return Problem(key, "is no option since MirrorMaker 2 4.0", f"Use {scope}{replacement}.")
    if not scope:
        for alias in _aliases_meant(key):
            if alias not in aliases:
                advice = did_you_mean(alias, aliases) or f"It lists {', '.join(aliases)}."
                return Problem(key, f"alias {alias!r} is not in clusters", advice)
    if _kind(scope) == "cluster":
        if name in OPTIONS:
            advice = f"Write {name} or, for one flow, source->target.{name}."
            return Problem(key, "is an option of a flow, not of a cluster", advice)
        near = did_you_mean(name, CONNECTION_NAMES)
        advice = near or f"A client's own properties begin with {scope}consumer (producer, admin)."
        return Problem(key, "is no option of a cluster", advice)
    valid = [f"{scope}{option}" for option in {*OPTIONS, *WITHOUT_EFFECT, *_KNOWN["all"].names}]
    return Problem(key, "is no option of MirrorMaker 2 or Kafka Ferry", did_you_mean(key, valid))


def _aliases_meant(key: str) -> Sequence[str]:
    """The aliases that a key seems to name: a flow's two, or what precedes a client property."""
    source, arrow, rest = key.partition("->")
    if arrow:
        ends = [option for option in OPTIONS if rest.endswith(f".{option}")]
        end = max(ends, key=len) if ends else rest.partition(".")[2]
        return source.strip(), rest.removesuffix(f".{end}").strip()
    for dot in regex.finditer(r"\.", key):
        rest = key[dot.end() :]
        if rest in CONNECTION_NAMES or rest.startswith(ROLE_PREFIXES):
            return (key[: dot.start()],)
    return ()
