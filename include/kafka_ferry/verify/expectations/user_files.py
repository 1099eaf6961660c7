"""Reads a user's file of expectations, in YAML, JSON or Python, into Great Expectations' objects."""

from __future__ import annotations

import ast
import os
import runpy
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from kafka_ferry.config.options.verify import Severity
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.verify.expectations.gx import great_expectations
from kafka_ferry.verify.verdict import Table

TABLES: Final[tuple[Table, ...]] = ("ranges", "partitions", "topics", "groups")
_KEYS: Final = ("type", "kwargs", "severity", "description", "notes", "meta", "id")
_SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")


class FileProblem(Exception):
    """Something is wrong with a user's file; ``where`` names the file and the line."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


@dataclass(frozen=True)
class UserExpectation:
    """An expectation in a file.

    Attributes:
        expectation: Great Expectations' object.
        where: the file, and the line.
    """

    expectation: Any
    where: str

    @property
    def name(self) -> str:
        """What should be true: in the user's words, or else the expectation's own name."""
        if self.expectation.description:
            return str(self.expectation.description)
        configuration = self.expectation.configuration
        arguments = {
            k: v for k, v in configuration.kwargs.items() if v not in (None, False, [], {})
        }
        listed = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        return f"{configuration.type}({listed})"


@dataclass
class Tables:
    """The content of a file.

    Attributes:
        found: the valid expectations by table.
        problems: what is wrong with the others.
    """

    found: dict[Table, list[UserExpectation]] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)


def read_file(file: Path) -> Tables:
    """The expectations of a file by the tables that they check.

    Raises:
        FileProblem: if it cannot be read at all.
    """
    # Our reduced import has to come before a file's own import of it.
    great_expectations()
    items = _of_python(file) if file.suffix == ".py" else _of_yaml(file)
    tables = Tables()
    for table, where, item in items:
        try:
            expectation = UserExpectation(_expectation(item, where), where)
        except FileProblem as problem:
            tables.problems.append(problem)
        else:
            tables.found.setdefault(table, []).append(expectation)
    return tables


def _expectation(item: object, where: str) -> Any:
    if isinstance(item, Mapping):
        return _expectation_of(item, where)
    if isinstance(item, great_expectations().expectations.Expectation):
        return item
    raise FileProblem(where, f"{item!r} is not an expectation of Great Expectations.")


def _expectation_of(item: Mapping[object, object], where: str) -> Any:
    """The expectation of a configuration in Great Expectations' own format."""
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )
    from great_expectations.expectations.registry import (  # noqa: PLC0415
        list_registered_expectation_implementations,
    )

    for key in item:
        if key not in _KEYS:
            raise FileProblem(where, f"{key!r} is unknown. {_or_all(str(key), _KEYS)}")
    kind, kwargs = item.get("type"), item.get("kwargs") or {}
    known = list_registered_expectation_implementations()
    if kind not in known:
        advice = did_you_mean(str(kind), known) or "See Great Expectations' gallery."
        raise FileProblem(where, f"there is no expectation {kind!r}. {advice}")
    if not isinstance(kwargs, Mapping):
        raise FileProblem(where, "kwargs must be a mapping.")
    severity = item.get("severity") or "critical"
    if severity not in _SEVERITIES:
        raise FileProblem(where, f"severity {severity!r} must be critical, warning or info.")
    if "row_condition" in kwargs:
        kwargs = {"condition_parser": "pandas", **kwargs}
    configuration = ExpectationConfiguration(
        type=str(kind),
        kwargs=dict(kwargs),
        meta=dict(item.get("meta") or {}),  # type: ignore[call-overload]
        notes=item.get("notes"),
        description=item.get("description"),
        severity=severity,
    )
    try:
        return configuration.to_domain_obj()
    except Exception as error:
        raise FileProblem(where, f"{kind}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))} {one['msg']}".replace("__root__ ", "")
        for one in errors()
    )


def _or_all(name: str, valid: Sequence[str]) -> str:
    return did_you_mean(name, valid) or f"It may be {', '.join(valid)}."


def _shown(file: Path) -> str:
    """The file's path for people: relative to the working folder, if below it."""
    relative = os.path.relpath(file)
    return str(file) if relative.startswith("..") else relative


def _of_yaml(file: Path) -> Iterator[tuple[Table, str, object]]:
    shown = _shown(file)
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{shown}, line {mark.line + 1}" if mark else shown
        raise FileProblem(where, f"not valid YAML: {getattr(error, 'problem', error)}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise FileProblem(shown, f"{error}.") from error
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise FileProblem(f"{shown}, line 1", "must be a mapping of tables to expectations.")
    loader = yaml.SafeLoader("")
    for key, of_table in root.value:
        table = next((known for known in TABLES if known == key.value), None)
        line = f"{shown}, line {key.start_mark.line + 1}"
        if table is None:
            raise FileProblem(
                line, f"there is no table {key.value!r}. {_or_all(key.value, TABLES)}"
            )
        if not isinstance(of_table, yaml.SequenceNode):
            raise FileProblem(line, f"{table} must be a list of expectations.")
        for node in of_table.value:
            where = f"{shown}, line {node.start_mark.line + 1}"
            yield table, where, loader.construct_object(node, deep=True)


def _of_python(file: Path) -> Iterator[tuple[Table, str, object]]:
    shown = _shown(file)
    try:
        # No module of the folder may shadow others, and no byte code is left there.
        namespace = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        line = _line(error, file)
        where = f"{shown}, line {line}" if line else shown
        raise FileProblem(where, f"{type(error).__name__}: {error}") from error
    lines = _lines(file)
    for table in TABLES:
        of_table = namespace.get(table, ())
        if not isinstance(of_table, list | tuple):
            raise FileProblem(shown, f"{table} must be a list of expectations.")
        known = lines.get(table, [])
        for number, item in enumerate(of_table):
            at = known[number] if len(known) == len(of_table) else 0
            yield table, f"{shown}, line {at}" if at else f"{shown}, {table}[{number}]", item


def _line(error: BaseException, file: Path) -> int | None:
    """The line of the file that raised the error, or led to it."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(file)), None)


def _lines(file: Path) -> dict[str, list[int]]:
    """The line of each item of a list that the file writes out under a name."""
    lines: dict[str, list[int]] = {}
    for node in ast.parse(file.read_bytes()).body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node.value, ast.List):  # type: ignore[attr-defined]
                lines[target.id] = [item.lineno for item in node.value.elts]  # type: ignore[attr-defined]
    return lines
