"""MirrorMaker 2's ``.properties`` files, read unchanged and with MirrorMaker 2's precedence.

Format: ``java.util.Properties.load``. Precedence: ``MirrorMakerConfig.connectorBaseConfig`` and
what ``MirrorConnectorConfig`` makes of it for each client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Final

import javaproperties
import regex
from pydantic import ValidationError

from kafka_ferry.config.flow import OPTIONS, Flow
from kafka_ferry.config.patterns import split_list
from kafka_ferry.config.problems import WHOLE_FILE, Problem, config_error, problems_of
from kafka_ferry.config.scopes import Settings, sort_by_scope
from kafka_ferry.config.vocabulary import CONNECTION_NAMES, ROLE_PREFIXES

# MirrorMaker 2 has it as a property of the source's consumer, the flow as an option of its own.
_ISOLATION: Final = "isolation.level"


def parse_flows(content: bytes, file: str) -> tuple[Flow, ...]:
    """All enabled flows of a file, in the order of its ``clusters``.

    Raises:
        ConfigError: the file is no such file; all that is wrong with it is listed.
    """
    raw = read_properties(content, file)
    aliases = _aliases(raw, file)
    settings, problems = sort_by_scope(raw, aliases)
    flows: list[Flow] = []
    for source, target in permutations(aliases, 2):
        enabled = _enabled(settings, f"{source}->{target}.")
        if isinstance(enabled, Problem):
            problems.append(enabled)
        elif enabled:
            flow = _flow(settings, source, target, file)
            if isinstance(flow, Flow):
                flows.append(flow)
            else:
                problems += flow
    if problems:
        raise config_error(file, *problems)
    return tuple(flows)


def read_properties(content: bytes, file: str) -> dict[str, str]:
    """Keys and trimmed values as Java reads them: Latin-1, and the last of equal keys counts.

    Raises:
        ConfigError: a ``\\u`` escape is not complete, or the file holds nothing.
    """
    try:
        read = javaproperties.loads(content)
    except javaproperties.InvalidUEscapeError:
        problem = Problem(WHOLE_FILE, "has a \\u without four hex digits")
        raise config_error(file, problem) from None
    if not read:
        raise config_error(file, Problem(WHOLE_FILE, "is empty", "It needs clusters and a flow."))
    return {key: value.strip() for key, value in read.items()}


def _aliases(raw: Mapping[str, str], file: str) -> list[str]:
    aliases = split_list(raw.get("clusters", ""))
    if not aliases:
        raise config_error(file, Problem("clusters", "is required", "List the clusters' aliases."))
    for alias in aliases:
        if not regex.fullmatch(r"[A-Za-z0-9._-]+", alias):
            raise config_error(file, Problem("clusters", f"{alias!r} is no valid alias"))
    return list(dict.fromkeys(aliases))


def _enabled(settings: Settings, scope: str) -> bool | Problem:
    for place in (scope, ""):
        value = settings.values[place].get("enabled", "").lower()
        if value in ("true", "false"):
            return value == "true"
        if "enabled" in settings.values[place]:
            return Problem(f"{place}enabled", "must be true or false")
    return False


def _flow(settings: Settings, source: str, target: str, file: str) -> Flow | list[Problem]:
    scope = f"{source}->{target}."
    # Where each option is set; what a flow says for itself wins.
    places = {name: place for place in ("", scope) for name in settings.values[place]}
    places = {name: place for name, place in places.items() if name in OPTIONS}
    aliases = {"source": source, "target": target}

    def key_of(path: Sequence[str]) -> str:
        first, *rest = path or ("",)
        if first in aliases:
            return ".".join((aliases[first], *rest))
        return places.get(first, scope) + ".".join(path)

    clusters = {side: _cluster(settings, side, alias, scope) for side, alias in aliases.items()}
    data: dict[str, object] = {name: settings.values[place][name] for name, place in places.items()}
    isolation = clusters["source"].pop(f"consumer.{_ISOLATION}", None)
    if isolation is not None and _ISOLATION not in places:
        data[_ISOLATION], places[_ISOLATION] = isolation, f"{source}.consumer."
    for side, alias in aliases.items():
        data[side] = {"alias": alias, "properties": clusters[side]}
    data["file"] = file
    scopes = ("", f"{source}.", f"{target}.", scope)
    data["ignored"] = [key for place in scopes for key in settings.ignored[place]]
    try:
        return Flow.model_validate(data)
    except ValidationError as error:
        return problems_of(error, key_of)


def _cluster(settings: Settings, side: str, alias: str, scope: str) -> dict[str, str]:
    """A cluster's properties in one flow, in MirrorMaker 2's order (the later wins)."""
    top, own, flow = (settings.values[place] for place in ("", f"{alias}.", scope))
    shared = {name: value for name, value in (top | own).items() if name in CONNECTION_NAMES}
    result = shared | _below(f"{side}.cluster.", flow)
    for role in ROLE_PREFIXES:
        # MirrorMaker 2 hands a cluster's shared names to each kind of client before the flow's
        # own properties of that kind come in, so these cannot replace them.
        special = _below(role, flow) | shared | _below(role, own) | _below(f"{side}.{role}", flow)
        if (side, role) == ("target", "producer."):  # the data's producer is Connect's
            special |= _below("producer.override.", flow)
        result |= {
            f"{role}{name}": value
            for name, value in special.items()
            if result.get(name) != value and not name.startswith("override.")
        }
    return result


def _below(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
