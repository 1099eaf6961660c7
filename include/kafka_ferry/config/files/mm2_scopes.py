"""Which scope and name a key of a MirrorMaker 2 ``.properties`` file means.

A scope is empty (all clusters and flows), a cluster (``primary.``) or a flow
(``primary->backup.``). Aliases may hold dots and be prefixes of each other, so a key may be read in
several ways: the longest scope in which the rest is a known name wins, the empty one comes last. The
names of each scope: ``MirrorMakerConfig``, ``MirrorConnectorConfig``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import regex

from kafka_ferry.config.client.config_providers import PROVIDERS
from kafka_ferry.config.client.property_names import (
    CLUSTER_NAMES,
    CONNECTION_NAMES,
    IGNORED_CONNECTION_NAMES,
    ROLE_PREFIXES,
)
from kafka_ferry.config.files.mm2_keys import FIXED, KEYS, REMOVED, why_client_ignores, why_ignored
from kafka_ferry.config.files.mm2_transforms import PREDICATES
from kafka_ferry.config.files.mm2_transforms import PREFIXES as TRANSFORM_PREFIXES
from kafka_ferry.config.flow import OPTIONS
from kafka_ferry.config.types.problems import Problem, did_you_mean

SIDES: Final = ("source", "target")


class _Known(NamedTuple):
    """The names of one kind of scope: those that count, and those that MirrorMaker 2 ignores, and why."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    dropped: Mapping[str, str] = {}
    dropped_prefixes: Mapping[str, str] = {}


_SIDE_PREFIXES: Final = tuple(f"{side}.{role}" for side in SIDES for role in ROLE_PREFIXES)
_SIDE_CLUSTERS: Final = tuple(f"{side}.cluster." for side in SIDES)
_SIDE_NAMES: Final = frozenset(
    f"{side}{name}" for side in _SIDE_CLUSTERS for name in CONNECTION_NAMES
)
_AFTER_ALIAS: Final = "MirrorMaker 2 reads it only after a cluster's alias"
_AFTER_FLOW: Final = "MirrorMaker 2 reads it only after source->target"
_BEFORE_CLUSTER: Final = "MirrorMaker 2's clients read it only after a cluster's alias"
_NOT_CONNECTING: Final = "MirrorMaker 2 reads there only how to connect and to log in"
_NO_OPTION: Final = "is not an option of MirrorMaker 2 or Kafka Ferry"
# To look for what is meant takes a millisecond.
_MOST_ADVISED: Final = 200
_OF_NO_CLUSTER: Final = "it is not a property of a cluster"
_AT_TOP: Final = "it is read only without a cluster or a flow before it"

_KNOWN: Final[dict[str, _Known]] = {
    "all": _Known(
        names=CONNECTION_NAMES.union(OPTIONS, FIXED, {PREDICATES, "clusters", PROVIDERS}),
        prefixes=(f"{PROVIDERS}.", "replication.policy."),
        dropped_prefixes={
            **dict.fromkeys(ROLE_PREFIXES, _AFTER_ALIAS),
            **dict.fromkeys((*_SIDE_PREFIXES, *_SIDE_CLUSTERS, *TRANSFORM_PREFIXES), _AFTER_FLOW),
        },
    ),
    "cluster": _Known(
        names=CLUSTER_NAMES,
        prefixes=ROLE_PREFIXES,
        dropped=dict.fromkeys((*FIXED, PREDICATES), _OF_NO_CLUSTER),
        dropped_prefixes=dict.fromkeys(TRANSFORM_PREFIXES, _OF_NO_CLUSTER),
    ),
    "flow": _Known(
        names=_SIDE_NAMES.union(OPTIONS, FIXED, {PREDICATES}),
        prefixes=(*ROLE_PREFIXES, *_SIDE_PREFIXES, *TRANSFORM_PREFIXES, "replication.policy."),
        # A connector has these options, and the clients that it starts do not read them.
        dropped=dict.fromkeys(CONNECTION_NAMES, _BEFORE_CLUSTER) | {PROVIDERS: _AT_TOP},
        dropped_prefixes={
            **dict.fromkeys(_SIDE_CLUSTERS, _NOT_CONNECTING),
            f"{PROVIDERS}.": _AT_TOP,
        },
    ),
}


@dataclass
class Settings:
    """A file's values by scope and name, and by scope its whole keys without effect, with the reason."""

    values: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    ignored: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))


def sort_by_scope(raw: Mapping[str, str], aliases: Sequence[str]) -> tuple[Settings, list[Problem]]:
    """A file's keys, sorted; keys that have no meaning come back as problems."""
    settings, problems = Settings(), list[Problem]()
    for key, value in raw.items():
        readings = [(scope, key.removeprefix(scope)) for scope in _scopes_of(key, aliases)]
        if "->" not in key:
            readings.append(("", key))
        for scope, name in readings:
            counts, why = _counts(scope, name), _why_ignored(scope, name)
            if counts:
                settings.values[scope][name] = value
            if why:
                settings.ignored[scope].append((key, why))
            if counts or why:
                break
        else:
            is_advised = len(problems) < _MOST_ADVISED
            problems.append(
                _unknown(key, aliases, readings) if is_advised else Problem(key, _NO_OPTION)
            )
    return settings, problems


def _scopes_of(key: str, aliases: Sequence[str]) -> list[str]:
    """The clusters and flows that a key may begin with, the longest first.

    Looked for in the key, and not among all pairs of clusters: 500 have a quarter of a million.
    """
    source, arrow, rest = key.partition("->")
    scopes = [scope for alias in aliases if key.startswith(scope := f"{alias}.")]
    if arrow and source in aliases:
        scopes += [
            f"{source}->{target}."
            for target in aliases
            if target != source and rest.startswith(f"{target}.")
        ]
    return sorted(scopes, key=len, reverse=True)


def _kind(scope: str) -> str:
    if not scope:
        return "all"
    return "flow" if "->" in scope else "cluster"


def _counts(scope: str, name: str) -> bool:
    known = _KNOWN[_kind(scope)]
    if why_ignored(name) is not None:
        return False
    return name in known.names or name.startswith(known.prefixes)


def _why_ignored(scope: str, name: str) -> str | None:
    """Why a key of MirrorMaker 2 has no effect; a client's property without effect is passed on."""
    if why := why_ignored(name):
        return why
    known = _KNOWN[_kind(scope)]
    if why := known.dropped.get(name):
        return why
    for prefix, why in known.dropped_prefixes.items():
        if name.startswith(prefix) and name not in known.names:
            return why
    of_clients = {*known.prefixes}.intersection((*ROLE_PREFIXES, *_SIDE_PREFIXES))
    role = next((prefix for prefix in of_clients if name.startswith(prefix)), "")
    bare = name.removeprefix(role).removeprefix("override.")
    for prefix in _SIDE_CLUSTERS:
        bare = bare.removeprefix(prefix)
    return IGNORED_CONNECTION_NAMES.get(bare) or (why_client_ignores(bare) if role else None)


def _unknown(key: str, aliases: Sequence[str], readings: Sequence[tuple[str, str]]) -> Problem:
    scope, name = readings[0] if readings else ("", key)
    if replacement := REMOVED.get(name):
        return Problem(
            key, "is not an option since MirrorMaker 2 4.0", f"Use {scope}{replacement}."
        )
    if not scope:
        for alias in _aliases_meant(key):
            if alias not in aliases:
                advice = did_you_mean(alias, aliases) or f"clusters lists {', '.join(aliases)}."
                return Problem(key, f"alias {alias!r} is not in clusters", advice)
    if _kind(scope) == "cluster":
        if name in OPTIONS:
            advice = f"Write {name} or, for one flow, source->target.{name}."
            return Problem(key, "is an option of a flow, not of a cluster", advice)
        target, _, option = name.partition(".")
        near = did_you_mean(name, CLUSTER_NAMES)
        if target in aliases and option in {*OPTIONS, *KEYS, *_KNOWN["all"].names}:
            near = f"Did you mean '{scope.removesuffix('.')}->{name}'?"
        advice = near or f"A client's own properties begin with {scope}consumer (producer, admin)."
        return Problem(key, "is not an option of a cluster", advice)
    valid = [f"{scope}{option}" for option in {*OPTIONS, *KEYS, *_KNOWN["all"].names}]
    near = did_you_mean(key, valid)
    for removed, replacement in REMOVED.items():
        if not near and did_you_mean(name, [removed], cutoff=0.85):
            near = f"Did you mean {scope + replacement!r}?"
    return Problem(key, _NO_OPTION, near)


def _aliases_meant(key: str) -> Sequence[str]:
    """The aliases that a key seems to name: a flow's two, or what precedes a client property."""
    source, arrow, rest = key.partition("->")
    if arrow:
        ends = [option for option in OPTIONS if rest.endswith(f".{option}")]
        end = max(ends, key=len) if ends else rest.partition(".")[2]
        return source.strip(), rest.removesuffix(f".{end}").strip()
    for dot in regex.finditer(r"\.", key):
        rest = key[dot.end() :]
        if rest in CLUSTER_NAMES or rest.startswith(ROLE_PREFIXES):
            return (key[: dot.start()],)
    return ()
