"""One run of a flow, step by step: plan, sync topics, mirror, verify, sync groups, publish.

The command line, the DAG's tasks and the tests call these steps and nothing below them. Each step
may be repeated at any time: what is on the target decides what is left to do.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import Fenced, FerryError, NotApplied, RangesFailed
from kafka_ferry.ledger import (
    LedgerTable,
    RunEntry,
    append_entry,
    ledger_creation,
    ledger_topic,
)
from kafka_ferry.patience import patience_of
from kafka_ferry.plan import Creation, Plan, Position, TopicPartition, make_plan
from kafka_ferry.runs.applying import apply_changes
from kafka_ferry.runs.discovery import discover
from kafka_ferry.runs.folder import Reconciliation, RunFolder
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kafka_ferry.copy import Outcome
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.report import RunReport
    from kafka_ferry.verify import Verdict

log = logging.getLogger(__name__)

STEPS: Final = ("plan", "sync_topics", "mirror", "verify", "sync_groups", "publish")


class Run:
    """A run of ``flow``, known by ``run_id`` in the ledger, the positions and the state folder.

    Args:
        flow: the flow.
        run_id: any text; the same text is the same run, whose steps may be repeated.
    """

    def __init__(self, flow: Flow, run_id: str) -> None:
        self.flow = flow
        self.run_id = run_id
        self._state = StateFolder(flow.state_path).folder(flow.slug)
        self._folder = RunFolder(self._state.folder("runs"), run_id)
        self._ledger = LedgerTable(self._state.folder("ledger"), flow.name)
        self._ledger_topic = ledger_topic(flow.source.alias)

    @classmethod
    def latest(cls, flow: Flow) -> Run:
        """The newest run of ``flow`` that has begun to copy.

        Raises:
            FerryError: if there is none.
        """
        run = cls(flow, "")
        run._ledger.project(flow.target, run._ledger_topic)
        last = run._ledger.last_run()
        if last is None:
            raise FerryError(f"{flow.name} has never been run.", advice="Run it first.")
        return cls(flow, last["run"])

    @property
    def report_path(self) -> Path | None:
        """The report page on this machine, None if the run was not published or is elsewhere."""
        return self._folder.report_path

    def report(self) -> RunReport | None:
        """The report that ``publish`` wrote, None if the run was not published."""
        from kafka_ferry.report import RunReport

        stored = self._folder.files.read("report.json")
        return None if stored is None else RunReport.from_json(stored)

    @property
    def data_docs_path(self) -> Path | None:
        """The first page of the flow's Data Docs on this machine."""
        local = self._state.local_path
        return local / "data_docs" / "index.html" if local else None

    def failure(self, step: str) -> FerryError | None:
        """What a step raised the last time, in this process or another one; None if it succeeded."""
        return self._folder.failure(step)

    def forget(self, step: str) -> None:
        """Forget how a step ended, before another process that may never begin repeats it."""
        self._folder.forget(step)

    def reconciliation(self) -> Reconciliation | None:
        """What ``verify`` found the last time, None if it never got so far."""
        return self._folder.reconciliation()

    def plan(self, *, save: bool = True) -> Plan:
        """Find out what is to be done; changes nothing on either cluster.

        Args:
            save: whether the later steps shall do what this plan says.

        Raises:
            SameCluster, ClusterUnreachable, AccessDenied: as ``discover``.
        """
        if not save:
            return self._make_plan()
        # What they did was done for another plan.
        self._folder.forget(*STEPS)
        with self._folder.step("plan"):
            plan = self._make_plan()
            self._folder.save_plan(plan)
        return plan

    def planned(self) -> Plan:
        """The plan that ``plan`` stored, as the steps since have left it.

        Raises:
            FerryError: if the run was not planned.
        """
        return self._folder.plan()

    def sync_topics(self) -> Plan:
        """Make the plan's changes on the target: its topics, configs, access and the flow's own topics.

        Topics that fail become refusals of the plan; other changes that fail are in its
        ``unapplied``, and fail the run when it is published.

        Returns:
            The plan as it is now.

        Raises:
            FerryError: if the ledger or the dead letter topic cannot be created.
        """
        with self._folder.step("sync_topics"), self._patience():
            plan = self._folder.plan()
            target = ClusterControl(self.flow.target)
            for error in target.create_topics(self._own_topics()).values():
                raise error
            plan = apply_changes(self.flow, self._ledger, target, plan)
            self._folder.save_plan(plan)
        return plan

    def mirror(self, spark: SparkSession) -> Sequence[Outcome]:
        """Copy what the plan says, from wherever the positions on the target are by now.

        Raises:
            RangesFailed: if some partitions were not copied to their planned end; the others were.
            Fenced: if another run took over.
        """
        with self._folder.step("mirror"):
            plan = self._folder.plan()
            outcomes: Sequence[Outcome] = self._copy(spark, plan) if plan.ranges else ()
            self._raise_failures(plan, outcomes)
        return outcomes

    def verify(self, spark: SparkSession) -> Verdict:
        """Read the target back and judge everything that was copied since the last verification.

        Raises:
            VerificationFailed: naming topic, partition and range of what is not proved.
        """
        from kafka_ferry.runs.verification import verify_run

        with self._folder.step("verify"):
            return verify_run(
                spark, self.flow, self._folder, self._ledger, self._state, self.run_id
            )

    def sync_groups(self) -> GroupMoves:
        """Translate the groups' offsets, commit them on the target, and tell of it as MirrorMaker 2 does.

        Raises:
            GroupsFailed: naming the groups that could not be read or committed; the others were.
        """
        from kafka_ferry.runs.grouping import sync_groups

        with self._folder.step("sync_groups"), self._patience():
            return sync_groups(self.flow, self._folder, self._ledger, self.run_id)

    def publish(self) -> RunReport:
        """Write the report, for people (HTML) and programs (JSON).

        Raises:
            FerryError: what kept the run from being complete and verified; the report is written.
        """
        from kafka_ferry.runs.publication import publish_run

        with self._folder.step("publish"):
            before = STEPS[:-1]
            report = publish_run(self.flow, self._folder, self._ledger, self.run_id, before)
            for step in before:
                failure = self._folder.failure(step)
                if failure:
                    raise failure
                if self._folder.step_record(step) is None:
                    raise FerryError(f"The step {step} of the run {self.run_id} has not ended.")
            if report.unapplied:
                raise NotApplied(report.unapplied)
        return report

    def _own_topics(self) -> list[Creation]:
        from kafka_ferry.copy import dead_letter_creation

        flow = self.flow
        topics = [ledger_creation(self._ledger_topic, flow.replication_factor)]
        if flow.on_rejected_record == "dead-letter":
            topics.append(dead_letter_creation(flow.dead_letter_name, flow.replication_factor))
        return topics

    def _patience(self) -> AbstractContextManager[None]:
        return patience_of(self.flow.admin_timeout_ms / 1000)

    def _make_plan(self) -> Plan:
        with self._patience():
            found = discover(self.flow, self._ledger)
        return make_plan(self.flow, found, run=self.run_id, at=now_ms())

    def _copy(self, spark: SparkSession, plan: Plan) -> Sequence[Outcome]:
        from kafka_ferry.copy import fence_writers
        from kafka_ferry.spark.query import copy_with_spark

        flow = self.flow
        last = self._ledger.last_run()
        if last and last["writers"] != flow.writers:
            log.info(
                "%d writers instead of %d: fencing the old ones", flow.writers, last["writers"]
            )
            writers = max(last["writers"], flow.writers)
            fence_writers(flow, writers)
        self._restore_forgotten(plan)
        entry = RunEntry(flow=flow.name, run=self.run_id, at=now_ms(), writers=flow.writers)
        append_entry(flow, entry)
        outcomes = copy_with_spark(
            spark,
            flow,
            run=self.run_id,
            run_folder=self._folder.files,
            checkpoint=self._state.folder("checkpoint"),
        )
        self._ledger.project(flow.target, self._ledger_topic)
        return outcomes

    def _restore_forgotten(self, plan: Plan) -> None:
        """Commit the ledger's positions where the group has none, before any task looks for them.

        A task that is handed ranges of an earlier run, which Spark replays, would begin at their
        starts and copy twice what that run had sealed.
        """
        from kafka_ferry.copy import fence_writers, restore_positions

        flow = self.flow
        planned = {range_.target: range_ for range_ in plan.ranges}

        def forgotten() -> dict[TopicPartition, Position]:
            known = read_positions(flow.target, flow.name)
            written = self._ledger.positions()
            return {
                tp: replace(written[tp], origins=planned[tp].origins)
                for tp in (planned.keys() & written.keys()) - known.keys()
                # What went into an earlier topic of that name says nothing.
                if written[tp].remote_topic_id == planned[tp].remote_topic_id
            }

        if forgotten():
            # A writer that still ran could commit a later position meanwhile.
            fence_writers(flow, flow.writers)
            self._ledger.project(flow.target, self._ledger_topic)
            restore_positions(flow, self.run_id, forgotten())

    def _raise_failures(self, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        last = self._ledger.last_run()
        if any(failure.fenced for failure in failures) and last and last["run"] != self.run_id:
            raise Fenced(
                f"The run {last['run']} of {self.flow.name} took over.",
                advice="What this run had sealed stays; the newer run copies the rest.",
            )
        sentences = [*map(str, plan.refused), *map(str, failures)]
        if sentences:
            # Fenced without a newer run: by another attempt of this one, or by a coordinator that
            # had waited too long for the transaction's end. The next attempt goes on.
            may_pass = all(failure.transient or failure.fenced for failure in failures)
            raise RangesFailed(sentences, transient=may_pass and not plan.refused)
