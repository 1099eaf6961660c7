"""What one message about a run says: the worst first, in few words, with what to do."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_ferry.config.options.notify import EVENTS
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.results.steps import StepPart, StepRecord
from kafka_ferry.report import RunReport
from kafka_ferry.report.measures import Measures
from kafka_ferry.report.notice import (
    DETAILS,
    Fact,
    Notice,
    StepEnd,
    differences,
    fact,
    failures,
    lasting_problems,
    losses,
    recovery,
    sorted_facts,
)
from kafka_ferry.verify import Verdict
from tests.support.runs.reports import a_failure, a_report, changed

GOOD = a_report(verdict=Verdict(success=True))
DRIFT = "eu.orders: retention.ms is 5, the flow has set 7."


def notice(*facts: Fact) -> Notice:
    return Notice("eu->us", "run", 0, sorted_facts(facts))


def failed(*ends: StepEnd, report: RunReport | None = None) -> list[str]:
    return [one.headline for one in failures(ends, report)]


def events(facts: Iterable[Fact]) -> list[str]:
    return [one.event for one in facts]


def test_a_complete_run_has_nothing_to_tell() -> None:
    assert [*losses(GOOD), *differences(GOOD), *failures([], GOOD)] == []
    assert notice().title == "eu->us: nothing to tell"


def test_the_worst_comes_first_and_is_the_title() -> None:
    told = notice(recovery(["a"]), fact("warning", "look"), fact("failure", "3 partitions failed"))

    assert events(told.facts) == ["failure", "recovered", "warning"]
    assert told.title == "eu->us: 3 partitions failed (and 2 more)"


def test_a_message_shows_the_first_sentences_and_how_many_more_there_are() -> None:
    told = fact("loss", "lost", [f"orders-{number}:\n  gone" for number in range(DETAILS + 3)])

    assert told.details[0] == "orders-0: gone"
    assert (len(told.details), told.more) == (DETAILS, 3)


def test_a_sentence_without_end_is_cut() -> None:
    (detail,) = fact("failure", "failed", ["x" * 10_000]).details

    assert len(detail) < 500
    assert detail.endswith(" ...")


def test_a_channel_hears_only_of_its_events() -> None:
    told = notice(fact("failure", "failed"), fact("drift", "differs"))

    assert told.about({"drift"}).title == "eu->us: differs"
    assert told.about({"loss"}).facts == ()
    assert told.about(EVENTS) == told


@pytest.mark.parametrize(
    ("part", "headline", "task"),
    [
        (StepPart("plan"), "the run could not be planned, nothing was copied", "plan"),
        (StepPart("sync_topics"), "the target's topics could not be prepared", "sync_topics"),
        (StepPart("mirror"), "2 partitions not copied to the end", "mirror"),
        (StepPart("mirror", 3), "2 partitions not copied to the end in mirror-3", "mirror"),
        (StepPart("verify"), "the copy is not proved complete", "report"),
        (StepPart("sync_groups"), "the offsets of some groups were not synced", "sync_groups"),
        (StepPart("publish"), "the run could not be published", "publish"),
    ],
)
def test_each_failed_step_is_told_with_what_to_do(part: StepPart, headline: str, task: str) -> None:
    record = StepRecord(part, 1, "It failed.", details=("orders-1: no", "orders-2: no"))
    (told,) = failures([StepEnd(part, record)], None)

    assert told.headline.startswith(headline)
    assert told.details == ("orders-1: no", "orders-2: no")
    assert task in told.advice


def test_what_may_pass_by_itself_is_told_as_such() -> None:
    part = StepPart("mirror")
    timed_out = StepEnd(part, StepRecord(part, 1, "timed out", transient=True))
    (passing,) = failures([timed_out], None)
    (lasting_,) = failures([StepEnd(part, StepRecord(part, 1, "too large"))], None)

    assert passing.advice.startswith("It may resolve itself")
    assert "may pass" not in lasting_.advice


def test_a_step_that_did_not_say_how_it_ended_was_killed() -> None:
    (told,) = failures([StepEnd(StepPart("mirror"))], None)

    assert told.headline == "the task mirror failed"
    assert "was killed" in told.advice


def test_a_topic_that_is_refused_is_told_once_and_not_as_a_partition_that_failed() -> None:
    refused = (Refusal("orders", "of another kind.", ""),)
    report = changed(GOOD, refused=refused)
    end = StepEnd(
        StepPart("mirror"),
        StepRecord(StepPart("mirror"), 1, "It failed.", (a_failure("clicks"),), refused),
    )

    assert failed(end, report=report) == [
        "1 topic or partition cannot be mirrored as things are",
        "1 partition not copied to the end",
    ]


def test_a_verdict_is_told_by_its_sentences_also_where_publish_has_judged() -> None:
    report = changed(GOOD, verdict=Verdict(success=False, failures=("orders-1 [0, 5): 4 of 5",)))
    ends = [
        StepEnd(
            StepPart("verify"),
            StepRecord(StepPart("verify"), 1, "The copy is not proved:\n  orders-1"),
        ),
        StepEnd(
            StepPart("publish"),
            StepRecord(StepPart("publish"), 1, "The copy is not proved:\n  orders-1"),
        ),
    ]
    (told,) = failures(ends, report)

    assert (told.headline, told.details) == (
        "the copy is not proved complete",
        ("orders-1 [0, 5): 4 of 5",),
    )


def test_changes_that_could_not_be_made_are_told() -> None:
    unapplied = ("eu.orders: retention.ms: no right",)
    end = StepEnd(
        StepPart("publish"),
        StepRecord(StepPart("publish"), 1, "Not made on the target.", details=unapplied),
    )

    assert failed(end, report=changed(GOOD, unapplied=unapplied)) == [
        "1 change could not be made on the target"
    ]


def test_losses_are_told_although_the_run_is_green() -> None:
    report = changed(
        GOOD, reasons={"lost": 1204, "dead-lettered": 1}, losses=("orders-3 [40, 1244): gone.",)
    )
    lost, dead = losses(report)

    assert lost.headline == "1,204 offsets were deleted on the source before they were copied"
    assert lost.details == ("orders-3 [40, 1244): gone.",)
    assert dead.headline == "1 record went to the dead letter topic"


def test_drift_and_warnings_are_told_but_for_what_was_told_before() -> None:
    report = changed(
        GOOD,
        drifts=(DRIFT,),
        notes=("clicks: deleted on the source.",),
        verdict=Verdict(success=True, warnings=("orders-1: 30 of 90 records",)),
        measures=Measures(missing=("No lag: the source did not answer.",)),
    )
    told = list(differences(report))

    assert events(told) == ["drift", "warning"]
    assert told[0].details == (DRIFT,)
    assert told[1].headline == "3 things to look at"
    assert list(differences(report, lasting_problems(report))) == []
    assert events(differences(report, [DRIFT])) == ["warning"]


def test_what_a_run_of_some_topics_notes_is_what_it_was_asked_for() -> None:
    report = changed(GOOD, notes=("Only these topics: orders.",))

    assert list(differences(report, whole=False)) == []
    assert lasting_problems(report, whole=False) == ()


def test_a_notice_is_stored_and_read_back() -> None:
    told = notice(fact("loss", "lost", ["a"], "Do."), recovery(["x"]))

    assert Notice.from_json(told.to_json()) == told


def test_as_text_it_says_what_happened_where_and_what_to_do() -> None:
    told = notice(
        fact("failure", "2 partitions failed", [f"p-{n}: no" for n in range(6)], "Clear it.")
    )

    assert list(told.lines) == [
        "FAILURE: 2 partitions failed.",
        *(f"  - p-{n}: no" for n in range(5)),
        "  - and 1 more",
        "  What to do: Clear it.",
    ]
