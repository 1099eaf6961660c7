"""Running the Structured Streaming query of one run to its end."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka_ferry.copy import OutcomeFiles
from kafka_ferry.plan.sharding import writers_of
from kafka_ferry.spark.breaking import spark_failures
from kafka_ferry.spark.carrying import packed
from kafka_ferry.spark.ranges import SOURCE, RangeSource
from kafka_ferry.spark.sink import SINK, sink_of
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.copy import Outcome


def copy_with_spark(
    spark: SparkSession,
    flow: Flow,
    *,
    run: str,
    run_folder: StateFolder,
    checkpoint: StateFolder,
    shard: int | None = None,
    bytes_per_s: int = 0,
) -> list[Outcome]:
    """Copy the ranges of the plan in ``run_folder``, or those of one of its shards.

    What an earlier query with that checkpoint was stopped in comes first, as Spark planned it then, as
    far as it is of the same partitions.

    Args:
        spark: the session; its executors must reach both clusters.
        flow: the flow.
        run: the run's id, for positions and ledger.
        run_folder: holds the plan; outcomes are stored beside it.
        checkpoint: Spark's checkpoint of the flow, or of its shard; may be deleted between runs.
        shard: the shard; None for all that is planned.
        bytes_per_s: the most bytes that all of the run's shards together may send in a second; 0 for
            no limit.

    Returns:
        The outcome of each range that was tried.

    Raises:
        ConfigError: if a store or connection of a cluster cannot be read.
        SparkFailed: if the query breaks off, because files of the run or of the checkpoint are
            gone, another query uses the same checkpoint, or a task fails too often.
    """
    spark.dataSource.register(RangeSource)
    spark.dataSource.register(sink_of(packed(flow)))
    attempt, writers = uuid.uuid4().hex, writers_of(flow)
    ranges = (
        spark.readStream.format(SOURCE)
        .options(
            run_folder=run_folder.location,
            writers=str(writers.count),
            groups=str(writers.groups),
            shard="" if shard is None else str(shard),
            bytes_per_s=str(bytes_per_s),
            tasks=str(spark.sparkContext.defaultParallelism),
            attempt=attempt,
        )
        .load()
    )
    stream = (
        ranges.writeStream.format(SINK)
        .options(
            run=run,
            run_folder=run_folder.location,
            attempt=attempt,
        )
        .option("checkpointLocation", checkpoint.uri)
        .trigger(availableNow=True)
        .queryName(f"{flow.name} {run}{'' if shard is None else f' shard {shard}'}")
    )
    with spark_failures(
        f"the query of {flow.name}, run {run} (checkpoint {checkpoint.location})",
        advice="What was sealed stays. Is another run of this flow active, or were files of the "
        "state folder deleted? Then run it again.",
    ):
        stream.start().awaitTermination()
    return OutcomeFiles(run_folder, attempt).read()
