"""What a step, or publishing a run, requires of the steps before it: that they have ended, and well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_ferry.errors import FerryError, StepFailed
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.verify.verdict import COVERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_ferry.runs.state.run_context import RunContext


def require_ended(run: RunContext, step: str, shards: int = 0) -> None:
    """Check that a step, with each of its shards, has ended.

    Raises:
        FerryError: what it has raised; or it has not ended.
    """
    record = run.folder.step_record(step)
    if record and (failure := record.failure):
        raise failure
    if error := _missing_end(run, step, shards):
        raise error


def first_unended(run: RunContext, steps: Sequence[str], shards: int) -> FerryError | None:
    """That the first of the steps that lacks its end has not ended; None where one before it has failed.

    Args:
        run: the run.
        steps: its steps, in their order.
        shards: how many ``mirror`` has.
    """
    for step in steps:
        record = run.folder.step_record(step)
        if record and record.failure:
            break
        if error := _missing_end(run, step, shards if step == "mirror" else 0):
            return error
    return None


def _missing_end(run: RunContext, step: str, shards: int) -> FerryError | None:
    for shard in range(shards) if shards else (None,):
        if run.folder.step_record(step, shard) is None:
            return FerryError(
                f"The step {StepPart(step, shard)} of the run {run.run_id} has not ended.",
                advice="Its task was marked or killed, or another process does the steps of a run with this id: let "
                "that one end. Then clear the task with those after it, or repeat the whole run.",
            )
    return None


def require_all_ended(run: RunContext, steps: Sequence[str], shards: int) -> None:
    """Check that steps have ended, ``mirror`` with its shards; errors as of ``require_ended``."""
    mirror, proof = run.folder.step_record("mirror"), run.folder.step_record("verify")
    if mirror and mirror.error and proof and proof.error and not _is_consequence(run):
        # They are about other partitions: neither may stand behind the other.
        both = f"{proof.error}\n{mirror.error}"
        raise StepFailed(both, transient=proof.transient, exit_code=proof.exit_code)
    for step in steps:
        require_ended(run, step, shards if step == "mirror" else 0)


def _is_consequence(run: RunContext) -> bool:
    """Whether the verification failed only because partitions were not copied to their end."""
    reconciliation = run.folder.reconciliation()
    verdict = reconciliation.verdict if reconciliation else None
    failed = {it.key for it in verdict.expectations if it.failed} if verdict else set()
    return failed == {COVERED}
