from pathlib import Path

import pytest

from kafka_ferry.errors import FerryError
from kafka_ferry.model import OffsetsChoice, Window
from kafka_ferry.report import RunReport
from kafka_ferry.report.measures import Measures, PartitionMeasures
from kafka_ferry.report.page import headline
from kafka_ferry.report.run_report import RuleCounts
from kafka_ferry.verify import ExpectationResult, Verdict
from tests.support.runs.reports import A_FAILURE, A_REFUSAL, PARTITION, RANGE, a_report, changed

REPORT = a_report(records=90, reasons={"aborted": 10})


MASK = {"set:value.email": 980, "set:value.emial": 0, "read:value.emial": 0}


@pytest.mark.parametrize(
    ("counts", "doubts"),
    [
        (RuleCounts(1, 100, 0, 0, True), ["Rule 1 has changed none of 100 records."]),
        (RuleCounts(2, 1_000, 0, 100, True), ["Rule 2 has changed none of 900 records."]),
        (RuleCounts(1, 1_000, 0, 1_000, True), ["Rule 1 has left out all 1,000 records."]),
        (RuleCounts(1, 1_000, 0, 1_000, False), ["Rule 1 has left out all 1,000 records."]),
        (RuleCounts(1, 10, 0, 0, True, MASK), ["Rule 1 has changed none of 10 records."]),
        (RuleCounts(1, 9, 0, 0, True), []),
        (
            RuleCounts(1, 9, 7, 0, True, passed=2),
            ["Rule 1 failed for 2 records, copied as on the source: on."],
        ),
        (RuleCounts(1, 1_000, 1, 0, True), []),
        (RuleCounts(1, 1_000, 0, 0, False), []),
        (RuleCounts(1, 1_000, 0, 999, False), []),
        (
            RuleCounts(1, 1_000, 980, 0, True, MASK),
            [
                "Rule 1 sets value.emial, which has changed none of 1,000 records.",
            ],
        ),
        (
            RuleCounts(1, 1_000, 980, 0, True, {"set:value.a": 9, "read:value.emial": 0}),
            ["Rule 1 reads value.emial, which none of 1,000 records has."],
        ),
        (
            RuleCounts(1, 1_000, 980, 990, True, {"drop:headers['x']": 0, "set:key": 10}),
            [],
        ),
        (
            RuleCounts(1, 1_000, 980, 0, True, {"drop:headers['x']": 0, "set:key": 10}),
            ["Rule 1 drops headers['x'], which has changed none of 1,000 records."],
        ),
        (RuleCounts(1, 1_000, 9, 0, True, {"set:value.a": 0, "added:value.a": 9}), []),
        (
            RuleCounts(
                1, 1_000, 980, 0, True, {"added:value.a1": 980, "near:value.a1=value.a": 980}
            ),
            ["Rule 1 adds value.a1 to 980 records, one of the first of which has value."],
        ),
        (RuleCounts(1, 1_000, 9, 0, True, {"added:value.b": 9, "near:value.b=value.a": 9}), []),
        (RuleCounts(1, 1_000, 0, 5, False, {"read:value.a": 1, "sought:value.b": 0}), []),
        (
            RuleCounts(1, 1_000, 0, 5, False, {"read:value.a": 0}),
            ["Rule 1 reads value.a, which none of 1,000 records has."],
        ),
        (RuleCounts(1, 99, 9, 0, True, MASK), []),
    ],
)
def test_what_a_rule_names_and_never_meets_is_doubtful(
    counts: RuleCounts, doubts: list[str]
) -> None:
    assert [
        doubt[: doubt.index(".", doubt.index("records")) + 1] for doubt in counts.doubts
    ] == doubts


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, ""),
        ({"set:value.a": 9, "read:value.b": 9}, ""),
        ({"set:value.a": 9, "drop:value.b": 1_000}, ": value.a in 9, value.b in 1,000"),
        ({"set:value.a": 9, "set:value.b": 0}, ": value.a in 9, value.b in none"),
        ({"set:value.a": 0, "read:value.a": 0}, ": value.a in none"),
        ({"set:value.a": 0, "added:value.a": 9}, ": value.a added to 9"),
        (
            {"set:value.a": 2, "added:value.a": 9, "set:key": 3},
            ": value.a added to 9, value.a in 2, key in 3",
        ),
        (
            {"read:value.a": 0, "sought:headers['b']": 0},
            ": value.a is in none, headers['b'] is in none",
        ),
    ],
)
def test_says_what_a_rule_has_done_by_name(counts: dict[str, int], text: str) -> None:
    assert str(RuleCounts(1, 10, 9, 0, True, counts)) == "rule 1 changed 9 of 10 records" + text


def test_what_a_condition_reads_is_counted_where_records_lack_it_and_some_are_left_out() -> None:
    reads = {"read:value.status": 60, "read:key.id": 100, "sought:value.test": 3}
    told = "rule 1 left out 45 of 100 records: value.status is in 60"
    assert str(RuleCounts(1, 100, 0, 45, False, reads)) == told


def test_a_report_comes_back_from_json_as_it_was() -> None:
    report = changed(
        REPORT,
        seconds={"copy": 1.5},
        rebuilt={"offset gaps": 2},
        rules=(RuleCounts(1, 90, 80, 10, True, MASK),),
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


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (
            {"proved_by": "run-1", "proved_at": 1_795_224_552_000},
            "; last proved on 2026-11-21 01:29:12 UTC by run run-1",
        ),
        ({}, ", and nothing was ever copied"),
    ],
)
def test_a_run_without_anything_new_says_what_was_proved_before(
    proof: dict[str, object], said: str
) -> None:
    rows = tuple(PartitionMeasures("orders", at, "eu.orders") for at in range(9))
    report = changed(
        REPORT, ranges=(), verdict=Verdict(True), measures=Measures(partitions=rows), **proof
    )
    assert report.found == f"nothing new in 9 partitions{said}"


def test_a_backfill_that_has_nothing_left_to_copy_does_not_speak_of_the_whole_flow() -> None:
    report = changed(REPORT, verdict=Verdict(True), window=(window := Window(1, 2)), ranges=())
    assert report.found == f"nothing of {window} is left to copy"
    assert headline(report) == f"Nothing of {window} is left to copy"


def test_a_backfill_says_that_the_source_has_deleted_what_it_was_to_copy() -> None:
    gone = "orders-0: the source's log starts at 200."
    none = changed(
        REPORT, verdict=Verdict(True), window=(window := Window(1, 2)), ranges=(), deleted=(gone,)
    )
    why = "in 1 partition the source has deleted offsets before they were copied"
    assert headline(none) == f"Nothing of {window} that the source still has is left to copy; {why}"
    assert headline(changed(none, ranges=(RANGE,))) == f"Verified; {why}"
    refused = changed(none, deleted=(), refused=(A_REFUSAL,))
    assert headline(refused) == "1 topic or partition cannot be mirrored; nothing was copied"
