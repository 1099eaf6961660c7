"""What there is to tell of a run is found in what its steps left, and told once."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import RunOptions
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.model.run_options import Window
from kafka_ferry.plan import make_plan
from kafka_ferry.report import RunReport
from kafka_ferry.runs.publish.notifications import Notices
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import STEPS, RunFolder
from kafka_ferry.verify import Verdict
from tests.support.runs.reports import a_failure, a_report, changed
from tests.unit.plan.builders import NOW, a_source, a_state

GREEN = dict.fromkeys(STEPS, "success")
RED = GREEN | {"mirror": "failed", "publish": "failed"}
REPORT = a_report("primary->backup", verdict=Verdict(success=True))
DRIFT = "primary.orders: retention.ms is 5."


def folder_of(flow: Flow, run: str) -> RunFolder:
    return RunFolder(flow_state(flow).folder("runs"), run)


def leave(
    flow: Flow,
    run: str,
    report: RunReport | None = REPORT,
    options: RunOptions | None = None,
    at: int = NOW,
    **errors: FerryError,
) -> None:
    """What the steps of a run leave: a plan, a record of each, and a report if it was published."""
    folder = folder_of(flow, run)
    state = a_state(a_source())
    folder.save_plan(make_plan(flow, state, run=run, at=at, options=options or RunOptions()))
    for step in STEPS if report else [*errors]:
        try:
            with folder.step(step):
                if step in errors:
                    raise errors[step]
        except FerryError:
            pass
    if report:
        folder.files.write("report.json", changed(report, run=run).to_json())


def told_of(flow: Flow, run: str, tasks: dict[str, str], ending: int = 0) -> list[str]:
    facts = Notices(flow, run).of_ending(ending, tasks).notice.facts
    return [f"{one.event}: {one.headline}" for one in facts]


def fail(flow: Flow, run: str, ending: int = 0, options: RunOptions | None = None) -> list[str]:
    error = RangesFailed([a_failure()], transient=False)
    # As in a run: what publish raises is what failed before it.
    leave(flow, run, options=options, mirror=error, publish=error)
    return told_of(flow, run, RED, ending)


def test_a_good_run_has_nothing_to_tell(flow: Flow) -> None:
    leave(flow, "a")

    assert told_of(flow, "a", GREEN) == []


def test_a_failed_step_is_told_and_not_again_for_the_steps_that_failed_by_it(flow: Flow) -> None:
    assert fail(flow, "a") == ["failure: 1 partition not copied to the end"]


def test_a_run_that_was_never_published_is_told_by_the_step_that_failed(flow: Flow) -> None:
    leave(flow, "a", report=None, plan=FerryError("The broker is gone."))
    tasks = {"plan": "failed"} | dict.fromkeys(STEPS[1:], "upstream_failed")
    told = Notices(flow, "a").of_ending(0, tasks).notice

    assert [one.details for one in told.facts] == [("The broker is gone.",)]
    assert not told.published


@pytest.mark.parametrize("killed", STEPS)
def test_a_task_that_was_killed_left_nothing_and_is_told_by_its_name(
    flow: Flow, killed: str
) -> None:
    tasks = GREEN | {killed: "failed", "publish": "failed" if killed == "publish" else "skipped"}

    assert told_of(flow, "a", tasks) == [f"failure: the task {killed} failed"]


def test_a_killed_task_is_told_and_not_that_publish_has_missed_it(flow: Flow) -> None:
    leave(flow, "a", publish=FerryError("The step mirror of the run a has not ended."))
    folder_of(flow, "a").forget("mirror")

    assert told_of(flow, "a", RED) == ["failure: the task mirror failed"]


def test_a_task_beside_the_steps_that_failed_is_told_although_the_run_is_published(
    flow: Flow,
) -> None:
    fail(flow, "a")
    leave(flow, "b")

    assert told_of(flow, "b", GREEN | {"update_assets": "failed"}) == [
        "failure: the task update_assets failed"
    ]


def test_what_an_earlier_attempt_of_the_run_reported_is_not_told_of_this_one(flow: Flow) -> None:
    leave(flow, "a", report=changed(REPORT, drifts=(DRIFT,)))
    # As `plan` does when the run is cleared.
    folder_of(flow, "a").forget(*STEPS)
    told = Notices(flow, "a").of_ending(1, {"plan": "failed", "publish": "upstream_failed"}).notice

    assert [one.event for one in told.facts] == ["failure"]


def test_each_failed_shard_is_told(flow: Flow) -> None:
    with suppress(FerryError), folder_of(flow, "a").step("mirror", 1):
        raise FerryError("lost")

    assert told_of(flow, "a", {"mirror": "failed", "publish": "skipped"}) == [
        "failure: 1 partition not copied to the end in mirror-1"
    ]


def test_a_dry_run_is_over_after_its_plan_and_no_channel_hears_of_it(flow: Flow) -> None:
    leave(flow, "a", report=None)

    assert told_of(flow, "a", {"plan": "success"} | dict.fromkeys(STEPS[1:], "skipped")) == []


def test_after_failures_the_next_good_run_tells_that_they_are_made_good_and_only_that_one(
    flow: Flow,
) -> None:
    fail(flow, "a")
    fail(flow, "b")
    leave(flow, "c")
    leave(flow, "d")
    told = Notices(flow, "c").of_ending(0, GREEN).notice

    assert [one.event for one in told.facts] == ["recovered"]
    assert told.facts[0].details == ("a had failed.", "b had failed.")
    assert told_of(flow, "d", GREEN) == []


def test_an_older_run_that_is_published_again_makes_nothing_good(flow: Flow) -> None:
    fail(flow, "newer")
    leave(flow, "older", at=NOW - 1)
    leave(flow, "next", at=NOW + 1)

    assert told_of(flow, "older", GREEN, ending=1) == []
    assert [it.split(":")[0] for it in told_of(flow, "next", GREEN)] == ["recovered"]


def test_a_run_that_is_cleared_and_then_succeeds_has_recovered(flow: Flow) -> None:
    fail(flow, "a")
    leave(flow, "a")

    assert [it.split(":")[0] for it in told_of(flow, "a", GREEN, ending=1)] == ["recovered"]


def test_a_run_that_is_cleared_and_fails_again_is_told_again(flow: Flow) -> None:
    first = fail(flow, "a")

    assert fail(flow, "a", ending=1) == first


@pytest.mark.parametrize(
    "options", [RunOptions(topics=("orders",)), RunOptions(window=Window(0, NOW))]
)
def test_a_run_of_a_part_makes_nothing_good_but_itself(flow: Flow, options: RunOptions) -> None:
    fail(flow, "whole")
    fail(flow, "part", options=options)
    leave(flow, "other part", options=options)
    leave(flow, "part", options=options)
    leave(flow, "next")

    assert told_of(flow, "other part", GREEN) == []
    # Triggered by the id of a run that was deleted in Airflow.
    leave(flow, "whole", options=options)
    assert told_of(flow, "whole", GREEN, ending=1) == []
    (of_itself,) = Notices(flow, "part").of_ending(1, GREEN).notice.facts
    assert of_itself.details == ("part had failed.",)
    (of_the_rest,) = Notices(flow, "next").of_ending(0, GREEN).notice.facts
    assert of_the_rest.details == ("whole had failed.",)


def test_drift_is_told_once_and_again_when_it_comes_back(flow: Flow) -> None:
    drifted = changed(REPORT, drifts=(DRIFT,))
    for run, report in (("a", drifted), ("b", drifted), ("c", REPORT), ("d", drifted)):
        leave(flow, run, report)

    told = {run: bool(told_of(flow, run, GREEN)) for run in "abcd"}

    assert told == {"a": True, "b": False, "c": False, "d": True}


def test_the_message_of_one_ending_is_the_same_however_often_it_is_asked_for(flow: Flow) -> None:
    leave(flow, "a", changed(REPORT, drifts=(DRIFT,)))
    notices = Notices(flow, "a")
    first = notices.mark(notices.of_ending(0, GREEN), "slack:ops")

    again = Notices(flow, "a").of_ending(0, GREEN)

    assert again == first
    assert again.channels == ("slack:ops",)


def test_the_steps_that_have_ended_are_known_before_the_run_is_over(flow: Flow) -> None:
    folder = folder_of(flow, "a")
    for step in ("plan", "sync_topics"):
        with folder.step(step):
            pass

    assert Notices(flow, "a").steps_ended() == ("plan", "sync_topics")
