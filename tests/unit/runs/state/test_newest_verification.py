"""What the newest verification could not prove."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import Plan, Range, RunOptions, TopicPartition, Window
from kafka_ferry.model.results.failures import Failure, RangesFailed
from kafka_ferry.runs.repair.findings import Findings
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.newest_verification import NewestVerification, newest_verification
from kafka_ferry.runs.state.run_folder import RECONCILIATION, Reconciliation, RunFolder
from kafka_ferry.verify import ExpectationResult, Verdict
from kafka_ferry.verify.expectations.judge import Terms, judge
from tests.support.runs.reports import PARTITION, RANGE, changed

HERE = TopicPartition(RANGE.remote_topic, RANGE.partition)


@pytest.mark.parametrize(
    ("of_range", "of_partition", "unproved", "checks", "text"),
    [
        ({}, {}, set(), [], ""),
        (
            {"expired": 1, "target_records": 89},
            {},
            set(),
            [],
            "",
        ),
        (
            {"foreign": 1},
            {},
            {HERE},
            [],
            "failed: orders-3 [100, 200): 1 record of another producer in eu.orders-3 "
            "(expected: nothing lies between our records that the ledger does not have).",
        ),
        (
            {},
            {"target_beyond": 1, "beyond_at": 212, "beyond_by": 4001},
            {HERE},
            ["beyond"],
            "failed: orders-3 [100, 200): 1 record on the target after the ledger's last one, the first at offset 212 "
            "by producer 4001 (expected: nothing lies beyond what the ledger knows).",
        ),
        (
            {"foreign": 1},
            {"target_beyond": 1, "overlap_offsets": 1},
            {HERE},
            ["overlaps", "beyond"],
            ", and 2 more.",
        ),
    ],
    ids=["proved", "a warning", "a range", "after the last record", "several"],
)
def test_what_failed_is_named_with_where(of_range, of_partition, unproved, checks, text) -> None:
    rows = (changed(RANGE, **of_range),), (changed(PARTITION, **of_partition),)
    verdict = judge(
        {"ranges": rows[0], "partitions": rows[1], "topics": ()}, Terms("eu->us", "r", None, {})
    )
    found = NewestVerification("r", Reconciliation(*rows, verdict))

    assert found.failed_partitions() == unproved
    assert [check.key for check in found.failed_checks()] == checks
    assert found.text.endswith(text)
    assert bool(found.text) == bool(unproved)


PROVED, FAILED = Verdict(True), Verdict(False, failures=("a-0: it lacks 1 record",))
WHOLE, SOME = RunOptions(), RunOptions(topics=("b",))
BACKFILL = RunOptions(window=Window(1, 2))


def a_flow(home: Path) -> Flow:
    return Flow.model_validate(
        {
            "source": {"alias": "eu", "properties": {"bootstrap.servers": "localhost:1"}},
            "target": {"alias": "us", "properties": {"bootstrap.servers": "localhost:2"}},
            "state.dir": str(home),
        }
    )


def test_a_partition_that_was_not_copied_to_its_end_is_found_with_why_it_stopped(
    tmp_path: Path,
) -> None:
    flow = a_flow(tmp_path)
    run = RunFolder(flow_state(flow).folder("runs"), "run-1")
    run.save_plan(Plan(flow.name, "run-1", 1, "A", "B"))
    range_ = Range("orders", 3, 10, 50, "id", "eu.orders", 7)
    failure = Failure.of(range_, 20, "it was refused.", False, False)
    with pytest.raises(RangesFailed), run.step("mirror"):
        raise RangesFailed([failure], transient=False)
    covered = ExpectationResult(
        "all", "partitions", False, "critical", ("orders-3",), key="covered"
    )
    run.save_reconciliation(Reconciliation(verdict=Verdict(False, (covered,), ("orders-3",))))
    (finding,) = Findings(flow).of_checks()
    assert (finding.problems, finding.more) == (covered.sentences, (str(failure),))


@pytest.mark.parametrize(
    ("runs", "newest"),
    [
        ([], None),
        ([(WHOLE, FAILED), (WHOLE, PROVED)], 1),
        ([(WHOLE, PROVED), (SOME, FAILED)], 1),
        # These say nothing of the rest.
        ([(WHOLE, FAILED), (BACKFILL, PROVED)], 0),
        ([(WHOLE, FAILED), (SOME, PROVED), (BACKFILL, PROVED)], 0),
        ([(WHOLE, FAILED), (WHOLE, PROVED), (SOME, PROVED)], 2),
        ([(SOME, PROVED)], 0),
    ],
)
def test_what_proves_only_a_part_hides_no_failure_of_the_rest(
    tmp_path: Path, runs: list[tuple[RunOptions, Verdict]], newest: int | None
) -> None:
    flow = a_flow(tmp_path)
    folder = flow_state(flow).folder("runs")
    for number, (options, verdict) in enumerate(runs):
        run = RunFolder(folder, f"run-{number}")
        run.save_plan(Plan(flow.name, f"run-{number}", 1, "A", "B", options=options))
        run.save_reconciliation(Reconciliation(verdict=verdict))
        (file,) = tmp_path.glob(f"**/run-{number}/{RECONCILIATION}")
        os.utime(file, (number + 1, number + 1))
    found = newest_verification(flow)
    assert (found and found.run_id) == (None if newest is None else f"run-{newest}")
