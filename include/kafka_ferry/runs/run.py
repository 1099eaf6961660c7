"""One run of a flow, step by step: plan, sync topics, mirror, verify, sync groups, publish.

The command line, the DAG's tasks and the tests call these steps and nothing below them. Each step
may be repeated at any time: the state of the target decides what is left to do.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError, InputError, NotApplied
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.ledger.queries.run_starts import last_runs
from kafka_ferry.ledger.table_files import held_if_unwritable
from kafka_ferry.ledger.topic import HiddenLedger
from kafka_ferry.model import ORDINARY, Plan, RunOptions
from kafka_ferry.model.plan import is_planned
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.runs.run_plan import is_old, own_topics, plan_run, require_current
from kafka_ferry.runs.state.ended_steps import require_all_ended, require_ended
from kafka_ferry.runs.state.file_digests import record_prepared, require_prepared, require_same
from kafka_ferry.runs.state.history import read_history
from kafka_ferry.runs.state.one_file import is_moved, require_same_selection
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.run_folder import STEPS, Reconciliation
from kafka_ferry.runs.state.step_time import step_time
from kafka_ferry.runs.sync_topics.apply import apply_changes
from kafka_ferry.schemas.ids import forget_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_ferry.copy import Outcome
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.report import RunReport
    from kafka_ferry.runs.mirror.mirror import Copying
    from kafka_ferry.runs.verify.verified_topics import TopicProof
    from kafka_ferry.spark.session import SparkSource
    from kafka_ferry.verify import Verdict

log = logging.getLogger(__name__)

# How many runs back to look for one of the whole flow: more than half a day of a flow that runs every minute.
_LOOK_BACK: Final = 1_000


class Run:
    """A run of ``flow``, identified by ``run_id`` in the ledger, the positions and the state folder.

    Args:
        flow: the flow.
        run_id: any text; the same text is the same run, whose steps may be repeated.
    """

    def __init__(self, flow: Flow, run_id: str) -> None:
        self.flow = flow
        self.run_id = run_id
        self._context = RunContext.of(flow, run_id)
        self._folder = self._context.folder
        self._has_waited = False

    @classmethod
    def reopen(cls, flow: Flow, run_id: str) -> Run:
        """The run of that id, which was planned before.

        Raises:
            InputError: the state folder has no such run.
        """
        run = cls(flow, run_id)
        runs = run._context.state.folder("runs")
        if not is_planned(run._folder.files):
            ids = [one.run for one in read_history(runs)]
            newest = f"The newest is {ids[-1]}." if ids else ""
            raise InputError(
                f"{flow.name} has no run {run_id}: there is none of that id in {runs.location}.",
                advice=did_you_mean(run_id, ids) or newest,
            )
        return run

    @classmethod
    def latest(cls, flow: Flow, *, whole: bool = False) -> Run:
        """The newest run of ``flow`` that has begun to copy.

        Args:
            flow: the flow.
            whole: whether only a run counts that was for all that the flow copies.

        Raises:
            FerryError: if there is none.
        """
        context = RunContext.of(flow, "")
        never = f"{flow.name} has never been run"
        with step_time(flow):
            name = ledger_topic(flow.source.alias)
            if not ClusterControl(flow.target).topic_ids([name]):
                why = f"{never}: {flow.target.alias} has no topic {name}."
                raise FerryError(why, advice="Run it first.")
            context.project_ledger()
        last = last_runs(context.ledger, _LOOK_BACK if whole else 1)
        if not last:
            raise FerryError(f"{never}.", advice="Run it first.")
        for start in last:
            run = cls(flow, start.run)
            plan = run._folder.known_plan()
            if not whole or (plan and plan.options.is_whole):
                return run
        raise FerryError(
            f"The state folder has none of the last {len(last)} runs of {flow.name} with all of its topics.",
            advice="ferry run --verify-all reads all of it again.",
        )

    @property
    def report_path(self) -> Path | None:
        """The report page on this machine, None if the run was not published or is elsewhere."""
        return self._folder.report_path

    @property
    def report_address(self) -> str:
        """The report page in the state folder, as a path of this machine or a URI without the store's options."""
        return self._folder.report_address

    def report(self) -> RunReport | None:
        """The report that ``publish`` wrote, None if the run was not published."""
        return self._folder.report()

    @property
    def data_docs_path(self) -> Path | None:
        """The first page of the flow's Data Docs on this machine."""
        local = self._context.state.local_path
        return local / "data_docs" / "index.html" if local else None

    def failure(self, step: str, shard: int | None = None) -> FerryError | None:
        """What a step raised the last time, in this process or another; None if it succeeded.

        Args:
            step: the step.
            shard: the shard of the step ``mirror``; None for all of it.
        """
        return self._folder.failure(step, shard)

    def forget(self, step: str, shard: int | None = None) -> None:
        """Forget how a step or its shard ended, before another process, which may never start, repeats it."""
        self._folder.forget(step, shard=shard)

    def proved_topics(self) -> list[TopicProof]:
        """The topics whose planned ranges are all verified, and that are known to be broken since by no later run.

        Nor has the target lost anything of them.

        Raises:
            FerryError: if the target does not answer.
        """
        from kafka_ferry.runs.publish.copied_logs import topics_with_losses
        from kafka_ferry.runs.verify.verified_topics import later_failures, proved_topics

        run, proofs = self._context, proved_topics(self._context)
        if not proofs:
            return []
        # Hours may lie between the two, where the step that asks is repeated.
        lost = topics_with_losses(run.flow, run.ledger, {it.remote_topic for it in proofs})
        broken = later_failures(run)
        return [it for it in proofs if it.remote_topic not in lost and it.topic not in broken]

    def reconciliation(self) -> Reconciliation | None:
        """What ``verify`` found the last time, None if it never got to a verdict."""
        return self._folder.reconciliation()

    def plan(
        self, options: RunOptions = ORDINARY, *, save: bool = True, spark: SparkSource | None = None
    ) -> Plan:
        """Plan what is to be done; changes nothing on either cluster, but ends transactions that Kafka has left open.

        Args:
            options: the run's options; the later steps use them too.
            save: whether to store the plan for the later steps.
            spark: gives a session; called only if records are to go through a new transform rule, which
                Spark checks. Without one, the rules are checked when copying begins.

        Raises:
            ConfigError: Spark cannot make sense of a transform rule, or the target has too few brokers for
                ``replication.factor``.
            SameCluster, ClusterUnreachable, AccessDenied: as ``discover``.
        """
        if not save:
            with held_if_unwritable():
                return plan_run(self._context, options, spark, self._retry_time)
        # They were executed for another plan.
        self._folder.forget(*STEPS)
        with self._folder.step("plan"):
            try:
                plan = plan_run(self._context, options, spark, self._retry_time)
            except HiddenLedger:
                if options.dry_run or not self._end_hidden_transactions():
                    raise
                plan = plan_run(self._context, options, spark, self._retry_time)
            self._folder.save_plan(plan)
        return plan

    def record_refusal(self, error: FerryError) -> None:
        """Record, for the run's page, why it is not planned: what was asked of it is wrong."""
        with suppress(FerryError), self._folder.step("plan"):
            raise error

    def _end_hidden_transactions(self) -> bool:
        from kafka_ferry.copy.target.all_writers import end_hidden_transactions

        try:
            with self._retry_time():
                return end_hidden_transactions(self.flow)
        except FerryError as error:
            # Why the plan could not be made says more.
            log.warning("What is open in the ledger could not be ended: %s", error)
            return False

    def stored_plan(self) -> Plan:
        """The plan that ``plan`` stored, with the changes of the steps since.

        Raises:
            FerryError: if the run was not planned.
        """
        return self._folder.plan()

    def approve(self, user: str, digest: str) -> None:
        """Record who has approved the plan that ``plan`` stored: the run's certificate names them.

        Args:
            user: their name.
            digest: that of the plan that was shown, by ``Plan.digest``.

        Raises:
            FerryError: another plan is stored now.
        """
        if digest != self.stored_plan().digest:
            raise FerryError(
                f"{self.flow.name}, run {self.run_id}: {user} approved a plan that is not the stored one any more.",
                advice="Clear the task plan, and approve what it plans.",
            )
        self._folder.save_approval(user, digest)

    def require_approval(self) -> None:
        """Check that a person has approved the stored plan, if plans of the flow wait for one and this one has to.

        Raises:
            FerryError: no person has approved it, and ``sync_topics`` has not made it of an approved one.
        """
        approval, plan = self.flow.approval, self.stored_plan()
        if approval == "never" or (approval == "changes" and not plan.changes):
            return
        if not self._folder.approver():
            raise FerryError(
                f"{self.flow.name}, run {self.run_id}: the stored plan is not approved.",
                advice="Nothing was changed or copied by it. Find out who has marked the task approve as successful, "
                "or written its XCom values; then clear the task plan.",
            )
        if self._folder.approved_digest() != plan.digest:
            # Planned again while the answer to an earlier plan came.
            require_prepared(self._context, plan)

    def require_carried_out(self) -> None:
        """Check that ``sync_topics`` has carried out the stored plan, where plans of the flow wait for an approval.

        A task that is marked as successful has not.

        Raises:
            FerryError: it has not; or the ledger cannot be read.
        """
        if self.flow.approval != "never":
            require_prepared(self._context, self.stored_plan())

    def sync_topics(self, expected: str | None = None) -> Plan:
        """Make the plan's changes on the target: its topics, configs, access and the flow's own topics.

        Topics that fail become refusals of the plan; other changes that fail are in its
        ``unapplied``, and fail the run when it is published.

        Args:
            expected: the ``Plan.digest`` of the plan that ``plan`` has made, or a person approved; None for whichever
                is stored.

        Returns:
            The plan as it is now.

        Raises:
            FerryError: if the ledger or the dead letter topic cannot be created; or the stored plan is neither the
                expected one nor what an earlier attempt has made of it.
        """
        with self._folder.step("sync_topics"), self._retry_time():
            plan = self._copying_plan()
            if expected is not None and plan.digest != expected:
                require_prepared(self._context, plan)
            if plan.is_idle_backfill:
                return plan
            require_same_selection(self.flow, plan)
            target = ClusterControl(self.flow.target)
            for error in target.create_topics(own_topics(self.flow)).values():
                raise error
            plan = apply_changes(self._context, target, plan)
            # A repetition finds this plan, and not the expected one; and a later step deletes by it.
            is_changed = expected is not None and plan.digest != expected
            if self.flow.approval != "never" or is_changed or plan.removals.offset_deletions:
                record_prepared(self._context, plan)
            self._folder.save_plan(plan)
            if plan.shards and (plan.ranges or plan.pins):
                # Once for all shards: a shard that fenced later would stop those that already copy.
                self._copying().begin(plan)
        return plan

    def mirror(
        self, spark: SparkSource, shard: int | None = None, *, expected: str | None = None
    ) -> Sequence[Outcome]:
        """Copy what the plan says, starting at the target's current positions.

        Args:
            spark: gives the session; called only if there is something to copy.
            shard: the shard to copy, if the plan has shards; None for all of them, one after the other.
            expected: the ``Plan.digest`` of the plan that ``sync_topics`` has left; None for whichever is stored.

        Raises:
            RangesFailed: if some partitions were not copied to their planned end; the others were.
            Fenced: if another run took over.
            FerryError: if ``sync_topics`` has not ended; or if the stored plan is not the expected one, or plans wait
                for an approval and it is not what the ledger says that ``sync_topics`` has left; or if it is out of
                date (``require_current``).
        """
        known = self._folder.known_plan()
        if shard is None and known and known.shards:
            return self._mirror_all(spark, len(known.shards), expected)
        with self._folder.step("mirror", shard), self._retry_time():
            plan = self._copying_plan()
            if expected is not None:
                require_same(self._context, plan, expected)
            work = plan.of_shard(shard) or plan.pins_of_shard(shard)
            if work:
                # A task that was marked as successful has made nothing, nor looked at what is there.
                require_ended(self._context, "sync_topics")
                # Nor has a verification that was before looked at what is copied now.
                self._folder.forget("verify")
            if work and self.flow.approval != "never":
                require_prepared(self._context, plan)
            copying = self._copying()
            outcomes: Sequence[Outcome] = ()
            if work:
                if is_old(plan) and not copying.has_begun():
                    require_current(self._context, plan, shard, self._retry_time)
                outcomes = copying.copy(spark, plan, shard)
            elif not plan.shards and is_moved(plan.file, self._context.ledger):
                # A file that was moved is the flow's from this run on, although nothing is new.
                copying.begin(plan)
            copying.raise_failures(plan, outcomes, shard)
        return outcomes

    def _copying(self) -> Copying:
        from kafka_ferry.runs.mirror.mirror import Copying

        return Copying(self._context)

    def _mirror_all(
        self, spark: SparkSource, shards: int, expected: str | None
    ) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        failed: list[RangesFailed] = []
        for shard in range(shards):
            try:
                outcomes += self.mirror(spark, shard, expected=expected)
            except RangesFailed as error:
                failed.append(error)
        if failed:
            raise RangesFailed(
                [failure for error in failed for failure in error.failures],
                transient=all(error.transient for error in failed),
                refused=[refusal for error in failed for refusal in error.refused],
            )
        return outcomes

    def _copying_plan(self) -> Plan:
        """The plan of a run that is not a dry run.

        Raises:
            FerryError: it is a dry run; or the run was not planned.
        """
        plan = self._folder.plan()
        if plan.options.dry_run:
            raise FerryError(
                f"The run {self.run_id} is a dry run: it ends with its plan.",
                advice="Start another run to carry it out.",
            )
        return plan

    def read_back(self, spark: SparkSource, shard: int | None = None) -> int:
        """Read back what ``mirror`` has copied, so that ``verify`` need not: it uses the result, once.

        Args:
            spark: gives the session, which is still open.
            shard: the shard that was copied; None for all of them.

        Returns:
            How many target partitions were read.
        """
        from kafka_ferry.runs.verify.read_back import read_back

        with self._retry_time():
            return read_back(spark, self._context, shard)

    def needs_spark(self, step: str, shard: int | None = None) -> bool:
        """Whether the step ``mirror`` or ``verify`` has work for Spark.

        Args:
            step: the step.
            shard: the shard of ``mirror``; None for all of them.

        Raises:
            FerryError: the run was not planned, or a cluster does not answer.
        """
        from kafka_ferry.runs.verify.read_back import needs_spark

        plan = self._copying_plan()
        if step == "mirror":
            return bool(plan.of_shard(shard))
        with self._retry_time():
            return needs_spark(self._context)

    def verify(
        self, spark: SparkSource, *, everything: bool = False, afresh: bool = False
    ) -> Verdict:
        """Read the target back and judge everything that was copied since the last verification.

        With ``verify.everything.within``, also what was verified long ago.

        Args:
            spark: gives the session; called only if there is something to read.
            everything: whether to judge all that the flow ever copied, like the run's option
                ``verify_all``.
            afresh: whether to read again what ``read_back`` has read.

        Raises:
            VerificationFailed: naming topic, partition and range of what is not proved.
        """
        from kafka_ferry.runs.verify.verify import verify_run

        with self._folder.step("verify"), self._retry_time():
            whole = self._copying_plan().options.verify_all or everything
            return verify_run(spark, self._context, everything=whole, afresh=afresh)

    def sync_groups(self) -> GroupMoves:
        """Translate the groups' offsets, commit them on the target, and emit checkpoints as MirrorMaker 2 does.

        Raises:
            GroupsFailed: naming the groups that could not be read or committed; the others were.
            FerryError: as of ``require_carried_out``; no group was moved.
        """
        from kafka_ferry.groups.moves import GroupMoves
        from kafka_ferry.runs.sync_groups.sync import sync_groups

        with self._folder.step("sync_groups"), self._retry_time():
            if self._copying_plan().options.window:
                # A backfill copies only records before those that groups have read.
                return GroupMoves(now_ms())
            self.require_carried_out()
            return sync_groups(self._context)

    def publish(self) -> RunReport:
        """Write the report, for people (HTML) and programs (JSON).

        Raises:
            FerryError: why the run is not complete and verified; the report is written.
        """
        from kafka_ferry.report.run_lines import report_lines
        from kafka_ferry.runs.publish.publish import publish_run
        from kafka_ferry.runs.state.cleanup import delete_old_runs
        from kafka_ferry.runs.verify.verdict import raise_unproved

        try:
            with self._folder.step("publish"), self._retry_time():
                before, plan = STEPS[:-1], self._copying_plan()
                report = publish_run(self._context, before)
                for line in report_lines(report):
                    log.info("%s", line)
                require_all_ended(self._context, before, len(plan.shards))
                if report.problems.unapplied:
                    raise NotApplied(report.problems.unapplied)
                if report.proof.verdict and not report.proof.verdict.success:
                    # Only group checks: anything else has already failed the verification.
                    raise_unproved(self._context, report.proof.verdict)
                if self.flow.sync_schemas == "translate-ids":
                    # Large where there are many, and nothing is left to be copied by them.
                    with suppress(OSError, FerryError):
                        forget_schemas(self._folder.files)
        finally:
            delete_old_runs(self.flow)
        return report

    @contextmanager
    def _retry_time(self) -> Iterator[None]:
        """``step_time``; after a step that has waited for silent brokers, the next one tries each call once."""
        spent, self._has_waited = self._has_waited, False

        def outage() -> None:
            self._has_waited = True

        with step_time(self.flow, spent=spent, on_outage=outage):
            yield
