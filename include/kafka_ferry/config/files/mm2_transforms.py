"""Connect's transforms in MirrorMaker 2's properties, as the transform rule that does the same.

MirrorMaker 2's records are bytes under their remote topic's name (``MirrorSourceTask.convertRecord``), and a
transform sees them in that form. So a transform of fields (``MaskField``, ``ReplaceField``) fails there with
each record, and has no equal. Sources: ``TransformationStage``, ``Filter``, ``DropHeaders``, ``InsertHeader``,
``HasHeaderKey``, ``RecordIsTombstone``, ``TopicNameMatches``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafka_ferry.config.types.name_filter import checked_patterns, split_list
from kafka_ferry.config.types.problems import Problem, did_you_mean

TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"
PREFIXES: Final = (f"{TRANSFORMS}.", f"{PREDICATES}.")
"""How the settings of transforms and predicates begin."""

_EVERY_TOPIC: Final = ".*"
# The classes that have an equal here, each with its own settings.
_Kinds = Mapping[str, tuple[str, ...]]
_TRANSFORM_KINDS: Final[_Kinds] = {
    "Filter": (),
    "DropHeaders": ("headers",),
    "InsertHeader": ("header", "value.literal"),
}
_PREDICATE_KINDS: Final[_Kinds] = {
    "HasHeaderKey": ("name",),
    "RecordIsTombstone": (),
    "TopicNameMatches": ("pattern",),
}
_OF_TRANSFORM: Final = ("type", PREDICATES.removesuffix("s"), "negate")
_OF_FIELDS: Final = (
    *("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField"),
    *("ReplaceField", "SetSchemaMetadata", "TimestampConverter", "ValueToKey"),
)
_AS_RULE: Final = (
    "Write what it does as a rule under transform, in a YAML file (docs/transforms.md)."
)
_NO_EQUAL: Final[Mapping[str, tuple[str, str]]] = {
    "RegexRouter": ("renames topics", "Use topics.rename or replication.policy.class."),
    "TimestampRouter": (
        "names a topic after each record's time, and a remote topic has one name",
        "",
    ),
    **dict.fromkeys(
        _OF_FIELDS,
        (
            "needs fields, and MirrorMaker 2 gives it bytes: it fails there with each record",
            _AS_RULE,
        ),
    ),
}


class _Refused(Exception):
    """A setting that has no equal here."""

    def __init__(self, name: str, reason: str, advice: str = "") -> None:
        super().__init__(name)
        self.problem = (name, reason, advice)


def transform_rules(
    settings: Mapping[str, str],
    remote_topic: str | None,
    key_of: Callable[[str], str] = str,
) -> tuple[list[dict[str, object]], list[Problem]]:
    """The rules that do what a flow's ``transforms`` do: one for all topics, or none.

    Args:
        settings: ``transforms``, ``predicates`` and what begins with ``PREFIXES``, without the flow before it.
        remote_topic: the remote topic's name in Spark SQL; None where the policy is the user's own.
        key_of: the key in the file that has a setting's name.

    Returns:
        The rules, as the option ``transform`` takes them, and what is wrong.
    """
    try:
        rule = _Chain(settings, remote_topic).rule
    except _Refused as refused:
        name, reason, advice = refused.problem
        return [], [Problem(key_of(name), reason, advice)]
    return [{"topics": [_EVERY_TOPIC], **rule}] if rule else [], []


class _Chain:
    """The transforms of a flow, in their order."""

    def __init__(self, settings: Mapping[str, str], remote_topic: str | None) -> None:
        self._settings = settings
        self._remote_topic = remote_topic
        self._set: dict[str, str] = {}
        self._dropped: list[str] = []
        self._filters: list[str] = []
        self._check_names()
        for alias in split_list(settings.get(TRANSFORMS, "")):
            self._add(f"{TRANSFORMS}.{alias}")

    @property
    def rule(self) -> dict[str, object]:
        """What the chain does, without topics; nothing if it does nothing."""
        does = {
            "where": " and ".join(self._filters) or None,
            "set": {_header(name): _literal(text) for name, text in self._set.items()},
            "drop": [_header(name) for name in self._dropped],
        }
        return {name: value for name, value in does.items() if value}

    def _check_names(self) -> None:
        for name in self._settings:
            if not name.startswith(PREFIXES):
                continue
            kind, alias, *_ = name.split(".")
            if alias not in (listed := split_list(self._settings.get(kind, ""))):
                reason = f"belongs to {alias!r}, which {kind} does not list"
                raise _Refused(name, reason, did_you_mean(alias, listed))

    def _add(self, name: str) -> None:
        kind = self._kind(name, _TRANSFORM_KINDS)
        if kind == "Filter":
            own = self._predicate(name)
            self._filters.append(f"not ({own})" if own else "false")
            return
        if self._settings.get(f"{name}.predicate"):
            reason = f"only a Filter can have a predicate here, and this is a {kind}"
            raise _Refused(f"{name}.predicate", reason, _AS_RULE)
        if kind == "DropHeaders":
            for header in split_list(self._require(f"{name}.headers")):
                self._set.pop(header, None)
                self._dropped += [header] if header not in self._dropped else []
            return
        header = self._require(f"{name}.header")
        if header in self._dropped:
            self._dropped.remove(header)
        self._set[header] = self._require(f"{name}.value.literal")

    def _predicate(self, name: str) -> str:
        """When a transform applies, in Spark SQL; "" for always."""
        setting = f"{name}.predicate"
        if not (alias := self._settings.get(setting, "")):
            return ""
        if alias not in split_list(self._settings.get(PREDICATES, "")):
            raise _Refused(setting, f"names {alias!r}, which predicates does not list")
        negated = self._settings.get(f"{name}.negate", "false").lower()
        if negated not in ("true", "false"):
            raise _Refused(f"{name}.negate", "must be true or false")
        holds = self._holds(f"{PREDICATES}.{alias}")
        return f"not ({holds})" if negated == "true" else holds

    def _holds(self, name: str) -> str:
        kind = self._kind(name, _PREDICATE_KINDS)
        if kind == "RecordIsTombstone":
            return "value is null"
        if kind == "HasHeaderKey":
            header = self._require(f"{name}.name")
            if header in self._set or header in self._dropped:
                reason = f"tests for {header!r} after another transform has changed it"
                raise _Refused(f"{name}.name", reason, "Put the Filter before it.")
            return f"map_contains_key(headers, {_literal(header)})"
        pattern = self._require(f"{name}.pattern")
        try:
            checked_patterns((pattern,))
        except ValueError as error:
            raise _Refused(f"{name}.pattern", str(error)) from None
        if self._remote_topic is None:
            reason = "tests the remote topic's name, which here only your own policy knows"
            raise _Refused(f"{name}.pattern", reason, _AS_RULE)
        whole = rf"\A(?:{pattern})\z"
        return f"{self._remote_topic} rlike {_literal(whole)}"

    def _kind(self, name: str, kinds: _Kinds) -> str:
        """The simple name of a transform's or predicate's class."""
        setting = f"{name}.type"
        kind = self._require(setting).rpartition(".")[2]
        if kind not in kinds:
            reason, advice = _NO_EQUAL.get(kind.partition("$")[0], ("cannot run here", _AS_RULE))
            raise _Refused(setting, f"{kind} {reason}", advice)
        known = (*_OF_TRANSFORM, *kinds[kind])
        for other in self._settings:
            if other.startswith(f"{name}.") and other.removeprefix(f"{name}.") not in known:
                advice = did_you_mean(other, [f"{name}.{option}" for option in known])
                raise _Refused(other, f"is not a setting of {kind}", advice)
        return kind

    def _require(self, name: str) -> str:
        if text := self._settings.get(name, ""):
            return text
        raise _Refused(
            name, "is required", f"MirrorMaker 2 reads no {name} without source->target before it."
        )


def remote_topic_of(policy: str, separator: str, alias: str) -> str | None:
    """A remote topic's name, in Spark SQL over the columns of a rule; None for a policy of the user's own.

    Args:
        policy: the name of its class.
        separator: between alias and topic.
        alias: the source's.
    """
    return {
        "DefaultReplicationPolicy": f"concat({_literal(alias + separator)}, topic)",
        "IdentityReplicationPolicy": "topic",
    }.get(policy.rpartition(".")[2])


def _header(name: str) -> str:
    return f"headers['{name}']"


def _literal(text: str) -> str:
    """A text as Spark SQL writes it."""
    escaped = text.replace("\\", r"\\").replace("'", r"\'")
    return f"'{escaped}'"
