"""Rules evaluated again as a Spark job, by what copies with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.spark.jobs import deal, run_in_tasks
from kafka_ferry.spark.packed_changes import PackedChanges
from kafka_ferry.spark.security.serialized_flow import envelope, open_envelope
from kafka_ferry.spark.spark_errors import spark_failures
from kafka_ferry.spark.transforms.job import run_by_rules
from kafka_ferry.verify.transforms.rule_evaluation import evaluate_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import RangeKey
    from kafka_ferry.schemas.ids import FlowSchemas
    from kafka_ferry.transform import Evaluator
    from kafka_ferry.verify.rows import RuleEvaluation
    from kafka_ferry.verify.transforms.rule_evaluation import Evaluations, RangeToEvaluate


def evaluate_all(
    spark: SparkSession,
    flow: Flow,
    ranges: Sequence[RangeToEvaluate],
    schemas: FlowSchemas | None,
) -> dict[RangeKey, RuleEvaluation]:
    """Evaluate the rules of ranges again, as many at once as there are cores.

    Args:
        spark: the session; its executors must reach both clusters.
        flow: the flow.
        ranges: the ranges.
        schemas: what the flow has mirrored of a schema registry, where records get other ids.

    Raises:
        ConfigError: a store or connection of a cluster or a rule's function cannot be read, or Spark cannot make
            sense of a rule.
        SparkFailed: if the target cannot be read; the task's error is in its text.
    """
    changes = PackedChanges.of(flow, schemas)
    tasks = deal(ranges, spark.sparkContext.defaultParallelism)
    with spark_failures(
        f"the evaluation of the transform rules of {flow.name}",
        advice="What was copied stays. Verify again once the target answers.",
    ):
        if any(_needs_sql(flow, one) for one in ranges):
            return dict(run_by_rules(spark, flow, tasks, partial(_by_rules, changes)))
        work = partial(_by_functions, envelope(flow), changes)
        return dict(one for of_task in run_in_tasks(spark, work, tasks) for one in of_task)


def _needs_sql(flow: Flow, to_evaluate: RangeToEvaluate) -> bool:
    rule = flow.transform_of(to_evaluate.range.topic)
    return bool(rule and not rule.function)


def _by_rules(
    changes: PackedChanges, flow: Flow, ranges: Sequence[RangeToEvaluate], evaluator: Evaluator
) -> Evaluations:
    return evaluate_again(flow, ranges, changes.unpack(evaluator))


def _by_functions(
    pack: bytes, changes: PackedChanges, ranges: Sequence[RangeToEvaluate]
) -> Evaluations:
    return evaluate_again(open_envelope(pack), ranges, changes.unpack())
