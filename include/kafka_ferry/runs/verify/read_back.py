"""Reads back what a run or its shard has copied as soon as it is there: the step ``mirror`` has Spark's executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.runs.state.file_digests import record_digests
from kafka_ferry.runs.verify.again import SMALL, planned_rotation
from kafka_ferry.runs.verify.due import look_for_due
from kafka_ferry.runs.verify.evaluate_again import (
    evaluate_chosen,
    left_to_evaluate,
    ranges_to_evaluate,
)
from kafka_ferry.runs.verify.partition_recounts import recount_partitions
from kafka_ferry.runs.verify.recount import claims_of

if TYPE_CHECKING:
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.spark.session import SparkSource


def read_back(spark: SparkSource, run: RunContext, shard: int | None) -> int:
    """Read back the due ranges of the partitions that a run or its shard was to copy, and store the result.

    Args:
        spark: gives the session, whose executors must reach the target.
        run: the run, which was planned.
        shard: the shard; None for the whole run.

    Returns:
        How many target partitions were read.
    """
    plan = run.folder.plan()
    copied = {range_.target for range_ in plan.of_shard(shard)}
    due = look_for_due(run, plan, ClusterControl(run.flow.target))
    ranges = [entry for entry in due.ranges if entry.target in copied]
    claims = claims_of(run.ledger, ranges, due.topics, due.boundaries)
    recounts = recount_partitions(spark, run.flow, None, claims)
    chosen = ranges_to_evaluate(run.flow, run.run_id, plan, ranges, due.topics)
    evaluated = evaluate_chosen(spark, run, chosen)
    files = run.folder.recounts.save(StepPart("mirror", shard), claims, recounts, evaluated)
    if run.flow.certificates_enabled:
        record_digests(run, files)
    return len(claims)


def is_read_back(run: RunContext) -> bool:
    """Whether everything that is due has been read back, and rules have been evaluated again."""
    plan, recounts = run.folder.plan(), run.folder.recounts
    due = look_for_due(run, plan, ClusterControl(run.flow.target))
    claims = claims_of(run.ledger, due.ranges, due.topics, due.boundaries)
    if recounts.of(claims).keys() != claims.keys():
        return False
    return not left_to_evaluate(run, plan, due, recounts.evaluations())


def needs_spark(run: RunContext) -> bool:
    """Whether more is to be read back than a step reads without Spark."""
    plan, target = run.folder.plan(), ClusterControl(run.flow.target)
    if plan.options.verify_all or not is_read_back(run):
        return True
    since = min(run.ledger.verified_through(), plan.ledger_end)
    return planned_rotation(run, plan, target, before=since).bytes > SMALL
