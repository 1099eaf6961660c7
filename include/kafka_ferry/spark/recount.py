"""The recount as a Spark job: one row a target partition, read by whichever executor is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pydantic import TypeAdapter

from kafka_ferry.batches import Segment
from kafka_ferry.config import kafka_python_config
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.spark.breaking import spark_failures
from kafka_ferry.spark.carrying import packed, unpacked
from kafka_ferry.verify import PartitionRecount
from kafka_ferry.verify.claim import Claim
from kafka_ferry.verify.recount import recount
from kafka_ferry.wire import WireCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Cluster, Flow

_CLAIM: Final = pa.struct(
    [
        ("segments", pa.list_(pa.list_(pa.int64()))),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("preserved", pa.bool_()),
        ("producer_id", pa.int64()),
        ("is_first", pa.bool_()),
    ]
)
_ASKED: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("claims", pa.list_(_CLAIM))]
)
_ANSWER: Final = "topic string, partition int, found string"
_ANSWER_ARROW: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("found", pa.string())]
)
_FOUND: Final = TypeAdapter(PartitionRecount)
# So that a large partition does not hold up the small ones that follow it in its task.
_TASKS_PER_CORE: Final = 4


def recount_all(
    spark: SparkSession,
    flow: Flow,
    partitions: Mapping[TopicPartition, Sequence[Claim]],
) -> dict[TopicPartition, PartitionRecount]:
    """Recount ranges of many target partitions at once.

    Args:
        spark: the session; its executors must reach the target.
        flow: the flow.
        partitions: for each target partition what the ledger claims of its ranges, in its order.

    Raises:
        ConfigError: if a store or connection of a cluster cannot be read.
        SparkFailed: if a partition cannot be read; the task's error is in its text.
    """
    if not partitions:
        return {}
    carried = packed(flow)

    def recount_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _recount_rows(batches, unpacked(carried).target)

    tasks = min(len(partitions), spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    counted = (
        spark.createDataFrame(_asked(partitions))
        .repartition(tasks)
        .mapInArrow(recount_rows, _ANSWER)
    )
    with spark_failures(
        f"the recount of {flow.name}",
        advice="What was copied stays. Verify again once the target answers.",
    ):
        found = counted.collect()
    return {
        TopicPartition(row.topic, row.partition): _FOUND.validate_json(row.found) for row in found
    }


def _recount_rows(batches: Iterator[pa.RecordBatch], target: Cluster) -> Iterator[pa.RecordBatch]:
    settings = kafka_python_config(target.client_properties("consumer"))
    with WireCluster(target.alias, settings) as cluster:
        for batch in batches:
            for row in batch.to_pylist():
                tp = TopicPartition(row["topic"], row["partition"])
                found = _FOUND.dump_json(recount(cluster, tp, _claims(row))).decode()
                answer = {"topic": tp.topic, "partition": tp.partition, "found": found}
                yield pa.RecordBatch.from_pylist([answer], schema=_ANSWER_ARROW)


def _asked(partitions: Mapping[TopicPartition, Sequence[Claim]]) -> pa.Table:
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "claims": [
                claim._asdict() | {"segments": list(map(list, claim.segments))} for claim in claims
            ],
        }
        for tp, claims in partitions.items()
    ]
    return pa.Table.from_pylist(rows, _ASKED)


def _claims(row: Mapping[str, Any]) -> list[Claim]:
    """The claims in a row of what ``_asked`` made."""
    return [
        Claim(**claim | {"segments": tuple(Segment(*segment) for segment in claim["segments"])})
        for claim in row["claims"]
    ]
