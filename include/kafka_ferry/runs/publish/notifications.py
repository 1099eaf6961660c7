"""The message about a run that has ended: made from what its steps left, and sent once.

The flow's ``notices.json`` keeps from run to run which runs failed and are not resolved yet, and which
drift and warnings were sent. A run's ``notice.json`` is its message, with the channels that have got it:
a second attempt to send it finds the same message, and no channel gets it twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from kafka_ferry.as_json import AsJson
from kafka_ferry.clock import now_ms
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.report import RunReport
from kafka_ferry.report.notice import (
    Fact,
    Notice,
    StepEnd,
    differences,
    failures,
    lasting_problems,
    losses,
    recovery,
    sorted_facts,
)
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import STEPS, RunFolder

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

_STANDING: Final = "notices.json"
_TOLD: Final = "notice.json"
_LAST: Final = STEPS[-1]
# A person may have to approve of a plan.
_ORDER: Final = (STEPS[0], "approve", *STEPS[1:])
_BAD: Final = ("failed", "upstream_failed")
# Airflow marks a task as failed by its upstream task: the upstream task is the one to report.
_OWN_FAULT: Final = "failed"


@dataclass(frozen=True, slots=True)
class UnresolvedRun:
    """A failed run that is not resolved yet.

    Attributes:
        run: its id.
        whole: whether it was for all that the flow copies, so that any later run of that kind resolves
            it; a backfill, or a run of some topics, is only resolved by itself.
        at: when it was planned, or had failed before that, in milliseconds since 1970.
    """

    run: str
    whole: bool = True
    at: int = 0


@dataclass(frozen=True)
class NotificationState(AsJson):
    """What is kept about a flow from run to run.

    Attributes:
        open: the failed runs that are not resolved.
        seen: sentences about drift and warnings that were sent, and were true in the last run.
    """

    WHAT: ClassVar = "what was told of a flow"

    open: tuple[UnresolvedRun, ...] = ()
    seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class SentNotice(AsJson):
    """A run's message, and the channels that have it.

    Attributes:
        ending: which end of the run it is about; a cleared run ends again.
        notice: the message.
        channels: the names of the channels that have got it.
    """

    WHAT: ClassVar = "a run's notice"

    ending: int
    notice: Notice
    channels: tuple[str, ...] = ()


class Notices:
    """The messages about one run."""

    def __init__(self, flow: Flow, run: str) -> None:
        self.flow = flow
        self.run = run
        self._runs = flow_state(flow).folder("runs")
        self._folder = RunFolder(self._runs, run)

    def of_ending(self, ending: int, tasks: Mapping[str, str]) -> SentNotice:
        """The message about a run that has just ended; the same one however often it is asked for.

        Args:
            ending: a number that grows each time the run is repeated.
            tasks: the states of the run's tasks in Airflow, by step; for mapped tasks the worst state.

        Raises:
            FerryError: a file in the state folder is not valid.
        """
        stored = self._folder.files.read(_TOLD)
        if stored and (notice := SentNotice.from_json(stored)).ending == ending:
            return notice
        notice = SentNotice(ending, self._compose(tasks))
        self._save(notice)
        return notice

    def mark(self, notice: SentNotice, channel: str) -> SentNotice:
        """Record that a channel has got the message."""
        notice = replace(notice, channels=(*notice.channels, channel))
        self._save(notice)
        return notice

    def steps_ended(self) -> tuple[str, ...]:
        """The steps that have ended so far, in their order."""
        return tuple(step for step in _ORDER if self._folder.step_record(step))

    def _save(self, notice: SentNotice) -> None:
        self._folder.files.write(_TOLD, notice.to_json())

    def _compose(self, tasks: Mapping[str, str]) -> Notice:
        standing = self._standing_state()
        report = self._report()
        published = tasks.get(_LAST) == "success"
        # A step that failed and was marked as a success since is for publish to judge.
        bad = any(
            state in _BAD for task, state in tasks.items() if not published or task not in _ORDER
        )
        good = published and not bad
        facts: list[Fact] = []
        if bad:
            facts += failures(self._ends(tasks), report)
        if report:
            whole = self._is_whole()
            facts += [*losses(report), *differences(report, standing.seen, whole=whole)]
        if good and report:
            made_good = [problem for problem in standing.open if self._makes_good(problem)]
            facts += [recovery(problem.run for problem in made_good)] if made_good else []
        self._remember(standing, report, bad=bad, good=good)
        return Notice(
            self.flow.name, self.run, now_ms(), sorted_facts(facts), published=report is not None
        )

    def _remember(
        self, standing: NotificationState, report: RunReport | None, *, bad: bool, good: bool
    ) -> None:
        seen, still = standing.seen, standing.open
        whole = self._is_whole()
        if report:
            problems = lasting_problems(report, whole=whole)
            seen = problems if whole else tuple(dict.fromkeys((*seen, *problems)))
        if bad and self.run not in [trouble.run for trouble in still]:
            still = (*still, UnresolvedRun(self.run, whole, self._plan_time()))
        if good and report:
            still = tuple(trouble for trouble in still if not self._makes_good(trouble))
        if (remembered := NotificationState(still, seen)) != standing:
            self._runs.write(_STANDING, remembered.to_json())

    def _makes_good(self, trouble: UnresolvedRun) -> bool:
        if trouble.whole and not self._is_whole():
            # It may have the id of a run of the whole flow that a user has deleted in Airflow.
            return False
        # An older run that is published again has not looked at what a newer one has found.
        is_later = self._plan_time() >= trouble.at
        return trouble.run == self.run or (trouble.whole and is_later)

    def _standing_state(self) -> NotificationState:
        stored = self._runs.read(_STANDING)
        return NotificationState.from_json(stored) if stored else NotificationState()

    def _is_whole(self) -> bool:
        """Whether the run is for all that the flow copies; true for a run that was never planned."""
        plan = self._folder.known_plan()
        return plan is None or plan.options.is_whole

    def _plan_time(self) -> int:
        plan = self._folder.known_plan()
        return plan.at if plan else now_ms()

    def _report(self) -> RunReport | None:
        """The run's report, unless it is from an earlier attempt of the same run."""
        if self._folder.step_record(_LAST) is None:
            return None
        return self._folder.report()

    def _ends(self, tasks: Mapping[str, str]) -> tuple[StepEnd, ...]:
        """The steps that failed, in their order, without those that only follow from others."""
        records = self._folder.step_records()
        ends: list[StepEnd] = []
        for step in _ORDER:
            bad = [it for it in records if it.part.step == step and it.error is not None]
            # What publish raises repeats the errors of the steps before it.
            if step == _LAST and ends:
                break
            ends += [StepEnd(record.part, record) for record in bad]
            if not bad and tasks.get(step) == _OWN_FAULT:
                ends.append(StepEnd(StepPart(step)))
        failed_tasks = (task for task, state in tasks.items() if state == _OWN_FAULT)
        return (*ends, *(StepEnd(StepPart(task)) for task in failed_tasks if task not in _ORDER))
