"""The flows of a MirrorMaker 2 ``.properties`` file, from its keys as ``mm2_scopes`` has sorted them.

Precedence: ``MirrorMakerConfig.connectorBaseConfig`` and what ``MirrorConnectorConfig`` makes of it for each client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from kafka_ferry.config.client.config_providers import Providers
from kafka_ferry.config.client.property_names import (
    AIRFLOW_CONNECTION,
    CLUSTER_NAMES,
    ROLE_PREFIXES,
)
from kafka_ferry.config.files.mm2_keys import FIXED, why_not
from kafka_ferry.config.files.mm2_scopes import Settings
from kafka_ferry.config.files.mm2_transforms import (
    PREDICATES,
    PREFIXES,
    TRANSFORMS,
    remote_topic_of,
    transform_rules,
)
from kafka_ferry.config.flow import OPTIONS, Flow, is_policy_setting, misplaced_setting
from kafka_ferry.config.options.certificates import CERTIFICATES_KEY
from kafka_ferry.config.types.problems import Problem, problems_of
from kafka_ferry.config.types.values import read_truth

# Each takes some 20 ms to read, and Airflow gives up a file of DAGs after 50 s.
_MOST_FLOWS: Final = 500
# Of all flows together: each reads the values that they share, and so does its opposite flow.
_MOST_READ: Final = 8 * 1024 * 1024
_HEARTBEATS: Final = "emit.heartbeats.enabled"
_NO_FLOW: Final = (
    "MirrorMaker 2 writes heartbeats for clusters without a flow between them, and here only a flow does: "
    "enable it"
)
# MirrorMaker 2 has these as properties of the source's consumer, a flow as its own options.
_OF_CONSUMER: Final = ("isolation.level", "auto.offset.reset")
# Keys without references: all others are properties of a cluster's clients.
_NOT_OF_CLIENTS: Final = frozenset({*OPTIONS, *FIXED, PREDICATES, AIRFLOW_CONNECTION}) - {
    CERTIFICATES_KEY
}


class FlowReader:
    """Builds flows from sorted keys, and collects problems."""

    def __init__(
        self, file: str, settings: Settings, providers: Providers, problems: list[Problem]
    ) -> None:
        self.file = file
        self.ignored = settings.ignored
        self.problems = problems
        self._raw = settings.values
        self._providers = providers
        self._checked: set[str] = set()
        self._broken: set[str] = set()
        self._heartbeats_alone: list[tuple[str, str]] = []
        self._truths: dict[tuple[str, str], bool | None] = {}

    def again(self) -> FlowReader:
        """One of the same keys, which collects the problems of flows anew."""
        copy = FlowReader(
            self.file, Settings(self._raw, self.ignored), self._providers, [*self.problems]
        )
        copy._heartbeats_alone = self._heartbeats_alone
        return copy

    def too_many(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Why a file may not have so many flows; "" where it may."""
        if len(pairs) > _MOST_FLOWS:
            return f"enables {len(pairs):,} flows, and a file may have {_MOST_FLOWS}"
        sizes = {
            scope: sum(len(name) + len(value) for name, value in values.items())
            for scope, values in self._raw.items()
        }
        size = sum(sizes.get(scope, 0) for pair in pairs for scope in _scopes(*pair))
        if len(pairs) > 1 and size > _MOST_READ:
            return (
                f"has {size:,} characters for its {len(pairs)} flows, those that they share for each, and may have "
                f"{_MOST_READ:,}"
            )
        return ""

    def values(self, scope: str) -> dict[str, str]:
        """A scope's values, with unresolved references; those of other scopes need not be valid."""
        if scope not in self._checked:
            self._checked.add(scope)
            for name, value in self._raw[scope].items():
                of_client = name not in _NOT_OF_CLIENTS and not name.startswith(PREFIXES)
                if wrong := self._providers.wrong(f"{scope}{name}", value, of_client=of_client):
                    self.problems.append(wrong)
                    self._broken.add(scope)
        return self._raw[scope]

    def is_enabled(self, source: str, target: str) -> bool:
        """Whether the flow exists by ``MirrorMakerConfig.clusterPairs`` and ``connectorBaseConfig``."""
        flow = f"{source}->{target}."
        own, shared = (self._truth(place, "enabled") for place in (flow, ""))
        beats, all_beat = (self._truth(place, _HEARTBEATS) for place in (flow, ""))
        if own is None and beats and not shared:
            self._heartbeats_alone.append((f"{flow}{_HEARTBEATS}", _NO_FLOW))
        beating = all_beat is not False if beats is None else beats
        return bool(own or (own is None and shared and beating))

    def _truth(self, place: str, name: str) -> bool | None:
        """The value there, None without one; each is read once, also for thousands of pairs of clusters."""
        if (place, name) not in self._truths:
            self._truths[place, name] = self._read_truth(place, name)
        return self._truths[place, name]

    def _read_truth(self, place: str, name: str) -> bool | None:
        value = self._raw.get(place, {}).get(name)
        if value is None:
            return None
        key = f"{place}{name}"
        if wrong := self._providers.wrong(key, value, of_client=False):
            self.problems.append(wrong)
            return False
        try:
            return read_truth(value)
        except ValueError as error:
            self.problems.append(Problem(key, str(error)))
            # So the flow is read, and what else is wrong with it is told too.
            return True

    def flow(self, source: str, target: str) -> Flow | None:
        """The flow; None where something is wrong with it."""
        scope = f"{source}->{target}."
        # The scope in which each option is set; a flow's own wins.
        places = {name: place for place in ("", scope) for name in self.values(place)}
        aliases = {"source": source, "target": target}

        def key_of(path: Sequence[str]) -> str:
            first, *rest = path or ("",)
            if first in aliases:
                return ".".join((aliases[first], *rest))
            return places.get(first, scope) + ".".join(path)

        for name in FIXED.keys() & places.keys() - {TRANSFORMS}:
            if wrong := why_not(name, self.values(places[name])[name]):
                self.problems.append(Problem(key_of([name]), *wrong))
        data: dict[str, object] = {
            name: self.values(place)[name] for name, place in places.items() if name in OPTIONS
        }
        data.setdefault("heartbeats.replication.enabled", "true")
        clusters = {side: self._cluster(side, alias, scope) for side, alias in aliases.items()}
        for name in _OF_CONSUMER:
            value = clusters["source"].pop(f"consumer.{name}", None)
            if value is not None and name not in places:
                data[name], places[name] = value, f"{source}.consumer."
                if misplaced := self._providers.wrong(key_of([name]), value, of_client=False):
                    self.problems.append(misplaced)
                    return None
        for side, alias in aliases.items():
            data[side] = {
                "alias": alias,
                "properties": clusters[side],
                "file": self.file,
                "providers": self._providers.declaration,
            }
        data["file"] = self.file
        data["policy_settings"] = self._policy_settings(places, data, key_of)
        if rules := self._transform_rules(source, places, data, key_of):
            data["transform"] = rules
        scopes = _scopes(source, target)
        if self._broken.intersection(scopes):
            return None  # the placeholder of an unknown value would only cause another error
        data["ignored"] = [
            *(entry for place in scopes for entry in self.ignored[place]),
            *self._heartbeats_alone,
        ]
        try:
            return Flow.model_validate(data)
        except ValidationError as error:
            self.problems += problems_of(error, key_of)
        return None

    def _transform_rules(
        self,
        source: str,
        places: Mapping[str, str],
        data: Mapping[str, object],
        key_of: Callable[[Sequence[str]], str],
    ) -> list[dict[str, object]]:
        names = [
            option
            for option in places
            if option in (TRANSFORMS, PREDICATES) or option.startswith(PREFIXES)
        ]
        rules, problems = transform_rules(
            {name: self.values(places[name])[name] for name in names},
            remote_topic_of(
                str(data.get("replication.policy.class", "DefaultReplicationPolicy")),
                str(data.get("replication.policy.separator", ".")),
                source,
            ),
            lambda name: key_of([name]),
        )
        self.problems += problems
        return rules

    def _policy_settings(
        self,
        places: Mapping[str, str],
        data: Mapping[str, object],
        key_of: Callable[[Sequence[str]], str],
    ) -> list[tuple[str, str]]:
        names = sorted(filter(is_policy_setting, places))
        policy = data.get("replication.policy.class", "DefaultReplicationPolicy")
        for name in names:
            if wrong := misplaced_setting(key_of([name]), name, policy):
                self.problems.append(wrong)
        return [(name, self.values(places[name])[name]) for name in names]

    def _cluster(self, side: str, alias: str, scope: str) -> dict[str, str]:
        top, own, flow = (self.values(place) for place in ("", f"{alias}.", scope))
        return _cluster(side, top, own, flow)


def _scopes(source: str, target: str) -> tuple[str, ...]:
    """The scopes whose values a flow has."""
    return "", f"{source}.", f"{target}.", f"{source}->{target}."


def _cluster(
    side: str, top: Mapping[str, str], own: Mapping[str, str], flow: Mapping[str, str]
) -> dict[str, str]:
    """A cluster's properties in one flow, in MirrorMaker 2's order (later ones win)."""
    shared = {name: value for name, value in {**top, **own}.items() if name in CLUSTER_NAMES}
    result = shared | _below(f"{side}.cluster.", flow)
    for role in ROLE_PREFIXES:
        # MirrorMaker 2 gives a cluster's shared names to each kind of client before it adds the
        # flow's own properties of that kind, so these cannot replace them.
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
