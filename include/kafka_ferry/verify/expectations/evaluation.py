"""Evaluates expectations on a small frame with Great Expectations, and builds its own pages.

The context is in memory only, and nothing is downloaded or reported anywhere.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kafka_ferry.state import folder_name
from kafka_ferry.verify.expectations.gx import great_expectations
from kafka_ferry.verify.expectations.tables import ROW, WHERE

MAX_LISTED: Final = 20
_SITE: Final = "ferry"
_ASKED: Final = "asked"


class Evaluation:
    """One round of judging.

    Args:
        pages: an empty folder for Great Expectations' own pages.
        run: the run that is judged.
        at: when.

    Attributes:
        at: when.
    """

    def __init__(self, pages: Path, run: str, at: datetime) -> None:
        self.at = at
        self._run = run
        self._context = _context(pages)

    def answers(self, suite: str, frame: Any, expectations: Sequence[Any]) -> list[Any]:
        """The result of each expectation on ``frame``, in order; None where there is none.

        Args:
            suite: the name of their page.
            frame: the pandas frame.
            expectations: Great Expectations' own objects.
        """
        gx = great_expectations()
        from great_expectations.core.run_identifier import RunIdentifier  # noqa: PLC0415

        context = self._context
        asset = context.data_sources.get("reconciliation").add_dataframe_asset(suite)
        numbered = [_with_number(one, number) for number, one in enumerate(expectations)]
        definition = gx.ValidationDefinition(
            name=suite,
            data=asset.add_batch_definition_whole_dataframe("all rows"),
            suite=context.suites.add(gx.ExpectationSuite(suite, expectations=numbered)),
        )
        checkpoint = gx.Checkpoint(
            name=suite,
            validation_definitions=[context.validation_definitions.add(definition)],
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": [ROW, WHERE],
                "return_unexpected_index_query": False,
            },
        )
        outcome = context.checkpoints.add(checkpoint).run(
            batch_parameters={"dataframe": frame},
            run_id=RunIdentifier(run_name=folder_name(self._run), run_time=self.at),
        )
        results_by_number = {
            result.expectation_config.meta[_ASKED]: result
            for validation in outcome.run_results.values()
            for result in validation.results
        }
        return [results_by_number.get(str(number)) for number in range(len(numbered))]

    def build_pages(self) -> None:
        """Write the pages of all results."""
        self._context.build_data_docs(site_names=[_SITE])


def failure_of(answer: Any) -> str | None:
    """Why an expectation could not be evaluated, None where it was."""
    if answer is None:
        return "Great Expectations gave no result for it"
    return next(_exceptions(answer.exception_info or {}), None)


def row_sentences(answer: Any, say: Callable[[dict[str, Any]], str]) -> tuple[str, ...]:
    """A sentence for each of the first rows for which an expectation is not true, and how many more there are.

    Args:
        answer: its result.
        say: makes a sentence of a row's ``row``, ``where`` and the checked columns.
    """
    rows = [] if answer is None else answer.result.get("unexpected_index_list") or []
    sentences = tuple(say(row) for row in rows[:MAX_LISTED])
    more = len(rows) - MAX_LISTED
    return (*sentences, f"and {more:,} more") if more > 0 else sentences


def _context(pages: Path) -> Any:
    """A Great Expectations context in memory; its pages go to ``pages``."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    gx = great_expectations()
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    # It would log each temporary folder.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(pages)}
    site = {"class_name": "SiteBuilder", "show_how_to_buttons": False, "store_backend": store}
    context.add_data_docs_site(_SITE, site)
    context.data_sources.add_pandas("reconciliation")
    return context


def _with_number(expectation: Any, number: int) -> Any:
    """The expectation with its number; otherwise two of the same kind and columns would be merged."""
    return expectation.copy(update={"meta": {**(expectation.meta or {}), _ASKED: str(number)}})


def _exceptions(info: Mapping[str, Any]) -> Iterator[str]:
    """The messages in a result's ``exception_info``: one, or one for each metric."""
    entries = [info] if "raised_exception" in info else info.values()
    for entry in entries:
        if entry.get("raised_exception"):
            yield str(entry.get("exception_message") or "no message")
