"""Great Expectations judges the reconciliation table: one row a range or a partition.

The table is small, so it is judged as a pandas frame in a fraction of a second. The context lives
in memory only and nothing is fetched or reported anywhere. Great Expectations is imported inside
the functions: it takes three seconds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from kafka_ferry.verify.checks import PARTITIONS, RANGES, WARNINGS, Check, Row, Suite
from kafka_ferry.verify.data_docs import Publication, folder_name, publish
from kafka_ferry.verify.rows import PartitionRow, RangeRow
from kafka_ferry.verify.verdict import ExpectationResult, Verdict

log = logging.getLogger(__name__)

MAX_LISTED: Final = 20
_SITE: Final = "ferry"


def judge(
    ranges: Sequence[RangeRow],
    partitions: Sequence[PartitionRow],
    *,
    run: str,
    flow: str,
    docs: Path | None,
) -> Verdict:
    """Whether the copy is complete, and what is not.

    Args:
        ranges: every range to verify; none is fine.
        partitions: the partitions that they belong to.
        run: the run that verifies.
        flow: the flow's name.
        docs: the folder to write Data Docs into, None for none. Pages that cannot be written are
            a warning: they prove nothing.

    Returns:
        The verdict. An expectation that could not be evaluated fails it, whatever its severity.
    """
    at = datetime.now(UTC)
    with TemporaryDirectory(prefix="ferry-data-docs-") as pages:
        context = _context(Path(pages))
        results = (
            *_evaluate(context, RANGES, ranges, run, at),
            *_evaluate(context, WARNINGS, ranges, run, at),
            *_evaluate(context, PARTITIONS, partitions, run, at),
        )
        failed = [result for result in results if result.failed]
        warned = [result for result in results if not result.success and not result.failed]
        failures = tuple(sentence for result in failed for sentence in result.sentences)
        warnings = tuple(sentence for result in warned for sentence in result.sentences)
        publication = Publication(
            flow, run, at, not failed, len(ranges), sum(row.target_records for row in ranges)
        )
        index = None
        if docs is not None:
            index, problem = _write_docs(context, Path(pages), docs, publication)
            warnings += problem
    return Verdict(
        success=not failed,
        expectations=results,
        failures=failures,
        warnings=warnings,
        ranges=publication.ranges,
        records=publication.records,
        docs=index,
    )


def _context(pages: Path) -> Any:
    """A Great Expectations context that lives in memory; its pages go to ``pages``."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    # It would tell of each temporary folder.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(pages)}
    site = {"class_name": "SiteBuilder", "show_how_to_buttons": False, "store_backend": store}
    context.add_data_docs_site(_SITE, site)
    context.data_sources.add_pandas("reconciliation")
    return context


def _evaluate(
    context: Any, suite: Suite[Row], rows: Sequence[Row], run: str, at: datetime
) -> list[ExpectationResult]:
    """One result for each check of ``suite``, in their order."""
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.core.run_identifier import RunIdentifier  # noqa: PLC0415

    asset = context.data_sources.get("reconciliation").add_dataframe_asset(suite.name)
    batch = asset.add_batch_definition_whole_dataframe("all rows")
    expectations = [_expectation(check, suite) for check in suite.checks]
    definition = gx.ValidationDefinition(
        name=suite.name,
        data=batch,
        suite=context.suites.add(gx.ExpectationSuite(suite.name, expectations=expectations)),
    )
    checkpoint = gx.Checkpoint(
        name=suite.name,
        validation_definitions=[context.validation_definitions.add(definition)],
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": ["row", "where"],
            "return_unexpected_index_query": False,
        },
    )
    outcome = context.checkpoints.add(checkpoint).run(
        batch_parameters={"dataframe": _frame(suite, rows)},
        run_id=RunIdentifier(run_name=folder_name(run), run_time=at),
    )
    found = {
        result.expectation_config.meta["check"]: result
        for validation in outcome.run_results.values()
        for result in validation.results
    }
    return [_result(check, suite, rows, found.get(check.name)) for check in suite.checks]


def _frame(suite: Suite[Row], rows: Sequence[Row]) -> Any:
    """The rows' attributes that the suite looks at, with the row's number and name."""
    import pandas as pd  # noqa: PLC0415

    wanted = {
        name: None
        for check in suite.checks
        for name in (check.left, check.right, check.only_where)
        if name
    }
    columns: dict[str, list[object]] = {
        "row": list(range(len(rows))),
        "where": [str(row) for row in rows],
    }
    return pd.DataFrame(columns | {name: [getattr(row, name) for row in rows] for name in wanted})


def _expectation(check: Check[Row], suite: Suite[Row]) -> Any:
    import great_expectations.expectations as gxe  # noqa: PLC0415
    from great_expectations.expectations.row_conditions import Column  # noqa: PLC0415

    only_where = Column(check.only_where) == True if check.only_where else None  # noqa: E712
    common = {
        "description": check.name,
        "notes": check.advice,
        "severity": suite.severity,
        "row_condition": only_where,
        "meta": {"check": check.name},
    }
    if check.right:
        return gxe.ExpectColumnPairValuesToBeEqual(
            column_A=check.left, column_B=check.right, ignore_row_if="neither", **common
        )
    return gxe.ExpectColumnValuesToBeInSet(column=check.left, value_set=[0], **common)


def _result(
    check: Check[Row], suite: Suite[Row], rows: Sequence[Row], outcome: Any
) -> ExpectationResult:
    raised: str | None = "Great Expectations gave no result for it"
    unexpected: list[str] = []
    if outcome is not None:
        raised = next(_exceptions(outcome.exception_info or {}), None)
        numbers = [index["row"] for index in outcome.result.get("unexpected_index_list") or ()]
        unexpected = [
            f"{rows[number]}: {check.explain(rows[number])}" for number in numbers[:MAX_LISTED]
        ]
        if len(numbers) > MAX_LISTED:
            unexpected.append(f"and {len(numbers) - MAX_LISTED:,} more")
    return ExpectationResult(
        name=check.name,
        table=suite.table,
        success=raised is None and bool(outcome.success),
        severity=suite.severity,
        unexpected=tuple(unexpected),
        raised=raised,
        advice=check.advice,
    )


def _exceptions(info: Mapping[str, Any]) -> Iterator[str]:
    """The messages in a result's ``exception_info``: one, or one for each metric."""
    entries = [info] if "raised_exception" in info else info.values()
    for entry in entries:
        if entry.get("raised_exception"):
            yield str(entry.get("exception_message") or "no message")


def _write_docs(
    context: Any, pages: Path, docs: Path, publication: Publication
) -> tuple[Path | None, tuple[str, ...]]:
    """The index page, or none and why there is none."""
    try:
        context.build_data_docs(site_names=[_SITE])
        return publish(pages, docs, publication), ()
    except Exception as error:
        # Whatever it is, the verdict stands without them.
        log.exception("The Data Docs of run %s could not be written to %s", publication.run, docs)
        return None, (f"The Data Docs could not be written to {docs}: {error}",)
