"""Users' own expectations on the tables, read from the users' files.

Two kinds of files are equivalent. YAML (or JSON) has Great Expectations' own configurations by table,
Python has lists of its objects named after the tables::

    partitions:                                        partitions = [
      - type: expect_column_values_to_be_in_set            gxe.ExpectColumnValuesToBeInSet(
        kwargs: {column: uncommitted, value_set: [0]}             column="uncommitted", value_set=[0],
        severity: warning                                      severity="warning",
                                                           )
                                                       ]

An error in a file is reported with its line, and fails the run after everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kafka_ferry.config.options.verify import EXPECTATIONS
from kafka_ferry.config.permissions import code_problems
from kafka_ferry.config.types.home import at_home
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.verify.expectations.evaluation import failure_of, row_sentences
from kafka_ferry.verify.expectations.tables import ROW, WHERE, columns
from kafka_ferry.verify.expectations.user_files import (
    TABLES,
    FileProblem,
    UserExpectation,
    read_file,
)
from kafka_ferry.verify.verdict import ExpectationResult, Table

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.verify.expectations.evaluation import Evaluation

SUFFIXES: Final = (".yaml", ".yml", ".json", ".py")
_EVERY_FLOW: Final = "all"
_COLUMNS: Final = ("column", "column_A", "column_B", "column_list", "column_set")


@dataclass(frozen=True)
class OwnExpectations:
    """A user's own expectations.

    Attributes:
        found: by table, Great Expectations' objects, each with its place in the file.
        problems: what is wrong with the files, each with its place.
    """

    found: Mapping[Table, tuple[UserExpectation, ...]]
    problems: tuple[FileProblem, ...] = ()


NOTHING: Final = OwnExpectations({})


def own_expectations(flow: Flow) -> OwnExpectations:
    """The expectations for a flow, from all of its files; problems in them are part of the answer."""
    by_table: dict[Table, list[UserExpectation]] = {}
    problems: list[FileProblem] = []
    place = at_home(flow.verify_expectations, flow.file)
    if not place.exists() and flow.verify_expectations != EXPECTATIONS:
        problems.append(
            FileProblem(str(place), "verify.expectations names it, but it does not exist.")
        )
    for file in _files(place, flow.slug):
        try:
            for wrong in code_problems("verify.expectations", file):
                raise FileProblem(str(file), f"{wrong.reason}. {wrong.advice}")
            tables = read_file(file)
        except FileProblem as unreadable:
            problems.append(unreadable)
            continue
        problems += tables.problems
        for table, of_table in tables.found.items():
            for one in of_table:
                problem = _wrong_column(table, one)
                if problem:
                    problems.append(problem)
                else:
                    by_table.setdefault(table, []).append(one)
    ordered = {table: tuple(by_table[table]) for table in TABLES if table in by_table}
    return OwnExpectations(ordered, tuple(problems))


def own_results(
    evaluation: Evaluation, own: OwnExpectations, frames: Mapping[Table, Any]
) -> Iterator[ExpectationResult]:
    """The results of a user's expectations on the existing tables.

    Problems with files are reported with the tables of the copy, not again with those of groups.
    """
    for table, expectations in own.found.items():
        if table in frames:
            answers = evaluation.answers(
                f"own-{table}", frames[table], [one.expectation for one in expectations]
            )
            for one, answer in zip(expectations, answers, strict=True):
                yield _result(table, one, answer)
    if "ranges" in frames:
        for problem in own.problems:
            yield ExpectationResult(
                name="your own expectations can be read",
                table="ranges",
                success=False,
                severity="critical",
                raised=str(problem),
                advice="Kafka Ferry's own checks were made anyway.",
                source=problem.where,
            )


def _files(place: Path, slug: str) -> Sequence[Path]:
    if place.is_file():
        return [place]
    names = [f"{stem}{suffix}" for stem in (_EVERY_FLOW, slug) for suffix in SUFFIXES]
    return [place / name for name in names if (place / name).is_file()]


def _wrong_column(table: Table, one: UserExpectation) -> FileProblem | None:
    known = columns(table)
    for name in _COLUMNS:
        value = getattr(one.expectation, name, None)
        for column in value if isinstance(value, list | tuple | set) else [value]:
            if isinstance(column, str) and column not in known:
                advice = did_you_mean(column, known) or f"It has {', '.join(known)}."
                return FileProblem(
                    one.where, f"the table {table} has no column {column!r}. {advice}"
                )
    return None


def _result(table: Table, one: UserExpectation, answer: Any) -> ExpectationResult:
    expectation = one.expectation
    raised = failure_of(answer)
    success = raised is None and bool(answer.success)
    unexpected = row_sentences(answer, _sentence)
    if not success and not unexpected and raised is None:
        observed = answer.result.get("observed_value")
        unexpected = (f"found {observed}",) if observed is not None else ()
    notes = expectation.notes
    return ExpectationResult(
        name=one.name,
        table=table,
        success=success,
        severity=cast(Any, getattr(expectation.severity, "value", expectation.severity)),
        unexpected=unexpected,
        raised=None if raised is None else f"{one.where}: {raised}",
        advice="\n".join(notes) if isinstance(notes, list) else notes or "",
        source=one.where,
    )


def _sentence(row: Mapping[str, Any]) -> str:
    values = ", ".join(
        f"{name} is {value}" for name, value in row.items() if name not in (ROW, WHERE)
    )
    return f"{row[WHERE]}: {values}" if values else str(row[WHERE])
