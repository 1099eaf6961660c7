"""Judges the tables with Great Expectations: one row per range, partition, topic or group's offset.

The tables are small, so that each is judged as a pandas frame in a fraction of a second. Users' own
expectations are judged after Kafka Ferry's, and cannot change their results.

Where nothing was read back there is no count to judge, and to import Great Expectations would take half of
such a run's processor time. Its few rows, those of topics, are then compared here, and no page is written;
Great Expectations judges and words a table with a row that is not as expected, and the user's expectations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from kafka_ferry.config.options.verify import Severity
from kafka_ferry.errors import FerryError
from kafka_ferry.verify.checks import PARTITIONS, RANGES, WARNINGS, Check, Row, Suite
from kafka_ferry.verify.expectations.data_docs import Publication, add_pages, publish
from kafka_ferry.verify.expectations.evaluation import Evaluation, failure_of, row_sentences
from kafka_ferry.verify.expectations.gx import great_expectations
from kafka_ferry.verify.expectations.tables import ROW, WHERE, Rows, frame
from kafka_ferry.verify.expectations.user_expectations import NOTHING, OwnExpectations, own_results
from kafka_ferry.verify.groups import GROUPS, GroupRow
from kafka_ferry.verify.rows import RangeRow
from kafka_ferry.verify.topics import TOPICS
from kafka_ferry.verify.verdict import ExpectationResult, Verdict

log = logging.getLogger(__name__)

SUITES: Final[tuple[Suite[Any], ...]] = (RANGES, WARNINGS, PARTITIONS, TOPICS)
"""The tables that are judged once all was read back; the groups follow later."""


@dataclass(frozen=True)
class Terms:
    """The criteria by which a run is judged.

    Attributes:
        flow: the flow's name.
        run: the run that verifies.
        docs: the folder to write Data Docs into, None for none. Pages that cannot be written are
            a warning: they prove nothing.
        severities: the severity of checks by their keys, where it is not the default.
        own: the user's own expectations.
        is_heartbeats_topic: whether a topic of the source holds heartbeats, which are counted apart.
    """

    flow: str
    run: str
    docs: Path | None = None
    severities: Mapping[str, Severity] = field(default_factory=dict)
    own: OwnExpectations = NOTHING
    is_heartbeats_topic: Callable[[str], bool] = lambda _: False


def judge(rows: Rows, terms: Terms) -> Verdict:
    """Whether the copy is complete, and what is not.

    Args:
        rows: the rows of ranges, partitions and topics; none is valid.
        terms: the criteria.

    Returns:
        The verdict. An expectation that could not be evaluated fails it, whatever its severity.
    """
    ranges: Sequence[RangeRow] = rows["ranges"]
    verdict = Verdict(
        success=True,
        ranges=sum(row.recount.is_read and not row.recount.gone for row in ranges),
        gone=sum(row.recount.gone > 0 for row in ranges),
        records=sum(row.recount.target_records for row in ranges),
        heartbeats=sum(
            row.recount.target_records for row in ranges if terms.is_heartbeats_topic(row.topic)
        ),
        compacted=sum(row.recount.target_compacted for row in ranges),
        accepted=sum(row.recount.accepted_missing for row in ranges),
        expired=sum(row.recount.expired for row in ranges),
    )
    return _judge(SUITES, rows, terms, verdict)


def judge_groups(groups: Sequence[GroupRow], verdict: Verdict, terms: Terms) -> Verdict:
    """The run's verdict with the groups, which are moved after it is known.

    Args:
        groups: the offsets that groups were given.
        verdict: the verdict on the run's other tables; the groups' pages are added to theirs.
        terms: the criteria.
    """
    return _judge((GROUPS,), {"groups": groups}, terms, verdict)


def unjudged_groups(verdict: Verdict, reason: str, terms: Terms) -> Verdict:
    """The run's verdict where the groups' offsets could not be read."""
    return verdict.join(_without_rows(GROUPS, terms.severities, raised=reason))


def _judge(suites: Sequence[Suite[Any]], rows: Rows, terms: Terms, verdict: Verdict) -> Verdict:
    """The verdict with all expectations on these tables."""
    needed = terms.own != NOTHING or _has_counts(rows)
    judged = [suite.name for suite in suites if needed or not _holds(suite, rows)]
    if not judged:
        return verdict.join(
            result for suite in suites for result in _without_rows(suite, terms.severities)
        )
    at = datetime.now(UTC)
    with TemporaryDirectory(prefix="ferry-data-docs-") as pages:
        evaluation = Evaluation(Path(pages), terms.run, at)
        frames = {suite.table: frame(suite.table, rows.get(suite.table, ())) for suite in suites}
        results = [
            result
            for suite in suites
            for result in (
                _results(evaluation, suite, rows.get(suite.table, ()), frames, terms.severities)
                if suite.name in judged
                else _without_rows(suite, terms.severities)
            )
        ]
        results += own_results(evaluation, terms.own, frames)
        joined = verdict.join(results)
        return joined if terms.docs is None else _document(evaluation, Path(pages), terms, joined)


def _has_counts(rows: Rows) -> bool:
    """Whether any rows tell of records or groups."""
    return any(rows.get(table) for table in ("ranges", "partitions", "groups"))


def _holds(suite: Suite[Any], rows: Rows) -> bool:
    return all(check.holds(row) for check in suite.checks for row in rows.get(suite.table, ()))


def _without_rows(
    suite: Suite[Any], severities: Mapping[str, Severity], raised: str | None = None
) -> Iterator[ExpectationResult]:
    """A result for each check that names no row: true, or not evaluated and why."""
    chosen = suite.severities(severities)
    for check in suite.checks:
        yield ExpectationResult(
            name=check.name,
            table=suite.table,
            success=raised is None,
            severity=chosen[check.key],
            raised=raised,
            advice=check.advice,
            key=check.key,
        )


def _results(
    evaluation: Evaluation,
    suite: Suite[Row],
    rows: Sequence[Row],
    frames: Mapping[Any, Any],
    severities: Mapping[str, Severity],
) -> list[ExpectationResult]:
    """One result for each check of ``suite``, in their order."""
    chosen = suite.severities(severities)
    expectations = [_expectation(check, chosen[check.key]) for check in suite.checks]
    # Pandas looks at all columns for each condition.
    columns = frames[suite.table].filter([ROW, WHERE, *suite.columns])
    answers = evaluation.answers(suite.name, columns, expectations)
    return [
        _result(check, suite, rows, answer, chosen[check.key])
        for check, answer in zip(suite.checks, answers, strict=True)
    ]


def _expectation(check: Check[Row], severity: Severity) -> Any:
    gxe = great_expectations().expectations
    from great_expectations.expectations.row_conditions import Column  # noqa: PLC0415

    only_where = Column(check.only_where) == True if check.only_where else None  # noqa: E712
    common = {
        "description": check.name,
        "notes": check.advice,
        "severity": severity,
        "row_condition": only_where,
    }
    if check.right:
        return gxe.ExpectColumnPairValuesToBeEqual(
            column_A=check.left, column_B=check.right, ignore_row_if="neither", **common
        )
    return gxe.ExpectColumnValuesToBeInSet(column=check.left, value_set=[0], **common)


def _result(
    check: Check[Row], suite: Suite[Row], rows: Sequence[Row], answer: Any, severity: Severity
) -> ExpectationResult:
    raised = failure_of(answer)

    def explain(entry: Mapping[str, Any]) -> str:
        row = rows[entry[ROW]]
        return f"{row}: {check.explain(row)}"

    return ExpectationResult(
        name=check.name,
        table=suite.table,
        success=raised is None and bool(answer.success),
        severity=severity,
        unexpected=row_sentences(answer, explain),
        raised=raised,
        advice=check.advice,
        key=check.key,
    )


def _document(evaluation: Evaluation, pages: Path, terms: Terms, verdict: Verdict) -> Verdict:
    """The verdict with the Data Docs' first page, or why there is none."""
    assert terms.docs is not None
    publication = Publication(
        terms.flow,
        terms.run,
        evaluation.at,
        verdict.success,
        verdict.ranges,
        verdict.records,
        verdict.heartbeats,
    )
    try:
        evaluation.build_pages()
        # Groups are judged later, and their pages belong to those of the run's other tables.
        put = add_pages if verdict.docs else publish
        return replace(verdict, docs=put(pages, terms.docs, publication))
    except Exception as error:
        # Whatever the error, the verdict does not depend on the pages.
        log.error(
            "The Data Docs of run %s could not be written to %s: %s",
            terms.run,
            terms.docs,
            error,
            exc_info=not isinstance(error, FerryError),
        )
        problem = f"The Data Docs could not be written to {terms.docs}: {error}"
        return replace(verdict, warnings=(*verdict.warnings, problem))
