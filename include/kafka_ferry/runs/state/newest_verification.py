"""The newest verification that the state folder has, and what it could not prove."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_ferry.model import TopicPartition
from kafka_ferry.model.plan import read_plan
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RECONCILIATION, Reconciliation, RunFolder
from kafka_ferry.verify.checks import decisive, unproved_rows

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.verify.verdict import ExpectationResult


@dataclass(frozen=True)
class NewestVerification:
    """A run's verification.

    Attributes:
        run_id: the run.
        reconciliation: its table and its verdict.
        stopped: why the run did not copy some partitions to their end, a sentence each.
    """

    run_id: str
    reconciliation: Reconciliation
    stopped: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """What was not as expected and failed it, a sentence each; none where it proved the copy."""
        verdict = self.reconciliation.verdict
        return () if verdict is None or verdict.success else verdict.failures

    @property
    def text(self) -> str:
        """That it failed, with the first reason; "" where it did not."""
        if not self.failures:
            return ""
        first, *others = self.failures
        more = f", and {len(others):,} more" if others else ""
        return f"The verification of run {self.run_id} failed: {first}{more}."

    def failed_checks(self) -> Iterator[ExpectationResult]:
        """The checks that failed it, without those of single ranges."""
        verdict = self.reconciliation.verdict
        if verdict and not verdict.success:
            of_ranges = {check.key for check in decisive("ranges", verdict)}
            yield from (it for it in verdict.expectations if it.failed and it.key not in of_ranges)

    def failed_partitions(self) -> set[TopicPartition]:
        """The *target* partitions of which a check is not true that failed it."""
        reconciliation = self.reconciliation
        verdict = reconciliation.verdict
        ranges = unproved_rows("ranges", verdict, reconciliation.ranges)
        partitions = unproved_rows("partitions", verdict, reconciliation.partitions)
        return {row.target for row in ranges} | {row.target for row in partitions}


def newest_verification(flow: Flow) -> NewestVerification | None:
    """The verification that ended last; None where there is none.

    A backfill or a run of some topics that was proved says nothing of the rest: then an older one counts that failed,
    back to the newest of all topics.
    """
    newest = None
    runs = flow_state(flow).folder("runs")
    for folder in reversed(runs.folders_with(RECONCILIATION)):
        plan = read_plan(runs.folder(folder))
        run = RunFolder(runs, plan.run)
        reconciliation = run.reconciliation()
        if reconciliation is None:
            continue
        mirror = run.step_record("mirror")
        stopped = tuple(map(str, mirror.failures)) if mirror else ()
        verification = NewestVerification(plan.run, reconciliation, stopped)
        newest = newest or verification
        if verification.failures:
            return verification
        if plan.options.is_whole:
            break
    return newest
