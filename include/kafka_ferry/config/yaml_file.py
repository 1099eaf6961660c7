"""A flow's YAML file: one flow a file, with MirrorMaker 2's dotted names as keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import regex
import yaml
from pydantic import ValidationError

from kafka_ferry.config.flow import OPTIONS, Flow
from kafka_ferry.config.problems import (
    WHOLE_FILE,
    Problem,
    config_error,
    did_you_mean,
    problems_of,
)
from kafka_ferry.config.vocabulary import REMOVED, ROLES, is_without_effect

_SIDES = ("source", "target")


def parse_flow(content: bytes, file: str) -> Flow:
    """The flow that a YAML file describes.

    Raises:
        ConfigError: the file is no such file; all that is wrong with it is listed.
    """
    data = _mapping(content, file)
    problems = [_unknown(key) for key in data if key not in (*_SIDES, *OPTIONS)]
    values: dict[str, Any] = {key: data[key] for key in OPTIONS if key in data}
    for side in _SIDES:
        if side in data:
            values[side] = _cluster(side, data[side], problems)
    try:
        flow = Flow.model_validate({**values, "file": file})
    except ValidationError as error:
        raise config_error(file, *problems, *problems_of(error, _dotted)) from None
    if problems:
        raise config_error(file, *problems)
    return flow


def _dotted(path: Sequence[str]) -> str:
    return ".".join(path) or WHOLE_FILE


def _unknown(key: object) -> Problem:
    name = str(key)
    if replacement := REMOVED.get(name):
        return Problem(name, "is no option since MirrorMaker 2 4.0", f"Use {replacement}.")
    if is_without_effect(name):
        return Problem(name, "is an option of MirrorMaker 2 that has no effect here")
    return Problem(name, "is no option of a flow", did_you_mean(name, (*_SIDES, *OPTIONS)))


def _cluster(side: str, data: object, problems: list[Problem]) -> object:
    """``alias`` apart from the Java properties, and those of each kind of client flattened."""
    if not isinstance(data, Mapping):
        return data
    properties: dict[str, str] = {}
    for name, value in data.items():
        if name in ROLES and isinstance(value, Mapping | None):
            entries = {f"{name}.{inner}": leaf for inner, leaf in (value or {}).items()}
        elif name in ROLES:
            problems.append(Problem(f"{side}.{name}", "must be a mapping of client properties"))
            continue
        else:
            entries = {str(name): value} if name != "alias" else {}
        for key, leaf in entries.items():
            text = _java_text(leaf)
            if text is None:
                advice = did_you_mean(key, ROLES)
                problems.append(Problem(f"{side}.{key}", "must be text or a number", advice))
            else:
                properties[key] = text
    alias = {"alias": data["alias"]} if "alias" in data else {}
    return {**alias, "properties": properties}


def _java_text(value: object) -> str | None:
    """The value as it would stand in a ``.properties`` file; nothing if it could not."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value).strip()
        case list():
            items = [_java_text(item) for item in value]
            return None if None in items else ",".join(item for item in items if item)
        case _:
            return None


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader, except that a key may not come twice in a mapping."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in seen:
                raise _DuplicateKey(key.value, key.start_mark.line + 1)
            seen.add(key.value)
        return node


class _DuplicateKey(Exception):
    def __init__(self, key: str, line: int) -> None:
        super().__init__(key)
        self.key = key
        self.line = line


def _mapping(content: bytes, file: str) -> Mapping[object, object]:
    try:
        data = yaml.load(content.decode("utf-8-sig"), _StrictLoader)
    except _DuplicateKey as error:
        problem = Problem(error.key, f"stands twice, again in line {error.line}")
        raise config_error(file, problem) from None
    except UnicodeDecodeError as error:
        problem = Problem(WHOLE_FILE, f"is not UTF-8 (byte {error.start})")
        raise config_error(file, problem) from None
    except yaml.YAMLError as error:
        raise config_error(file, _syntax_problem(error)) from None
    if data is None:
        raise config_error(file, Problem(WHOLE_FILE, "is empty", "A flow needs source and target."))
    if not isinstance(data, Mapping):
        raise config_error(file, Problem(WHOLE_FILE, "must hold a mapping of keys to values"))
    return data


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}" if mark else WHOLE_FILE
    # What PyYAML quotes may be part of a password.
    reason = regex.sub(r"'.*'", "'...'", getattr(error, "problem", None) or "unreadable text")
    return Problem(where, f"is no valid YAML: {reason}")
