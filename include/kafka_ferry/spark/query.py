"""Runs the Structured Streaming query of one run to its end.

The stream's rows are files of ranges (``spark.checkpoint``): a micro-batch that is retried gets
exactly the planned files. A task never raises for a range that fails, or Spark would replay the
micro-batch before it planned anything new, and one bad partition would stop the flow. Each range's
outcome is returned to the driver, which stores it in the run's folder before the micro-batch counts as
done.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.copy import Outcome, OutcomeFiles, RateLimit, copy_for_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model.rate import Rate
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.plan.schedule.tasks import TaskRanges, plan_again, task_ranges
from kafka_ferry.spark.checkpoint import FILE_SUFFIX, QueryCheckpoint, StartRanges
from kafka_ferry.spark.jobs import run_in_tasks
from kafka_ferry.spark.packed_changes import PackedChanges
from kafka_ferry.spark.security.callbacks import require_token
from kafka_ferry.spark.security.serialized_flow import envelope, open_envelope
from kafka_ferry.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.copy.record_changes import RecordChanges
    from kafka_ferry.model import Plan, Range, TopicPartition
    from kafka_ferry.schemas.ids import FlowSchemas
    from kafka_ferry.state import StateFolder
    from kafka_ferry.transform import Evaluator

log = logging.getLogger(__name__)

# How Spark writes the files of a checkpoint. By default it asks Hadoop's FileContext, which starts eight processes
# (``readlink``) to rename one of them on a local disk; its FileSystem renames as atomically, and starts none.
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def copy_with_spark(
    spark: SparkSession,
    flow: Flow,
    plan: Plan,
    *,
    outcomes: StateFolder,
    checkpoint: StateFolder,
    shard: int | None,
    rate: Rate,
    schemas: FlowSchemas | None,
) -> list[Outcome]:
    """Copy the ranges of a plan, or those of one of its shards.

    An unfinished micro-batch of an earlier query with that checkpoint comes first, as Spark planned it
    then, as far as it is of the same partitions.

    Args:
        spark: the session; its executors must reach both clusters.
        flow: the flow.
        plan: the run's plan.
        outcomes: the folder to store the outcomes in.
        checkpoint: Spark's checkpoint of the flow, or of its shard; may be deleted between runs.
        shard: the shard; None for all that is planned.
        rate: the most that all of the run's shards together may send in a second.
        schemas: what the flow has mirrored of a schema registry, where records get other ids.

    Returns:
        The outcome of each range that was tried; of one that two micro-batches held, the last one's.

    Raises:
        ConfigError: if a store or connection of a cluster cannot be read, Spark cannot make sense of a
            transform rule, or the function of one cannot be loaded.
        FerryError: if a transform rule is not the one that the run was planned with.
        SparkFailed: if the query fails, because files of the run or of the checkpoint are gone, or a task fails
            too often.
        CheckpointInUse: if another query uses the same checkpoint.
    """
    name = f"{flow.name} {plan.run}{'' if shard is None else f' shard {shard}'}"
    start = StartRanges(plan.run, uuid.uuid4().hex, now_ms(), plan.of_shard(shard))
    _require_planned_rules(flow, start.ranges)
    changes = PackedChanges.of(flow, schemas)
    batches = _Batches(spark, flow, plan, start, outcomes, shard, rate, changes)
    with spark_failures(
        f"the query of {flow.name}, run {plan.run} (checkpoint {checkpoint.location})",
        advice="What was committed stays. Is another run of this flow active, or were files of the "
        "state folder deleted? Then run it again.",
    ):
        try:
            run_query(spark, name, QueryCheckpoint(checkpoint), start, batches)
        except Exception:
            if batches.error:
                raise batches.error from None
            raise
    return list(batches.outcomes.values())


def _require_planned_rules(flow: Flow, ranges: Iterable[Range]) -> None:
    planned = {range_.topic: range_.transform for range_ in ranges}
    for topic, fingerprint in planned.items():
        if flow.fingerprint_of(topic) != fingerprint:
            raise FerryError(
                f"The transform rule for {topic} has changed since the run was planned.",
                advice="Run it again from its step plan.",
            )


@dataclass
class _Batches:
    """Copies one micro-batch after the other.

    Attributes:
        outcomes: by *source* partition, what became of its range in the last micro-batch with it.
        error: the error of the last micro-batch; the JVM passes on only its text.
    """

    spark: SparkSession
    flow: Flow
    plan: Plan
    start: StartRanges
    folder: StateFolder
    shard: int | None
    rate: Rate
    changes: PackedChanges
    outcomes: dict[TopicPartition, Outcome] = field(default_factory=dict)
    error: Exception | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Copy what the files of a micro-batch say; called by Spark."""
        try:
            self._copy(list(_readable(row.value for row in batch.collect())), number)
        except Exception as error:
            self.error = error
            raise

    def _copy(self, starts: Sequence[StartRanges], number: int) -> None:
        ranges = self._ranges(starts)
        all_outcomes: list[Outcome] = []
        if tasks := self._tasks([range_ for range_ in ranges if not self._needs_sql(range_)]):
            copy = partial(_copy_task, envelope(self.flow), self.changes, self.plan.run)
            for outcomes in run_in_tasks(self.spark, copy, tasks):
                all_outcomes += outcomes
        # A writer may have ranges of both kinds, and one task at a time.
        if tasks := self._tasks([range_ for range_ in ranges if self._needs_sql(range_)]):
            from kafka_ferry.spark.transforms import run_by_rules

            copy_by_rules = partial(_copy_by_rules, self.changes, self.plan.run)
            all_outcomes += run_by_rules(self.spark, self.flow, tasks, copy_by_rules)
        OutcomeFiles(self.folder, self.start.attempt).write(number, all_outcomes)
        self.outcomes |= {outcome.range.source: outcome for outcome in all_outcomes}

    def _needs_sql(self, range_: Range) -> bool:
        rule = self.flow.transform_of(range_.topic) if range_.transform and len(range_) else None
        return bool(rule and not rule.function)

    def _tasks(self, ranges: Iterable[Range]) -> list[TaskRanges]:
        return task_ranges(
            ranges,
            writers_of(self.flow),
            self.plan,
            self.shard,
            rate=self.rate,
            at_a_time=self.spark.sparkContext.defaultParallelism,
        )

    def _ranges(self, starts: Sequence[StartRanges]) -> Sequence[Range]:
        """This start's ranges, in the micro-batch that has them; else an earlier one's, the newest of each."""
        if any(start.attempt == self.start.attempt for start in starts):
            return self.start.ranges
        newest = {
            range_.source: range_
            for start in sorted(starts, key=attrgetter("at"))
            for range_ in start.ranges
        }
        return plan_again(newest.values(), self.plan, self.shard)


def _readable(files: Iterable[str]) -> Iterator[StartRanges]:
    """The files' content, without invalid files: this start has all that is planned."""
    for file in files:
        try:
            yield StartRanges.from_json(file)
        except FerryError as error:
            log.warning("A file next to the checkpoint is ignored: %s", error)


def run_query(
    spark: SparkSession,
    name: str,
    checkpoint: QueryCheckpoint,
    start: StartRanges,
    do: Callable[[DataFrame, int], None],
) -> None:
    """Run a query to its end over what a checkpoint has left unfinished, and ``start``.

    Args:
        spark: the session.
        name: the query's name.
        checkpoint: its checkpoint.
        start: what it is to do.
        do: called with each micro-batch, whose rows are the files of starts, and its number.
    """
    require_token(spark.sparkContext._gateway)
    checkpoint.add(start)
    if checkpoint.is_local and spark.conf.get(_FILE_MANAGER, None) is None:
        spark.conf.set(_FILE_MANAGER, _BY_FILE_SYSTEM)
    files = (
        spark.readStream.format("text")
        .schema("value string")
        .option("wholetext", True)
        .option("pathGlobFilter", f"*{FILE_SUFFIX}")
        # If an earlier start's file was deleted, this one's has all that matters.
        .option("ignoreMissingFiles", True)
        .load(checkpoint.source_pattern)
    )
    query = (
        files.writeStream.foreachBatch(do)
        .option("checkpointLocation", checkpoint.uri)
        .trigger(availableNow=True)
        .queryName(name)
    )
    query.start().awaitTermination()


def _copy_task(flow: bytes, changes: PackedChanges, run: str, task: TaskRanges) -> list[Outcome]:
    """Copy the ranges of a task; called in a worker."""
    return _copy_ranges(open_envelope(flow), changes.unpack(), run, task)


def _copy_by_rules(
    changes: PackedChanges, run: str, flow: Flow, task: TaskRanges, evaluator: Evaluator
) -> list[Outcome]:
    """Copy by the flow's rules."""
    return _copy_ranges(flow, changes.unpack(evaluator), run, task)


def _copy_ranges(flow: Flow, changes: RecordChanges, run: str, task: TaskRanges) -> list[Outcome]:
    rate = RateLimit(task.rate)
    outcomes: list[Outcome] = []
    for _, group in groupby(task.ranges, key=attrgetter("owner")):
        outcomes += copy_for_flow(flow, run, list(group), rate, changes, since=task.since)
    return outcomes
