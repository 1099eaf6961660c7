"""The notice about a run: the worst first, in few words, each with what to do. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from kafka_ferry.as_json import AsJson
from kafka_ferry.config.options.notify import EVENTS, Event
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.results.steps import StepPart, StepRecord
from kafka_ferry.printable import one_line
from kafka_ferry.report.run_report import RunProblems, RunReport
from kafka_ferry.verify.counts import count

DETAILS: Final = 5
"""How many sentences of one kind a notice has; the report has all of them."""

_LONGEST: Final = 400  # characters of a sentence: brokers' and Java's messages may be very long
_GUIDE: Final = "docs/metrics.md, "

AFTER_REFUSALS: Final = (
    "Each sentence says what to change; then let the next run copy it, or clear the task plan."
)
"""What to do about what a plan has refused: it stands in the stored plan."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact in a notice.

    Attributes:
        event: its kind.
        headline: what happened, without a full stop.
        details: sentences that name topic, partition, group or reason; only the first ones.
        more: how many more of them there are.
        advice: what to do, in sentences.
    """

    event: Event
    headline: str
    details: tuple[str, ...] = ()
    more: int = 0
    advice: str = ""

    def __post_init__(self) -> None:
        for name in ("headline", "advice"):
            object.__setattr__(self, name, one_line(getattr(self, name)))
        object.__setattr__(self, "details", tuple(map(one_line, self.details)))


@dataclass(frozen=True, slots=True)
class StepEnd:
    """A step of a run that did not succeed.

    Attributes:
        part: the step or its shard.
        record: how it ended, None where that is not known: it was killed, or never started.
    """

    part: StepPart
    record: StepRecord | None = None


@dataclass(frozen=True)
class Notice(AsJson):
    """One message about one run.

    Attributes:
        flow: the flow's name.
        run: the run's id.
        at: when it was written, in milliseconds since 1970.
        facts: the facts, the worst first.
        published: whether the run has a report.
    """

    WHAT: ClassVar = "a notice"

    flow: str
    run: str
    at: int
    facts: tuple[Fact, ...] = ()
    published: bool = False

    def about(self, events: Collection[Event]) -> Notice:
        """The notice with only the facts of ``events``."""
        return replace(self, facts=tuple(fact for fact in self.facts if fact.event in events))

    @property
    def title(self) -> str:
        """The worst of it in one line."""
        if not self.facts:
            return f"{self.flow}: nothing to tell"
        worst, *rest = self.facts
        more = f" (and {len(rest)} more)" if rest else ""
        return one_line(f"{self.flow}: {worst.headline}{more}")

    @property
    def lines(self) -> Iterator[str]:
        """All of it as plain text, without the title."""
        for fact in self.facts:
            yield f"{fact.event.upper()}: {fact.headline}."
            yield from (f"  - {detail}" for detail in fact.details)
            if fact.more:
                yield f"  - and {fact.more:,} more"
            if fact.advice:
                yield f"  What to do: {fact.advice}"


def fact(event: Event, headline: str, sentences: Iterable[str] = (), advice: str = "") -> Fact:
    """A fact with no more sentences than fit into a message."""
    lines = [" ".join(sentence.split()) for sentence in sentences]
    shown = (
        sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST].rstrip()} ..."
        for sentence in lines[:DETAILS]
    )
    return Fact(event, headline, tuple(shown), max(0, len(lines) - DETAILS), advice)


def sorted_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """The facts, the worst first."""
    return tuple(sorted(facts, key=lambda one: EVENTS.index(one.event)))


# What failed in a step, and what to do; {many} is the number of failures.
_FAILED: Final[Mapping[str, tuple[str, str]]] = {
    "plan": (
        "the run could not be planned, nothing was copied",
        "Fix what it names; the next run plans again, or clear the task plan. "
        f"({_GUIDE}KafkaFerryNoRun)",
    ),
    "approve": (
        "the plan was not approved, nothing was copied",
        "Clear the task plan to plan the run again.",
    ),
    "sync_topics": (
        "the target's topics could not be prepared, nothing was copied",
        "Fix what it names, then clear the task sync_topics.",
    ),
    "mirror": (
        "{many} not copied to the end",
        "All others are copied. Clear the task mirror once the cause is gone, or let the next run continue "
        f"where this one stopped: nothing is copied twice. ({_GUIDE}KafkaFerryRunFailed)",
    ),
    "verify": (
        "the copy is not proved complete",
        "Open the report: it names topic, partition, range and what to check. Do not fail over to these "
        f"topics before it is fixed. ({_GUIDE}KafkaFerryCopyIncomplete)",
    ),
    "sync_groups": (
        "the offsets of some groups were not synced",
        "The records are copied. Fix what it names, then clear the task sync_groups. (docs/groups.md)",
    ),
    "publish": (
        "the run could not be published",
        "Fix what it names, then clear the task publish.",
    ),
}
_TRANSIENT: Final = "It may resolve itself: the next run tries again. "
_SEE_LOG: Final = (
    "Its log says why, unless it was killed, timed out or was marked as failed. Clear it to continue: "
    "nothing is lost, and nothing is copied twice. (docs/reruns.md)"
)


def failures(ends: Iterable[StepEnd], report: RunReport | None) -> Iterator[Fact]:
    """What made a run fail, in the order of its steps.

    Args:
        ends: the steps that did not succeed, in the order in which they ran.
        report: the run's report, None where it was not published.
    """
    problems = report.problems if report else RunProblems()
    verdict, is_judged = report.proof.verdict if report else None, False
    refused = problems.refused
    reported: set[Refusal | Failure | str] = {*refused}
    if refused:
        what = count(len(refused), "topic or partition", "topics or partitions")
        advice = f"{AFTER_REFUSALS} ({_GUIDE}KafkaFerryRunFailed)"
        yield fact("failure", f"{what} cannot be mirrored as things are", map(str, refused), advice)
    for end in ends:
        if end.record is None:
            yield fact("failure", f"the task {end.part} failed", advice=_SEE_LOG)
        elif verdict and verdict.failures and end.part.step in ("verify", "publish"):
            # A verification's failure by its single sentences; some checks are made when the run is published.
            if not is_judged:
                yield _failure(replace(end, part=StepPart("verify")), verdict.failures)
            is_judged = True
        elif not (problems.unapplied and end.record.details and end.part.step == "publish"):
            new = [problem for problem in end.record.problems if problem not in reported]
            reported.update(new)
            if new:
                yield _failure(end, [*map(str, new)])
    if problems.unapplied:
        what = count(len(problems.unapplied), "change")
        advice = (
            "Grant the permission that is named, then clear the task sync_topics. (docs/access.md)"
        )
        yield fact("failure", f"{what} could not be made on the target", problems.unapplied, advice)


def _failure(end: StepEnd, sentences: Sequence[str]) -> Fact:
    headline, advice = _FAILED.get(end.part.step, (f"the task {end.part} failed", _SEE_LOG))
    many = count(len(sentences), "partition")
    if end.part.shard is not None:
        headline += f" in {end.part}"
    wait = _TRANSIENT if end.record and end.record.transient else ""
    return fact("failure", headline.format(many=many), sentences, wait + advice)


def losses(report: RunReport) -> Iterator[Fact]:
    """Records that are lost for ever, and records that went to the dead letter topic."""
    counts = report.counts
    if counts.lost:
        wording = "offset was" if counts.lost == 1 else "offsets were"
        yield fact(
            "loss",
            f"{counts.lost:,} {wording} deleted on the source before they were copied",
            counts.losses,
            "They cannot be recovered. Run more often, or keep the source's records longer. "
            f"({_GUIDE}KafkaFerryRecordsLost)",
        )
    if report.topics.deleted:
        yield fact(
            "loss",
            report.deleted_text,
            report.topics.deleted,
            "Another backfill of this window cannot copy them either. (docs/backfill.md)",
        )
    if counts.dead_lettered:
        yield fact(
            "loss",
            f"{count(counts.dead_lettered, 'record')} went to the dead letter topic",
            advice=f"Read {counts.dead_letter_topic}: each record there says why. (docs/operations.md)",
        )
    rewound = report.proof.rewound(report.run)
    if rewound:
        yield fact(
            "loss",
            f"the source has lost {count(rewound, 'offset')} that had been copied",
            advice="The target has records that the source lacks. Compare them before anything is copied back. "
            "(docs/operations.md)",
        )


def differences(
    report: RunReport, sent: Collection[str] = (), *, whole: bool = True
) -> Iterator[Fact]:
    """Drift and warnings, without those that were sent already.

    Args:
        report: the run's report.
        whole: whether the run was for all that the flow copies; otherwise its plan's notes only repeat
            its options.
        sent: sentences that were sent for an earlier run, and are still true.
    """
    drifts = [sentence for sentence in report.topics.drifts if sentence not in sent]
    if drifts:
        they_are = "is" if len(drifts) == 1 else "are"
        what = f"{count(len(drifts), 'setting')} of remote topics {they_are} not as this flow says"
        advice = (
            "Set configs back, or decide with on.config.drift; move replicas with "
            "kafka-reassign-partitions.sh. (docs/topic-configs.md)"
        )
        yield fact("drift", what, drifts, advice)
    warnings = [sentence for sentence in _warnings(report, whole) if sentence not in sent]
    if warnings:
        what = count(len(warnings), "thing")
        yield fact("warning", f"{what} to look at", warnings, "The report has all of them.")


def lasting_problems(report: RunReport, *, whole: bool = True) -> tuple[str, ...]:
    """The sentences of a run that the next run may repeat: they are sent once."""
    return (*report.topics.drifts, *_warnings(report, whole))


def recovery(runs: Iterable[str]) -> Fact:
    """The fact that a failure is resolved.

    Args:
        runs: the runs that had failed.
    """
    failed = [f"{run} had failed." for run in runs]
    return fact(
        "recovered",
        "the flow works again: all that was left is copied and verified",
        failed,
    )


def _warnings(report: RunReport, whole: bool) -> tuple[str, ...]:
    topics, verdict = report.topics, report.proof.verdict
    warnings = verdict.warnings if verdict else ()
    missing = report.measures.missing
    return (*warnings, *topics.retirements, *(topics.notes if whole else ()), *missing)
