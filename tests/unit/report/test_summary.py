"""A run's line in its flow's history."""

from __future__ import annotations

import json

from kafka_ferry.model import RunOptions, Window
from kafka_ferry.report.measures import NOT_MEASURED
from kafka_ferry.report.summary import (
    CopiedTotals,
    LagTotals,
    ProblemCounts,
    RunScope,
    RunSummary,
    summarise,
)
from tests.support.runs.reports import changed
from tests.unit.report.reports import REPORT


def test_a_summary_has_the_numbers_of_the_report() -> None:
    summary = summarise(REPORT)
    copied = summary.copied
    assert (summary.run, copied.records, copied.bytes, copied.seconds) == ("run", 100, 5_000, 3.5)
    assert (copied.topics, copied.partitions) == (2, 3)
    assert (summary.lag.records_behind, summary.lag.seconds_behind) == (5, 2.5)
    assert (summary.state, summary.problems.dead_lettered) == ("verified", 2)
    assert summary.scope.is_whole


def test_an_unknown_lag_is_none_and_not_0() -> None:
    lag = summarise(changed(REPORT, measures=NOT_MEASURED)).lag
    assert (lag.records_behind, lag.seconds_behind) == (None, None)


def test_a_run_for_some_topics_or_for_a_window_says_nothing_of_the_whole_flow() -> None:
    assert not summarise(REPORT, RunOptions(topics=("orders",))).scope.is_whole
    backfill = summarise(REPORT, RunOptions(window=Window(5, 9)))
    assert backfill.scope == RunScope(since=5, until=9)
    assert not backfill.scope.is_whole


def test_a_line_is_flat_as_pages_and_earlier_releases_know_it() -> None:
    summary = RunSummary(
        *("a", 1, 2, "verified", "Verified."),
        CopiedTotals(100, 5_000, 3.5, 2.0, 2, 3, 4),
        LagTotals(5, None, 7, 6),
        ProblemCounts(1, 2, 3, 4, 5, 6),
        RunScope(partial=True, since=8, until=9),
    )
    stored = {
        **{"run": "a", "planned_at": 1, "finished_at": 2, "state": "verified"},
        **{"headline": "Verified.", "records": 100, "bytes": 5_000, "seconds": 3.5},
        **{
            "copying_seconds": 2.0,
            "topics": 2,
            "partitions": 3,
            "heartbeats": 4,
            "records_behind": 5,
        },
        **{
            "seconds_behind": None,
            "verified_until": 7,
            "oldest_proof": 6,
            "lost": 1,
            "dead_lettered": 2,
        },
        **{"failures": 3, "refused": 4, "drifts": 5, "warnings": 6, "partial": True},
        **{"since": 8, "until": 9},
    }
    assert json.loads(summary.to_json()) == stored
    assert RunSummary.from_json(json.dumps(stored)) == summary
