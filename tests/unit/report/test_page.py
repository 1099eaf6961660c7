import re
import time
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from kafka_ferry.clock import duration_text
from kafka_ferry.model import OffsetsChoice, Refusal
from kafka_ferry.report import RunReport, render
from kafka_ferry.report.measures import Measures, PartitionMeasures
from kafka_ferry.report.page import headline
from kafka_ferry.report.templates import _size
from kafka_ferry.verify import ExpectationResult, PartitionRow, Verdict
from kafka_ferry.verify.rows import Coverage, RemoteLog
from tests.support.runs.reports import (
    A_FAILURE,
    A_REFUSAL,
    PARTITION,
    RANGE,
    a_failure,
    a_report,
    changed,
)

KEPT = ExpectationResult("no offset was copied twice", "partitions", True, "critical")
BROKEN = ExpectationResult(
    "nothing lies between our records that the ledger does not have",
    "ranges",
    False,
    "critical",
    ("orders-3 [100, 200): 4 records of another producer",),
    advice="Find the other producer.",
)
WARNED = ExpectationResult(
    "no copied record has expired on the target",
    "ranges",
    False,
    "warning",
    ("orders-3 [100, 200): 30 of 90 records",),
)
REPORT = a_report(
    run="scheduled__2026-11-21",
    planned_at=1_795_224_552_000,
    finished_at=1_795_224_685_400,
    seconds={"plan": 2.1, "copy": 96.2},
    records=90,
    bytes=1_234_567,
    batches=12,
    reasons={"aborted": 8, "control": 2},
    ranges=(RANGE,),
    partitions=(PARTITION,),
    verdict=Verdict(True, (KEPT,), ranges=1, records=90),
)
LOSS = "orders-3 [40, 100): 60 offsets were deleted on the source before they were copied."
NOTE = "customers: the topic was deleted on the source. Its copy eu.customers stays as it is."
VOID = {"meta", "input", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """The page's text, and whether every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def text(report: RunReport) -> str:
    return Page(render(report)).text


def test_topics_whose_records_got_other_ids_are_named() -> None:
    assert "ids of schemas" not in text(REPORT)
    said = "schema ids of orders: translated in its value (rule 12)"
    assert said in text(changed(REPORT, translated_ids=(said,)))


class TestTheHeadline:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({}, "Verified: the copy is complete"),
            ({"reasons": {"lost": 60}}, "Verified; 60 offsets were lost before they were copied"),
            ({"reasons": {"lost": 1}}, "Verified; 1 offset was lost before it was copied"),
            ({"reasons": {"dead-lettered": 1}}, "Verified; 1 record went to the dead letter topic"),
            (
                {"reasons": {"lost": 60, "dead-lettered": 3}},
                "Verified; 60 offsets were lost before they were copied; "
                "3 records went to the dead letter topic",
            ),
            (
                {"failures": (A_FAILURE,), "reasons": {"lost": 60}},
                "1 partition failed; the rest is verified; "
                "60 offsets were lost before they were copied",
            ),
            (
                {"ranges": (changed(RANGE, rewound_from=140, run="scheduled__2026-11-21"),)},
                "Verified; the source has lost 40 offsets that had been copied",
            ),
            (
                {"ranges": (changed(RANGE, rewound_from=140, run="an earlier one"),)},
                "Verified: the copy is complete",
            ),
            ({"verdict": None}, "Copied, not verified"),
            (
                {"step_failures": {"verify": ("no broker answers.",)}, "verdict": None},
                "The step verify failed; nothing is verified",
            ),
            (
                {"failures": (A_FAILURE,), "step_failures": {"verify": ("b",)}, "verdict": None},
                "1 partition failed; nothing is verified",
            ),
            ({"verdict": Verdict(False)}, "The copy is incomplete"),
            ({"failures": (A_FAILURE,)}, "1 partition failed; the rest is verified"),
            (
                {"failures": (A_FAILURE,) * 2, "verdict": None},
                "2 partitions failed; nothing is verified",
            ),
            (
                {"failures": (A_FAILURE,), "verdict": Verdict(False)},
                "1 partition failed; the copy is incomplete",
            ),
            (
                {"unapplied": ("a", "b"), "reasons": {"lost": 1}},
                "Verified, but 2 changes could not be made on the target; "
                "1 offset was lost before it was copied",
            ),
            ({"unapplied": ("a",), "verdict": Verdict(False)}, "The copy is incomplete"),
            (
                {"refused": (A_REFUSAL,)},
                "1 topic or partition cannot be mirrored; the rest is verified",
            ),
        ],
    )
    def test_says_the_state(self, changes, said) -> None:
        report = changed(REPORT, **changes)
        assert headline(report) == said
        assert said in text(report)

    def test_of_a_failed_run_never_claims_that_the_copy_is_complete(self) -> None:
        assert "complete" not in headline(changed(REPORT, failures=(A_FAILURE,)))

    def test_of_a_run_that_lost_records_never_claims_that_the_copy_is_complete(self) -> None:
        assert "complete" not in headline(changed(REPORT, reasons={"lost": 1}))

    def test_of_a_run_that_did_not_apply_everything_is_not_in_the_colour_of_success(self) -> None:
        page = render(changed(REPORT, unapplied=("a",)))
        assert '<header class="not-applied">' in page
        assert "header.not-applied," in page

    def test_of_a_run_that_lost_records_is_not_in_the_colour_of_success(self) -> None:
        assert '<header class="verified">' in render(REPORT)
        lost = changed(REPORT, reasons={"lost": 1}, losses=(LOSS,))
        assert '<header class="verified warned">' in render(lost)


class TestThePage:
    def test_says_which_flow_which_run_when_how_long_and_how_much(self) -> None:
        said = text(REPORT)
        for words in (
            "Flow eu->us , from eu to us",
            "Run scheduled__2026-11-21",
            "Planned 2026-11-21 01:29:12 UTC",
            "Finished 2026-11-21 01:31:25 UTC",
            "Whole run 2 min 13 s",
            "Copied 90 records",
            "Source offsets 100",
            "1.23 MB",
            "Verified 90 records in 1 range",
        ):
            assert words in said

    def test_says_what_became_of_every_offset(self) -> None:
        assert "copied 90 90% aborted 8 8% control 2 2%" in text(REPORT)

    def test_names_failures_before_everything_else(self) -> None:
        report = changed(
            REPORT,
            failures=(a_failure(message="too large. Raise max.message.bytes."),),
            refused=(A_REFUSAL,),
            verdict=Verdict(False, (KEPT, BROKEN), failures=BROKEN.sentences),
        )
        said = text(report)
        places = [
            said.index(words)
            for words in (
                "orders-0 -> eu.orders-0 stopped at offset 7: too large. Raise max.message.bytes.",
                "old: fewer partitions. Add 3.",
                "Expected, and not true: nothing lies between our records that the ledger does not have",
                "What to do: Find the other producer.",
                "orders-3 [100, 200): 4 records of another producer",
                "What was checked",
                "What happened to the offsets",
            )
        ]
        assert places == sorted(places)

    def test_names_each_finding_once(self) -> None:
        verdict = Verdict(False, (BROKEN,), failures=BROKEN.sentences)
        assert text(changed(REPORT, verdict=verdict)).count("4 records of another producer") == 1

    def test_keeps_warnings_apart_from_failures(self) -> None:
        verdict = Verdict(
            True, (KEPT, WARNED), warnings=(*WARNED.sentences, "The Data Docs could not be written")
        )
        said = text(changed(REPORT, verdict=verdict))
        assert "What failed" not in said
        assert "Worth knowing Expected, and not true: no copied record has expired" in said
        assert "The Data Docs could not be written" in said

    def test_names_losses_dead_letters_and_notes_before_what_was_checked(self) -> None:
        report = changed(
            REPORT,
            reasons={"lost": 60, "dead-lettered": 1_200},
            losses=(LOSS,),
            dead_letter_topic="ferry-dead-letter.eu.internal",
            notes=(NOTE,),
        )
        said = text(report)
        places = [
            said.index(words)
            for words in (
                "What the target does not have",
                LOSS,
                "1,200 records went to the dead letter topic ferry-dead-letter.eu.internal.",
                NOTE,
                "What was checked",
                "lost 60",
                "dead-lettered 1,200",
            )
        ]
        assert places == sorted(places)

    def test_of_a_run_that_only_noted_something_says_so(self) -> None:
        said = text(changed(REPORT, notes=(NOTE,)))
        assert f"Unusual Noted when the run was planned {NOTE}" in said
        assert "What the target does not have" not in said

    def test_of_a_run_without_either_has_no_such_section(self) -> None:
        said = text(changed(REPORT, dead_letter_topic="ferry-dead-letter.eu.internal"))
        for words in ("Unusual", "does not have", "dead-letter"):
            assert words not in said

    def test_folds_away_all_but_the_first_losses(self) -> None:
        report = changed(
            REPORT,
            reasons={"lost": 30},
            losses=tuple(f"orders-{n} [0, 1): 1 offset was deleted." for n in range(30)),
        )
        html = render(report)
        assert "<summary>10 more</summary>" in html
        folded = html.index("<summary>10 more")
        assert html.index("orders-19 [0") < folded < html.index("orders-20 [0")

    def test_names_an_expectation_that_could_not_be_evaluated(self) -> None:
        raised = replace(BROKEN, unexpected=(), raised="KeyError: foreign")
        said = text(changed(REPORT, verdict=Verdict(False, (raised,), failures=raised.sentences)))
        assert (
            "Could not be evaluated: nothing lies between our records that the ledger does not have"
            in said
        )
        assert "KeyError: foreign" in said

    def test_lists_expectations_with_what_is_not_true_on_top(self) -> None:
        said = text(changed(REPORT, verdict=Verdict(False, (KEPT, WARNED, BROKEN))))
        listed = said[said.index("What was checked") :]
        places = [listed.index(check.name) for check in (BROKEN, WARNED, KEPT)]
        assert places == sorted(places)

    def test_says_of_each_check_in_words_what_came_of_it(self) -> None:
        html = render(changed(REPORT, verdict=Verdict(False, (KEPT, BROKEN))))
        table = html[html.index("<h2>What was checked") :]
        cells = re.findall(r"<td[^>]*>([^<]*)</td>", table[: table.index("</table>")])
        assert cells[::3] == ["not as expected", "as expected"]

    @pytest.mark.parametrize(("topics", "is_open"), [(10, True), (11, False)])
    def test_folds_away_more_than_ten_topics_that_were_not_mirrored(
        self, topics: int, is_open: bool
    ) -> None:
        skipped = tuple((f"tmp.{n}", "excluded") for n in range(topics))
        html = render(changed(REPORT, skipped=skipped))
        section = html[html.index(f"<h2>{topics} source topics not mirrored") :]
        assert section[section.index("<details") :].startswith("<details open>") == is_open

    def test_says_what_was_not_mirrored_and_why(self) -> None:
        report = changed(REPORT, skipped=(("tmp.scratch", "matches topics.exclude"),))
        assert "1 source topic not mirrored All topics tmp.scratch matches topics.exclude" in text(
            report
        )

    def test_leads_to_the_data_docs(self) -> None:
        report = changed(REPORT, verdict=Verdict(True, (KEPT,), docs=Path("/docs/index.html")))
        # From runs/{run}/report.html of the state folder, and likewise below the page Mirrors.
        assert '<a href="../../data_docs/index.html">Data Docs</a>' in render(report)

    def test_of_a_run_that_did_nothing_is_a_page(self) -> None:
        assert "Copied, not verified" in text(a_report())


CHOICES = (
    OffsetsChoice("orders", "eu.orders", True, "offsets: preserved."),
    OffsetsChoice("customers", "eu.customers", False, "auto: about 20% have a record."),
)
KEPT_PARTITION = changed(PARTITION, preserved=True, uncommitted=1_040)


class TestPreservedOffsets:
    def test_are_said_of_each_topic_with_the_reason(self) -> None:
        said = text(changed(REPORT, choices=CHOICES))
        assert "Offsets preserved in 1 of 2 topics" in said
        assert (
            "Translated or preserved offsets All topics orders preserved offsets: preserved. "
            "customers translated auto: about 20% have a record." in said
        )

    def test_of_none_take_no_room(self) -> None:
        said = text(changed(REPORT, choices=CHOICES[1:]))
        for words in ("preserved", "Uncommitted", "Adopted", "Translated or preserved offsets"):
            assert words not in said

    def test_say_what_was_adopted_and_where(self) -> None:
        said = text(changed(REPORT, adopted=1_200, adoptions=("orders-3 [100, 2000): 1,200.",)))
        assert (
            "Unusual Records that were already on the target: 1,200 An attempt that "
            "broke off had written them. Each was compared with the source's record. "
            "orders-3 [100, 2000): 1,200." in said
        )

    def test_say_what_the_ledger_does_not_have_yet(self) -> None:
        said = text(changed(REPORT, partitions=(KEPT_PARTITION, PARTITION)))
        assert "Records that the ledger does not have yet" in said
        assert "orders-3: 1,040 on eu.orders, from offset 200 on." in said
        assert said.count(" on eu.orders, from") == 1

    def test_without_either_say_nothing_unusual(self) -> None:
        assert "Unusual" not in text(changed(REPORT, choices=CHOICES))

    def test_have_columns_of_their_own(self) -> None:
        partition = changed(KEPT_PARTITION, target_before=71, unreached=72, exposed=73)
        range_ = changed(RANGE, preserved=True, adopted=74, misplaced=75)
        html = render(changed(REPORT, partitions=(partition,), ranges=(range_,)))
        shown = cells_of(html, "partition") | cells_of(html, "range")
        assert shown["Offsets"] == "100", "of the ranges' table"
        assert cells_of(html, "partition")["Offsets"] == "preserved"
        assert (
            shown
            | {
                "Uncommitted": "1,040",
                "Before the mirror": "71",
                "Not on the log": "72",
                "Start too early": "73",
                "Adopted": "74",
                "Misplaced": "75",
            }
            == shown
        )


def cells_of(html: str, what: str) -> dict[str, str]:
    """What the only row of a table says, by the heads of the columns."""
    table = html[html.index(f"<h2>1 {what}") :]
    table = table[: table.index("</table>")]
    heads = re.findall(r"<th[^>]*>([^<]+)</th>", table)
    return dict(zip(heads, re.findall(r"<td[^>]*>([^<]*)</td>", table), strict=True))


class TestTheTables:
    @pytest.mark.parametrize(
        "changes",
        [
            {"aborted": 7},
            {"target_records": 89},
            {"foreign": 1},
            {"digest_read": "d2"},
            {"misplaced": 1},
        ],
    )
    def test_put_ranges_that_do_not_agree_on_top(self, changes) -> None:
        off = changed(RANGE, topic="zebra", **changes)
        html = render(changed(REPORT, ranges=(RANGE, off)))
        assert html.count('<tr class="off">') == 1
        assert html.index("zebra-3 [100, 200)") < html.index("orders-3 [100, 200)")

    @pytest.mark.parametrize(
        "changes",
        [
            {"gap_offsets": 1},
            {"overlap_offsets": 1},
            {"beyond_position": 1},
            {"target_beyond": 1},
            {"target_before": 1},
            {"unreached": 1},
            {"exposed": 1},
            {"planned_end": 250},
        ],
    )
    def test_put_partitions_that_do_not_agree_on_top(self, changes) -> None:
        off = changed(PARTITION, topic="zebra", **changes)
        html = render(changed(REPORT, partitions=(PARTITION, off)))
        assert html.count('<tr class="off">') == 1
        assert "1 not as expected" in html
        assert html.index("zebra-3") < html.index("orders-3")

    def test_have_columns_for_what_was_lost_dead_lettered_or_deleted_since(self) -> None:
        html = render(changed(REPORT, ranges=(changed(RANGE, lost=71, dead_lettered=72, gone=73),)))
        shown = cells_of(html, "range")
        assert (shown["Lost"], shown["Dead letters"], shown["Topic gone"]) == ("71", "72", "73")

    def test_say_what_is_not_known(self) -> None:
        stray = PartitionRow("", 0, "eu.other", -1, -1, Coverage(0, 0), log=RemoteLog(5))
        assert "unknown eu.other nothing [0, 0) 0 0 0 none 0 5" in text(
            changed(REPORT, partitions=(stray,))
        )

    def test_of_ten_thousand_rows_are_closed_and_made_within_seconds(self) -> None:
        ranges = tuple(replace(RANGE, start=n, end=n + 100) for n in range(10_000))
        off = tuple(changed(RANGE, start=-n, end=100 - n, foreign=1) for n in range(1, 4))
        partitions = tuple(changed(PARTITION, partition=n) for n in range(10_000))
        began = time.perf_counter()
        html = render(changed(REPORT, ranges=ranges + off, partitions=partitions))
        assert time.perf_counter() - began < 20
        assert len(html) < 9_000_000
        assert html.count('<tr class="off">') == 6
        assert "<details>\n    <summary>All ranges" in html


class TestSafety:
    def test_everything_is_escaped(self) -> None:
        evil = "<script>alert('x')</script>"

        def poisoned(row):
            stored = TypeAdapter(type(row)).dump_python(row)
            return changed(row, **{name: evil for name in stored if isinstance(stored[name], str)})

        check = replace(BROKEN, name=evil, unexpected=(evil,), advice=evil)
        report = changed(
            poisoned(REPORT),
            seconds={evil: 1.0},
            reasons={evil: 1, "dead-lettered": 1},
            rebuilt={evil: 1},
            failures=(a_failure(message=evil),),
            refused=(Refusal(evil, evil, evil),),
            skipped=((evil, evil),),
            losses=(evil,),
            notes=(evil,),
            choices=(OffsetsChoice(evil, evil, True, evil),),
            adopted=1,
            adoptions=(evil,),
            ranges=(poisoned(RANGE),),
            partitions=(poisoned(KEPT_PARTITION),),
            verdict=Verdict(
                False,
                (check, replace(check, raised=evil), replace(check, severity="warning")),
                (evil,),
                (evil,),
                docs=Path(evil),
            ),
        )
        html = render(report)
        assert evil not in html
        assert html.count("<script") == 1
        assert unescape(html).count(evil) > 20

    def test_nothing_is_loaded_from_anywhere(self) -> None:
        html = render(REPORT)
        assert not re.search(r"https?:|//\w|\b(?:src|href)\s*=|url\(|@import", html)
        assert "default-src 'none'" in html


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (133.4, "2 min 13 s"),
        (3599.7, "1 h 0 min"),
        (11_100, "3 h 5 min"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, said: str) -> None:
    assert duration_text(seconds) == said


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1_234_567, "1.23 MB"),
        (99_960_000, "100 MB"),
        (999_600_000, "1 GB"),
        (12_340_000_000, "12.3 GB"),
        (5 * 10**18, "5000 PB"),
    ],
)
def test_a_size_has_three_digits(size: int, said: str) -> None:
    assert _size(size) == said


class TestWhatWasChanged:
    CHANGE = "eu.orders: set retention.ms=5 (it was 4)"
    DRIFT = "eu.orders has segment.ms=1, which this flow has not set"
    UNAPPLIED = "eu.orders: flush.ms could not be set."
    RETIREMENT = "eu.old: old is gone from the source"

    def test_says_each_change_and_what_could_not_be_changed(self) -> None:
        said = text(changed(REPORT, changes=(self.CHANGE,), unapplied=(self.UNAPPLIED,)))
        assert "1 change on the target in addition to topics and records" in said
        assert self.CHANGE in said
        failed = said.index("Could not be changed on the target")
        assert said.index("What failed") < failed < said.index(self.UNAPPLIED)

    def test_says_what_has_drifted_and_what_is_retired(self) -> None:
        said = text(changed(REPORT, drifts=(self.DRIFT,), retirements=(self.RETIREMENT,)))
        assert "Unusual" in said
        assert self.DRIFT in said
        assert self.RETIREMENT in said
        assert "What failed" not in said

    def test_says_nothing_of_it_where_there_is_nothing(self) -> None:
        said = text(REPORT)
        for word in (
            "in addition to topics",
            "could not be changed",
            "not as the flow says",
            "are gone",
        ):
            assert word not in said.casefold()

    def test_of_thousands_of_changes_shows_a_few(self) -> None:
        changes = tuple(f"topic {number}: set a=b" for number in range(5_000))
        page = render(changed(REPORT, changes=changes))
        assert "4,980 more" in page


def test_says_until_when_the_copy_is_proved_and_how_far_it_is_behind() -> None:
    rows = tuple(
        PartitionMeasures("orders", at, "eu.orders", records_behind=behind, seconds_behind=late)
        for at, (behind, late) in enumerate([(0, 0.0), (1_200, 95.0), (None, None)])
    )
    measures = Measures(2.0, REPORT.times.planned_at, rows)
    shown = text(changed(REPORT, measures=measures))
    assert "Proved complete until 2026-11-21 01:29:12 UTC" in shown
    assert "Lag at the end 1,200 offsets, 1 min 35 s" in shown


def test_says_which_metrics_are_missing_and_nothing_of_any_in_an_older_report() -> None:
    untold = "The metrics could not be pushed to http://gateway: it is <down>."
    shown = text(changed(REPORT, measures=Measures(missing=(untold,))))
    assert f"Metrics that could not be measured or sent {untold}" in shown
    older = text(REPORT)
    assert "Proved complete until" not in older
    assert "Lag at the end" not in older
