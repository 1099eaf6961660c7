"""A flow's YAML file: one flow a file, with MirrorMaker 2's dotted names as keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kafka_ferry.config.client.config_providers import PROVIDERS, Providers
from kafka_ferry.config.client.property_names import (
    AIRFLOW_CONNECTION,
    CLUSTER_NAMES,
    IGNORED_CONNECTION_NAMES,
    REGISTRY_PREFIX,
    ROLES,
    without_role,
)
from kafka_ferry.config.doubts import TRANSFORM
from kafka_ferry.config.files.mm2_keys import (
    FIXED,
    REMOVED,
    why_client_ignores,
    why_ignored,
    why_not,
)
from kafka_ferry.config.files.yaml_document import NoDocument, read_document
from kafka_ferry.config.flow import OPTIONS, Flow, is_policy_setting, misplaced_setting
from kafka_ferry.config.options.certificates import CERTIFICATES_KEY
from kafka_ferry.config.options.transform import TRANSFORM_SECRETS
from kafka_ferry.config.types.problems import (
    WHOLE_FILE,
    Problem,
    config_error,
    did_you_mean,
    problems_of,
)
from kafka_ferry.config.types.topic_configs import is_topic_config

_SIDES = ("source", "target")
# What of a cluster may be a mapping of its own.
_NESTED = (*ROLES, REGISTRY_PREFIX.rstrip("."))
# A broker's and an administrator's words for the partitions of topics.
_OF_PARTITIONS = ("num.partitions", "partitions", "topic.partitions")
# What others call an option.
_MEANT = dict.fromkeys(("every", "interval", "cron", "timetable"), "schedule")
_A_RULE = "- {topics: [...], set: {...}}."
# For a wrong key, the most similar right one is looked for, which takes some time.
_MOST_KEYS = 1_000
# Java's longest number; Python refuses to format one of thousands of digits.
_LARGEST = 2**63


def parse_flow(content: bytes, file: str) -> Flow:
    """The flow that a YAML file describes.

    Raises:
        ConfigError: the file is invalid; all its problems are listed.
    """
    problems: list[Problem] = []
    whole = _mapping(content, file)
    for key, keys in {WHOLE_FILE: whole, **{side: whole.get(side) for side in _SIDES}}.items():
        if isinstance(keys, Mapping) and len(keys) > _MOST_KEYS:
            reason = f"has {len(keys):,} keys, and may have {_MOST_KEYS:,}"
            raise config_error(file, Problem(key, reason))
    providers = _providers(whole, problems)
    data = {key: value for key, value in whole.items() if not str(key).startswith(PROVIDERS)}
    problems += _wrong_references(data, providers)
    problems += [
        problem for key, value in data.items() if (problem := _problem_with_key(key, value))
    ]
    values: dict[str, Any] = {key: data[key] for key in OPTIONS if key in data}
    values["policy_settings"] = _policy_settings(data, problems)
    ignored: list[tuple[str, str]] = []
    for side in _SIDES:
        if side in data:
            values[side] = _cluster(side, data[side], file, providers, problems)
            ignored += _ignored_properties(side, values[side])
    try:
        flow = Flow.model_validate({**values, "file": file, "ignored": ignored})
    except ValidationError as error:
        # What a wrong reference or a nested key causes is told once.
        reported_keys = {problem.key for problem in problems}
        remaining = (
            candidate
            for candidate in problems_of(error, _dotted_name)
            if candidate.key not in reported_keys
        )
        raise config_error(file, *problems, *remaining) from None
    if problems:
        raise config_error(file, *problems)
    return flow


def parse_aliases(content: bytes, file: str) -> tuple[str, ...]:
    """The aliases of source and target, regardless of the rest of the file.

    Raises:
        ConfigError: it cannot be read, or one has no alias.
    """
    data = _mapping(content, file)
    aliases = [_alias(data.get(side)) for side in _SIDES]
    pairs = zip(_SIDES, aliases, strict=True)
    problems = [Problem(f"{side}.alias", "is required") for side, alias in pairs if not alias]
    if problems:
        raise config_error(file, *problems)
    return tuple(map(str, aliases))


def _alias(cluster: object) -> object:
    return cluster.get("alias") if isinstance(cluster, Mapping) else None


def _providers(data: Mapping[object, object], problems: list[Problem]) -> Providers:
    keys = [key for key in data if str(key).startswith(PROVIDERS)]
    settings = {str(key): _java_text(data[key]) or "" for key in keys}
    return Providers.declare(settings, problems, yaml=True)


def _wrong_references(data: Mapping[object, object], providers: Providers) -> Iterator[Problem]:
    """What is wrong with references, before any is looked up."""

    def below(value: object, *path: str) -> Iterator[Problem]:
        match value:
            case str():
                of_client = path[0] in _SIDES and path[-1] not in ("alias", AIRFLOW_CONNECTION)
                of_client |= path[0] in (CERTIFICATES_KEY, TRANSFORM_SECRETS)
                if wrong := providers.wrong(".".join(path), value, of_client=of_client):
                    yield wrong
            case list():
                for item in value:
                    yield from below(item, *path)
            case dict():
                for key, item in value.items():
                    yield from below(item, *path, str(key))

    for key, value in data.items():
        yield from below(value, str(key))


def _policy_settings(
    data: Mapping[object, object], problems: list[Problem]
) -> list[tuple[str, str]]:
    settings: list[tuple[str, str]] = []
    policy = data.get("replication.policy.class", "DefaultReplicationPolicy")
    for name in sorted(filter(is_policy_setting, map(str, data))):
        text = _java_text(data[name])
        wrong = misplaced_setting(name, name, policy)
        if wrong or text is None:
            problems.append(wrong or Problem(name, "must be text or a number"))
        else:
            settings.append((name, text))
    return settings


def _dotted_name(path: Sequence[str]) -> str:
    return ".".join(path) or WHOLE_FILE


def _problem_with_key(key: object, value: object) -> Problem | None:
    name = str(key)
    if key in OPTIONS and isinstance(value, Mapping):
        return _problem_with_nesting(name, value)
    if key in _SIDES or key in OPTIONS or is_policy_setting(name):
        return None
    if name in FIXED:
        # A mapping, or a list of them, has no form in Java's properties, and is never the default.
        text = "" if value is None else _java_text(value)
        wrong = why_not(name, "..." if text is None else text)
        return Problem(name, *wrong) if wrong else None
    if replacement := REMOVED.get(name):
        return Problem(name, "is not an option since MirrorMaker 2 4.0", f"Use {replacement}.")
    if why := why_ignored(name):
        return Problem(name, f"is an option of MirrorMaker 2 that has no effect here: {why}")
    below = [option for option in OPTIONS if option.startswith(f"{name}.")]
    advice = f"There is {', '.join(below)}." if below else ""
    if name == "alias" or name in CLUSTER_NAMES:
        advice = "It belongs to a cluster: indent it below source or target."
    elif name in _OF_PARTITIONS:
        advice = "Remote topics have as many partitions as their source topics; topics.partitions is the least number."
    elif is_topic_config(name):
        advice = f"It is a config of topics: write topics.configs: {{'.*': {{{name}: ...}}}}."
    elif meant := _MEANT.get(name):
        advice = f"Did you mean {meant!r}?"
    near = did_you_mean(name, (*_SIDES, *OPTIONS))
    return Problem(name, "is not an option of a flow", advice or near)


def _problem_with_nesting(name: str, value: Mapping[object, object]) -> Problem | None:
    """The problem with options that are written below another one, and with a mapping where topics are listed."""
    below = [option for key in value if (option := f"{name}.{key}") in OPTIONS]
    if below:
        advice = f"Write {', '.join(below)} at the left margin."
        return Problem(name, "must be a value of its own", advice)
    if name in ("topics", "groups"):
        advice = f"Write {name}: [one, two.*]."
        if name == "topics" and "include" not in value:
            advice += " What holds for single topics has options of its own, such as offsets, topics.start."
        return Problem(name, "must be a list, or text with commas", advice)
    if name == TRANSFORM:
        return Problem(
            name, "must be a list of rules", f"Write '- ' before the first key of each: {_A_RULE}"
        )
    return None


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The single values below a key, each with its whole name."""
    if isinstance(value, Mapping):
        for key, leaf in value.items():
            yield from _leaves(f"{name}.{key}", leaf)
    else:
        yield name, value


def _ignored_properties(side: str, cluster: object) -> Iterator[tuple[str, str]]:
    """The properties of a cluster without effect here, each with the reason."""
    properties = cluster.get("properties", {}) if isinstance(cluster, Mapping) else {}
    for name in properties:
        bare = without_role(name)
        of_one_kind = bare != name
        if why := IGNORED_CONNECTION_NAMES.get(bare) or (of_one_kind and why_client_ignores(bare)):
            yield f"{side}.{name}", why


def _cluster(
    side: str, data: object, file: str, providers: Providers, problems: list[Problem]
) -> object:
    """``alias`` and the Java properties, with those of each kind of client flattened."""
    if not isinstance(data, Mapping):
        return data
    properties: dict[str, str] = {}
    for name, value in data.items():
        if name in _NESTED and isinstance(value, Mapping | None):
            entries = {f"{name}.{inner}": leaf for inner, leaf in (value or {}).items()}
        elif name in _NESTED:
            problems.append(Problem(f"{side}.{name}", "must be a mapping of client properties"))
            continue
        else:
            entries = {str(name): value} if name != "alias" else {}
        for key, leaf in entries.items():
            text = _java_text(leaf)
            option = without_role(key)
            if option in OPTIONS and option not in CLUSTER_NAMES:
                reason = "is an option of the flow, and of no cluster"
                problems.append(
                    Problem(f"{side}.{key}", reason, f"Write {option} at the left margin.")
                )
            elif isinstance(leaf, Mapping):
                meant = [
                    (name, leaf_value)
                    for name, leaf_value in _leaves(key, leaf)
                    if name in CLUSTER_NAMES
                ]
                properties |= {name: str(leaf_value) for name, leaf_value in meant}
                shown = " and ".join(name for name, _ in meant)
                advice = f"Write {shown} as one key." if meant else did_you_mean(key, _NESTED)
                problems.append(Problem(f"{side}.{key}", "must be text or a number", advice))
            elif text is None:
                advice = did_you_mean(key, _NESTED)
                problems.append(Problem(f"{side}.{key}", "must be text or a number", advice))
            else:
                properties[key] = text
    alias = {"alias": data["alias"]} if "alias" in data else {}
    return {
        **alias,
        "properties": properties,
        "file": file,
        "section": side,
        "providers": providers.declaration,
    }


def _java_text(value: object) -> str | None:
    """The value as in a ``.properties`` file; None if it has no such form."""
    match value:
        case bool():
            return str(value).lower()
        case str() | float():
            return str(value).strip()
        case int():
            return str(value) if abs(value) <= _LARGEST else None
        case list():
            items = [_java_text(item) for item in value]
            return None if None in items else ",".join(item for item in items if item)
        case _:
            return None


def _mapping(content: bytes, file: str) -> Mapping[object, object]:
    try:
        data = read_document(content)
    except NoDocument as error:
        raise config_error(file, error.problem) from None
    if data is None:
        raise config_error(file, Problem(WHOLE_FILE, "is empty", "A flow needs source and target."))
    if not isinstance(data, Mapping):
        advice = "A key and its value are written as key: value."
        if isinstance(data, str) and "=" in data:
            advice = "Is it a properties file? Then its name has to end in .properties."
        raise config_error(
            file, Problem(WHOLE_FILE, "must hold a mapping of keys to values", advice)
        )
    return data
