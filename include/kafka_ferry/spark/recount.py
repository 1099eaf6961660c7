"""The recount as a Spark job: any free executor reads the next target partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.spark.jobs import deal, run_in_tasks
from kafka_ferry.spark.security.serialized_flow import envelope, open_envelope
from kafka_ferry.spark.spark_errors import spark_failures
from kafka_ferry.verify import PartitionRecount
from kafka_ferry.verify.claim import RangeClaim, ReadUntil
from kafka_ferry.verify.recount import Asked, recount_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow

_Found = list[tuple[TopicPartition, PartitionRecount]]
# Keeps a large partition from delaying the small ones that follow it in its task.
_TASKS_PER_CORE: Final = 4
NOWHERE: Final[Mapping[TopicPartition, ReadUntil]] = {}


def recount_all(
    spark: SparkSession,
    flow: Flow,
    partitions: Mapping[TopicPartition, Sequence[RangeClaim]],
    until: Mapping[TopicPartition, ReadUntil] = NOWHERE,
) -> dict[TopicPartition, PartitionRecount]:
    """Recount ranges of many target partitions at once.

    Args:
        spark: the session; its executors must reach the target.
        flow: the flow.
        partitions: for each target partition what the ledger claims of its ranges, in its order.
        until: where to stop reading a partition, if not at its log's end.

    Raises:
        ConfigError: if a store or connection of a cluster cannot be read.
        SparkFailed: if brokers do not answer; the task's error is in its text.
    """
    tasks = spark.sparkContext.defaultParallelism * _TASKS_PER_CORE
    task_inputs = deal([(tp, claims, until.get(tp)) for tp, claims in partitions.items()], tasks)
    with spark_failures(
        f"the recount of {flow.name}",
        advice="What was copied stays. Verify again once the target answers.",
    ):
        results = run_in_tasks(spark, partial(_recount_task, envelope(flow)), task_inputs)
    return dict(recounted for of_task in results for recounted in of_task)


def _recount_task(flow: bytes, partitions: Asked) -> _Found:
    return recount_each(open_envelope(flow).target, partitions)
