from pathlib import Path

import pytest

from kafka_ferry.errors import FerryError
from kafka_ferry.model import OffsetsChoice, Window
from kafka_ferry.report import RunReport
from kafka_ferry.report.page import headline
from kafka_ferry.report.run_report import RuleCounts
from kafka_ferry.verify import ExpectationResult, Verdict
from tests.support.runs.reports import A_FAILURE, A_REFUSAL, PARTITION, RANGE, a_report, changed

REPORT = a_report(records=90, reasons={"aborted": 10})


@pytest.mark.parametrize(
    ("counts", "doubt"),
    [
        (RuleCounts(1, 100, 0, 0, True), "Rule 1 has changed none of 100 records."),
        (RuleCounts(2, 1_000, 0, 100, True), "Rule 2 has changed none of 900 records."),
        (RuleCounts(1, 1_000, 0, 1_000, True), "Rule 1 has left out all 1,000 records."),
        (RuleCounts(1, 1_000, 0, 1_000, False), "Rule 1 has left out all 1,000 records."),
        (RuleCounts(1, 99, 0, 0, True), ""),
        (RuleCounts(1, 1_000, 1, 0, True), ""),
        (RuleCounts(1, 1_000, 0, 0, False), ""),
        (RuleCounts(1, 1_000, 0, 999, False), ""),
    ],
)
def test_a_rule_that_does_nothing_or_takes_all_is_doubtful(counts: RuleCounts, doubt: str) -> None:
    assert counts.doubt.startswith(doubt) and bool(counts.doubt) == bool(doubt)


def test_a_report_comes_back_from_json_as_it_was() -> None:
    report = changed(
        REPORT,
        seconds={"copy": 1.5},
        rebuilt={"offset gaps": 2},
        rules=(RuleCounts(1, 90, 80, 10, True),),
        failures=(A_FAILURE,),
        skipped=(("tmp", "excluded"),),
        losses=("orders-3 [40, 100): 60 offsets were deleted",),
        dead_letter_topic="ferry-dead-letter.eu.internal",
        notes=("orders: it was deleted on the source.",),
        changes=("eu.orders: set retention.ms=5",),
        unapplied=("eu.orders: flush.ms could not be set.",),
        drifts=("eu.orders has segment.ms=1",),
        retirements=("eu.old: old is gone",),
        choices=(
            OffsetsChoice("orders", "eu.orders", True, "offsets: preserved.", "option", 12, 72),
        ),
        adopted=7,
        adoptions=("orders-3 [100, 200): 7.",),
        ranges=(changed(RANGE, preserved=True, adopted=7, lost=2, lost_intervals=((100, 102),)),),
        partitions=(changed(PARTITION, preserved=True, uncommitted=3),),
        verdict=Verdict(
            False,
            (ExpectationResult("x", "ranges", False, "critical", ("a",), "boom", "look"),),
            failures=("a",),
            docs=Path("/docs/index.html"),
        ),
    )
    assert RunReport.from_json(report.to_json()) == report


def test_something_else_is_not_a_report() -> None:
    with pytest.raises(FerryError, match="Not a run's report"):
        RunReport.from_json('{"flow": 1}')


def test_every_offset_is_a_record_or_has_a_reason() -> None:
    assert REPORT.counts.offsets == 100


def test_what_was_lost_and_what_is_a_dead_letter_is_counted_by_reason() -> None:
    report = changed(REPORT, reasons={"lost": 60, "dead-lettered": 3, "aborted": 1})
    assert (report.counts.lost, report.counts.dead_lettered) == (60, 3)
    assert (REPORT.counts.lost, REPORT.counts.dead_lettered) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"verdict": Verdict(True)}, "verified"),
        ({"verdict": Verdict(True), "reasons": {"lost": 60}, "losses": ("x",)}, "verified"),
        ({"verdict": Verdict(False)}, "incomplete"),
        ({}, "not verified"),
        ({"verdict": Verdict(True), "failures": (A_FAILURE,)}, "failed"),
        ({"verdict": Verdict(True), "refused": (A_REFUSAL,)}, "failed"),
        ({"verdict": Verdict(True), "unapplied": ("x",)}, "not applied"),
        ({"verdict": Verdict(False), "unapplied": ("x",)}, "incomplete"),
        ({"verdict": Verdict(True), "drifts": ("x",), "changes": ("y",)}, "verified"),
    ],
)
def test_the_state_is_the_worst_that_is_true(changes, state) -> None:
    assert changed(REPORT, **changes).state == state


def test_a_backfill_that_has_nothing_left_to_copy_does_not_speak_of_the_whole_flow() -> None:
    report = changed(REPORT, verdict=Verdict(True), window=(window := Window(1, 2)), ranges=())
    assert report.found == f"nothing of {window} is left to copy"
    assert headline(report) == f"Nothing of {window} is left to copy"
