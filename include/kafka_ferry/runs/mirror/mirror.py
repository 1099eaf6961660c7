"""The copying of a run: which writers may write, where copying continues, the query, and its failures."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import read_positions
from kafka_ferry.copy import fence_writers, restore_positions, settle_writers
from kafka_ferry.errors import (
    CheckpointInUse,
    ClusterUnreachable,
    ConfigError,
    Fenced,
    OtherRunActive,
)
from kafka_ferry.ledger import RunEntry, append_entry, ledger_topic
from kafka_ferry.ledger.queries.copied_topics import past_writers
from kafka_ferry.ledger.queries.run_starts import last_run, last_runs
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model import Plan, Position, TopicPartition
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.model.run_options import rate_of
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.runs.plan.backfill import pin_positions
from kafka_ferry.runs.state.file_digests import schemas_of_run
from kafka_ferry.runs.state.known_positions import is_confirmed
from kafka_ferry.runs.state.one_file import require_same_selection, selection_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_ferry.config import Flow
    from kafka_ferry.copy import Outcome
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.spark.session import SparkSource

log = logging.getLogger(__name__)

# The writers of the older run are fenced by those of the first one.
_QUERIES: Final = 3
# Each further one takes another run that commits between two looks at the ledger.
_ROUNDS: Final = 5


class Copying:
    """Copies what the plan of a run contains.

    Args:
        run: the run, which was planned.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._flow, self._ledger = run.flow, run.ledger

    def copy(self, spark: SparkSource, plan: Plan, shard: int | None) -> Sequence[Outcome]:
        """Copy ``plan``, or a shard of it; gives the outcome of each range that was tried.

        Raises:
            Fenced: another run has begun since, and has written to the checkpoint.
            OtherRunActive: an older one has, again and again.
        """
        _require_same_isolation(self._flow, plan)
        require_same_selection(self._flow, plan)
        if shard is None or not self.has_begun():
            self.begin(plan)
        pinned = self._pin(plan, shard)
        if any(outcome.failure for outcome in pinned) or not plan.of_shard(shard):
            return pinned
        outcomes = self._query(spark, plan, shard)
        try:
            self._run.project_ledger()
        except ClusterUnreachable:
            # What has failed for that reason too says more.
            if not any(outcome.failure for outcome in outcomes):
                raise
        return outcomes

    def _query(self, spark: SparkSource, plan: Plan, shard: int | None) -> Sequence[Outcome]:
        """Copy by Spark; where an older run has written to the checkpoint meanwhile, once more."""
        from kafka_ferry.spark.query import copy_with_spark  # noqa: PLC0415  (PySpark)

        schemas = schemas_of_run(self._run, plan)
        # A query of its own: no other run may continue with what this one planned.
        state = self._run.folder.files if plan.options.window else self._run.state
        for tries_left in reversed(range(_QUERIES)):
            try:
                return copy_with_spark(
                    spark(),
                    self._flow,
                    plan,
                    outcomes=self._run.folder.files,
                    checkpoint=state.folder("checkpoint" + ("" if shard is None else f"-{shard}")),
                    shard=shard,
                    rate=rate_of(self._flow, plan.options),
                    schemas=schemas,
                )
            except CheckpointInUse as error:
                self._run.project_ledger()
                newest, *others = (start.run for start in last_runs(self._ledger, 2))
                if newest != self._run.run_id:
                    raise self._taken_over_by(newest) from error
                if not tries_left:
                    raise self._other_run("".join(others)) from error
                log.warning(
                    "An older run is active, and has written to Spark's checkpoint: once more."
                )
        raise AssertionError

    def _taken_over_by(self, run: str) -> Fenced:
        return Fenced(
            f"The run {run} of {self._flow.name} took over.",
            advice="What this run has committed stays; the newer run copies the rest.",
        )

    def _other_run(self, run: str) -> OtherRunActive:
        which = f": {run}" if run else ""
        return OtherRunActive(
            f"Another run of {self._flow.name} is active{which}.",
            advice="What this run has committed stays. Let the other one end, or end it; then run it again.",
        )

    def _pin(self, plan: Plan, shard: int | None) -> Sequence[Outcome]:
        pins = plan.pins_of_shard(shard)
        return pin_positions(self._flow, self._run.run_id, pins) if pins else ()

    def has_begun(self) -> bool:
        """Whether this is the run that began last, with the current number and assignment of writers."""
        self._run.project_ledger()
        last = last_run(self._ledger)
        if last is None or last.run != self._run.run_id:
            return False
        return last.has_writers(writers_of(self._flow))

    def begin(self, plan: Plan) -> None:
        """Write the run's start to the ledger, and fence all writers with another assignment.

        They are fenced twice: before the record, so that no old writer moves a position any more; and after it,
        because an old task may have started in between without seeing the record. If the run is killed between
        the record and the second time, the next run still sees the assignment before it, and does both.
        """
        flow, writers = self._flow, writers_of(self._flow)
        now = writers.count, writers.assignment
        before = {(it.writers, it.assignment) for it in last_runs(self._ledger, 2)} - {now}
        most = max(count for count, _ in (*before, now))
        if before:
            log.info("The writers differ from those of the last run: fencing the old ones")
            fence_writers(flow, most)
        self._settle_others(plan)
        self._restore_forgotten(plan)
        entry = RunEntry(
            flow=flow.name,
            run=self._run.run_id,
            at=now_ms(),
            writers=writers.count,
            assignment=writers.assignment,
            file=plan.file,
            topics=selection_of(flow),
            isolation_level=plan.isolation_level,
        )
        append_entry(flow, entry)
        if before:
            fence_writers(flow, most)

    def _settle_others(self, plan: Plan) -> None:
        """End what writers have left open in partitions that belong to others by now, which hides what was copied."""
        own = {range_.target: range_.writer for range_ in plan.ranges if range_.is_hidden}
        if not own:
            return
        written: dict[int, list[TopicPartition]] = defaultdict(list)
        for target, number in past_writers(self._ledger, {target.topic for target in own}):
            if own.get(target, number) != number:
                written[number].append(target)
        settle_writers(self._flow, written)

    def _restore_forgotten(self, plan: Plan) -> None:
        """Commit the ledger's positions where the group has none, or a moved one, before any task looks for them.

        A task that is handed ranges of an earlier run, which Spark replays, would begin at their
        starts and copy twice what that run had committed.
        """
        flow = self._flow
        planned = {range_.target: range_ for range_ in plan.ranges}
        goes_back = flow.on_position_moved == "ledger"

        restored: dict[TopicPartition, Position] = {}

        def forgotten(ledger: LedgerTable) -> dict[TopicPartition, Position]:
            known = read_positions(flow.target, flow.name)
            written, released = ledger.positions(), ledger.released_topics()
            return {
                tp: replace(written[tp], origins=planned[tp].origins)
                for tp in planned.keys() & written.keys()
                # Positions in an earlier topic of that name do not count, nor those in one that was given up.
                if written[tp].remote_topic_id == planned[tp].remote_topic_id
                and written[tp].remote_topic_id not in released
                and (
                    tp not in known
                    or (goes_back and not is_confirmed(known[tp], written[tp]))
                    # Another run has begun meanwhile, and had committed a later one, which this one has set back.
                    or (
                        tp in restored
                        and known[tp].offset == restored[tp].offset != written[tp].offset
                    )
                )
            }

        if forgotten(self._ledger):
            # A writer that still ran could commit a later position meanwhile.
            fence_writers(flow, flow.writers)
            for _ in range(_ROUNDS):
                # A position from the part that shows would copy again what the hidden one has.
                wait_until_settled(flow.target, ledger_topic(flow.source.alias))
                with self._run.by_topic() as by_topic:
                    lacking = forgotten(by_topic.ledger)
                if not lacking:
                    break
                restore_positions(flow, self._run.run_id, lacking)
                restored |= lacking

    def raise_failures(self, plan: Plan, outcomes: Sequence[Outcome], shard: int | None) -> None:
        """Raise the failures in ``outcomes``, and what the plan refuses.

        Raises:
            RangesFailed: some partitions were not copied to their planned end; the others were.
            Fenced: another run took over.
        """
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        last = last_run(self._ledger)
        if any(failure.fenced for failure in failures) and last and last.run != self._run.run_id:
            raise self._taken_over_by(last.run)
        # Refused partitions belong to no shard: the first shard fails for them.
        refused = () if shard else plan.remarks.refused
        if refused or failures:
            # Fenced without a newer run: by another attempt of this run, or by a coordinator whose
            # transaction timeout has passed. The next attempt continues.
            may_pass = all(failure.transient or failure.fenced for failure in failures)
            raise RangesFailed(
                [replace(failure, shard=shard) for failure in failures],
                transient=may_pass and not refused,
                refused=refused,
            )


def _require_same_isolation(flow: Flow, plan: Plan) -> None:
    """Check that what is copied is of the isolation level by which the plan has looked where the source's logs end.

    Raises:
        ConfigError: if the flow's file has changed since.
    """
    if flow.isolation_level != plan.isolation_level:
        raise ConfigError(
            flow.file,
            "isolation.level",
            f"is {flow.isolation_level}, and was {plan.isolation_level} when the run {plan.run} was planned.",
            advice="Plan the run again: clear plan and all that follows it in Airflow, or start a new run.",
        )
