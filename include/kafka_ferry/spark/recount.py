"""The recount as a Spark job: one row a target partition, read by whichever executor is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_ferry.batches import Segment
from kafka_ferry.config import kafka_python_config
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.spark.files import shipped_flow
from kafka_ferry.verify import Recount
from kafka_ferry.verify.recount import PartitionRecount, recount
from kafka_ferry.wire import WireCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow

_SEGMENTS: Final = pa.list_(pa.list_(pa.list_(pa.int64())))
_ASKED: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("ranges", _SEGMENTS)]
)
_ANSWER: Final = "topic string, partition int, beyond bigint, ranges array<struct<records bigint, digest string, foreign bigint, expired bigint>>"
_ANSWER_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("beyond", pa.int64()),
        (
            "ranges",
            pa.list_(
                pa.struct(
                    [
                        ("records", pa.int64()),
                        ("digest", pa.string()),
                        ("foreign", pa.int64()),
                        ("expired", pa.int64()),
                    ]
                )
            ),
        ),
    ]
)


def recount_all(
    spark: SparkSession,
    flow: Flow,
    partitions: Mapping[TopicPartition, Sequence[Sequence[Segment]]],
) -> dict[TopicPartition, PartitionRecount]:
    """Recount ranges of many target partitions at once.

    Args:
        spark: the session; its executors must reach the target and the flow's file.
        flow: the flow.
        partitions: for each target partition the segments of its ranges, in the ledger's order.

    Raises:
        Exception: Spark's own, with the task's error in its text, if a partition cannot be read.
    """
    if not partitions:
        return {}
    asked = pa.Table.from_pylist(
        [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "ranges": [[list(s) for s in segments] for segments in ranges],
            }
            for tp, ranges in partitions.items()
        ],
        _ASKED,
    )
    tasks = min(len(partitions), max(1, spark.sparkContext.defaultParallelism) * 4)
    found = (
        spark.createDataFrame(asked)
        .repartition(tasks)
        .mapInArrow(partial(_recount_rows, config=flow.file, flow=flow.name), _ANSWER)
        .collect()
    )
    return {
        TopicPartition(row.topic, row.partition): PartitionRecount(
            tuple(Recount(**entry.asDict()) for entry in row.ranges), row.beyond
        )
        for row in found
    }


def _recount_rows(
    batches: Iterator[pa.RecordBatch], *, config: str, flow: str
) -> Iterator[pa.RecordBatch]:
    target = shipped_flow(config, flow).target
    settings = kafka_python_config(target.client_properties("consumer"))
    with WireCluster(target.alias, settings) as cluster:
        for batch in batches:
            for row in batch.to_pylist():
                ranges = [[Segment(*segment) for segment in segments] for segments in row["ranges"]]
                found = recount(cluster, TopicPartition(row["topic"], row["partition"]), ranges)
                answer = {
                    "topic": row["topic"],
                    "partition": row["partition"],
                    "beyond": found.beyond,
                    "ranges": [
                        {
                            "records": r.records,
                            "digest": r.digest,
                            "foreign": r.foreign,
                            "expired": r.expired,
                        }
                        for r in found.ranges
                    ],
                }
                yield pa.RecordBatch.from_pylist([answer], schema=_ANSWER_ARROW)
