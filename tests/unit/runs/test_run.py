"""How a run says what kept it from its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.copy import Outcome
from kafka_ferry.errors import (
    Fenced,
    FerryError,
    GroupsFailed,
    NotApplied,
    StepFailed,
    VerificationFailed,
)
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.ledger.queries.run_starts import RunStart
from kafka_ferry.model import Growth, Plan, Range, Refusal
from kafka_ferry.model.plan import TopicChanges
from kafka_ferry.model.remarks import PlanRemarks
from kafka_ferry.model.results.failures import Failure, RangesFailed
from kafka_ferry.runs import STEPS, Run
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.runs.state.ended_steps import require_all_ended
from kafka_ferry.runs.state.run_folder import Reconciliation
from kafka_ferry.schemas.ids import FlowSchemas, MirroredSchema, store_schemas, stored_schemas
from kafka_ferry.verify import ExpectationResult, Verdict

RANGE = Range("orders", 3, 10, 50, "id", "primary.orders", 7)
NO_SPARK: Any = None
MirrorOf = Callable[..., None]


@pytest.fixture
def run(flow: Flow) -> Run:
    """The run "run-1" of a flow."""
    return Run(flow, "run-1")


def a_plan(**more: Any) -> Plan:
    return Plan("primary->backup", "run-1", now_ms(), "A", "B", **more)


@pytest.fixture
def mirror(run: Run, monkeypatch: pytest.MonkeyPatch) -> MirrorOf:
    """Does the step ``mirror`` of the run, whose copy ends with the given failures."""

    def do(*failures: Failure, newest: str = "run-1", refused: tuple[Refusal, ...] = ()) -> None:
        plan = a_plan(ranges=(RANGE,), remarks=PlanRemarks(refused=refused))
        outcomes = [Outcome(RANGE, failure.offset, failure) for failure in failures]
        monkeypatch.setattr(Copying, "copy", lambda *_: outcomes)
        start = RunStart(0, newest, now_ms(), 32)
        monkeypatch.setattr("kafka_ferry.runs.mirror.mirror.last_run", lambda _: start)
        run._folder.save_plan(plan)
        with run._folder.step("sync_topics"):
            pass
        run.mirror(NO_SPARK)

    return do


def test_nothing_is_copied_where_sync_topics_was_only_marked(run: Run) -> None:
    run._folder.save_plan(a_plan(ranges=(RANGE,)))
    with pytest.raises(FerryError, match="The step sync_topics of the run run-1 has not ended"):
        run.mirror(NO_SPARK)


def failure(*, transient: bool = False, fenced: bool = False) -> Failure:
    return Failure.of(RANGE, 20, "it was refused.", transient, fenced)


@pytest.mark.parametrize(
    ("approval", "changes", "is_asked"),
    [
        ("never", True, False),
        ("changes", False, False),
        ("changes", True, True),
        ("always", False, True),
    ],
)
def test_a_plan_that_waits_for_an_approval_has_one_by_name(
    flow: Flow, approval: str, changes: bool, is_asked: bool
) -> None:
    this = Run(flow.model_copy(update={"approval": approval}), "run-1")
    made = TopicChanges(growths=(Growth("primary.orders", 4),)) if changes else TopicChanges()
    plan = a_plan(topics=made)
    this._folder.save_plan(plan)
    with pytest.raises(FerryError, match="is not approved") if is_asked else nullcontext():
        this.require_approval()
    this.approve("anna", plan.digest)
    this.require_approval()


def test_a_copy_without_failures_is_a_step_without_one(run: Run, mirror: MirrorOf) -> None:
    mirror()

    assert run.failure("mirror") is None


@pytest.mark.parametrize("transient", [True, False])
def test_a_failure_names_topic_partition_and_offset(
    run: Run, mirror: MirrorOf, transient: bool
) -> None:
    with pytest.raises(RangesFailed, match=r"orders-3 .* stopped at offset 20: it was refused"):
        mirror(failure(transient=transient))

    stored = run.failure("mirror")
    assert stored is not None
    assert (stored.transient, stored.exit_code) == (transient, 6)


def test_what_the_plan_refused_fails_the_run_too_and_no_retry_helps(mirror: MirrorOf) -> None:
    refusal = Refusal("customers", "it was recreated.", "Delete the remote topic.")

    with pytest.raises(RangesFailed, match=r"customers: it was recreated. Delete") as raised:
        mirror(failure(transient=True), refused=(refusal,))

    assert (len(raised.value.failures), raised.value.refused) == (1, (refusal,))
    assert not raised.value.transient


def test_a_fenced_run_says_which_run_took_over_and_is_not_retried(mirror: MirrorOf) -> None:
    with pytest.raises(Fenced, match="The run run-2 of primary->backup took over") as raised:
        mirror(failure(fenced=True), newest="run-2")

    assert not raised.value.transient


def test_fenced_without_a_newer_run_the_next_attempt_goes_on(mirror: MirrorOf) -> None:
    with pytest.raises(RangesFailed) as raised:
        mirror(failure(fenced=True))

    assert raised.value.transient


def test_each_thing_that_failed_with_groups_is_in_the_steps_record(run: Run) -> None:
    said = ("backup: the group billing may not be written.", "backup: it is too old.")
    with pytest.raises(GroupsFailed), run._folder.step("sync_groups"):
        raise GroupsFailed(said, transient=True)

    record = run._folder.step_record("sync_groups")
    assert record is not None
    assert record.problems == said
    assert (record.transient, record.exit_code) == (True, 10)


def test_a_sync_of_groups_that_is_repeated_keeps_no_older_groups(run: Run) -> None:
    moves = GroupMoves(5, notes=("No group may be seen.",))
    run._folder.save_groups(moves)
    assert run._folder.groups() == moves

    with pytest.raises(RuntimeError), run._folder.step("sync_groups"):
        raise RuntimeError("A broker is gone.")

    assert run._folder.groups() is None


def test_a_verification_that_is_repeated_keeps_no_older_verdict(run: Run) -> None:
    run._folder.save_reconciliation(Reconciliation(verdict=Verdict(success=True)))

    with pytest.raises(RuntimeError), run._folder.step("verify"):
        raise RuntimeError("Spark ended.")

    assert run.reconciliation() is None
    failure = run.failure("verify")
    assert failure is not None
    assert failure.transient


def test_a_copy_that_is_repeated_keeps_no_older_verdict(run: Run, mirror: MirrorOf) -> None:
    """A verification that is not repeated, such as one that a person marks, has not looked at what was copied since."""
    with run._folder.step("verify"):
        run._folder.save_reconciliation(Reconciliation(verdict=Verdict(success=True)))

    mirror()

    assert (run.reconciliation(), run._folder.step_record("verify")) == (None, None)


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (("covered",), ["orders-3"]),
        (("foreign",), ["not proved", "orders-3"]),
        (("covered", "foreign"), ["not proved", "orders-3"]),
    ],
)
def test_a_partition_that_stopped_hides_nothing_that_the_proof_has_found_elsewhere(
    run: Run,
    mirror: MirrorOf,
    failed: tuple[str, ...],
    told: list[str],
) -> None:
    with pytest.raises(RangesFailed):
        mirror(failure())
    checks = tuple(
        ExpectationResult(key, "ranges", success=False, severity="critical", key=key)
        for key in failed
    )
    with pytest.raises(VerificationFailed), run._folder.step("verify"):
        run._folder.save_reconciliation(Reconciliation(verdict=Verdict(False, checks)))
        raise VerificationFailed("not proved")
    with run._folder.step("plan"):
        pass

    with pytest.raises(StepFailed) as raised:
        require_all_ended(run._context, STEPS[:-1], 0)

    assert [text for text in ("not proved", "orders-3") if text in str(raised.value)] == told


def ended(run: Run, monkeypatch: pytest.MonkeyPatch, *unapplied: str) -> Run:
    """The run with all of its steps but the last ended, and changes that were not made."""
    monkeypatch.setattr("kafka_ferry.ledger.projection.read_ledger", lambda *_: iter(()))
    for step in STEPS[:-1]:
        with run._folder.step(step):
            pass
    run._folder.save_plan(a_plan(remarks=PlanRemarks(unapplied=unapplied)))
    return run


def test_what_could_not_be_changed_fails_the_run_when_it_is_published(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotApplied, match=r"orders: retention.ms could not be set") as raised:
        ended(run, monkeypatch, "orders: retention.ms could not be set.").publish()

    assert raised.value.exit_code == 8
    report = run.report()
    assert report is not None
    assert report.problems.unapplied == raised.value.failures


def test_a_run_that_changed_all_that_it_was_to_change_is_published(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(run, monkeypatch).publish().problems.unapplied == ()


@pytest.mark.parametrize(
    ("marked", "told"), [("mirror", "mirror"), ("verify", "verify"), ("sync_topics", "")]
)
def test_the_report_names_the_step_that_was_marked_and_has_made_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, marked: str, told: str
) -> None:
    ended(run, monkeypatch)
    if not told:
        with pytest.raises(RuntimeError), run._folder.step("plan"):
            raise RuntimeError("No broker answers.")
    run._folder.forget(marked)

    with pytest.raises(FerryError) as raised:
        run.publish()

    report = run.report()
    assert report is not None
    assert report.problems.unended == ((str(raised.value),) if told else ())
    if told:
        page = (run._folder.files.read("report.html") or b"").decode()
        assert f"The step {told} of the run run-1 has not ended. Its task was marked" in page


@pytest.mark.parametrize("unapplied", [(), ("orders: retention.ms could not be set.",)])
def test_the_ids_of_schemas_are_kept_until_a_run_has_succeeded(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, unapplied: tuple[str, ...]
) -> None:
    this = Run(flow.model_copy(update={"sync_schemas": "translate-ids"}), "run-1")
    ended(this, monkeypatch, *unapplied)
    known = FlowSchemas((MirroredSchema(1, 2, "orders-value", 1),))
    store_schemas(this._folder.files, known)

    with pytest.raises(NotApplied) if unapplied else nullcontext():
        this.publish()

    assert stored_schemas(this._folder.files) == (known if unapplied else FlowSchemas())


def test_a_failed_proof_does_not_stand_behind_a_refused_topic(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(run, monkeypatch)
    refusal = Refusal("nope", "primary has no topic of this name.", "Name another.")
    with pytest.raises(RangesFailed), run._folder.step("mirror"):
        raise RangesFailed([], transient=False, refused=[refusal])
    with pytest.raises(VerificationFailed), run._folder.step("verify"):
        raise VerificationFailed("orders-0 holds 1 record that the ledger does not have.")

    with pytest.raises(
        FerryError, match=r"orders-0 holds 1 record[^$]*nope: primary has no"
    ) as raised:
        run.publish()

    assert raised.value.exit_code == 7


def test_what_was_not_copied_is_said_before_what_was_not_changed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(run, monkeypatch, "orders: retention.ms could not be set.")
    with pytest.raises(RangesFailed), run._folder.step("mirror"):
        raise RangesFailed([failure()], transient=False)

    with pytest.raises(FerryError, match=r"orders-3 .* stopped") as raised:
        run.publish()

    assert raised.value.exit_code == 6
