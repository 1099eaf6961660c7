"""Running the Structured Streaming query of one run to its end."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from kafka_ferry.copy import OutcomeFiles
from kafka_ferry.errors import SparkFailed
from kafka_ferry.spark.carrying import packed
from kafka_ferry.spark.ranges import SOURCE, RangeSource
from kafka_ferry.spark.sink import SINK, sink_of
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.copy import Outcome


def copy_with_spark(
    spark: SparkSession, flow: Flow, *, run: str, run_folder: StateFolder, checkpoint: StateFolder
) -> list[Outcome]:
    """Copy the ranges of the plan in ``run_folder``.

    What an earlier run's query was stopped in comes first, as Spark planned it then.

    Args:
        spark: the session; its executors must reach both clusters.
        flow: the flow.
        run: the run's id, for positions and ledger.
        run_folder: holds the plan; outcomes are stored beside it.
        checkpoint: Spark's checkpoint of the flow; may be deleted between runs.

    Returns:
        The outcome of each range that was tried.

    Raises:
        ConfigError: if a store or connection of a cluster cannot be read.
        SparkFailed: if the query breaks off, because files of the run or of the checkpoint are
            gone, another query uses the same checkpoint, or a task fails too often.
    """
    spark.dataSource.register(RangeSource)
    spark.dataSource.register(sink_of(packed(flow)))
    attempt = uuid.uuid4().hex
    ranges = (
        spark.readStream.format(SOURCE)
        .options(run_folder=run_folder.location, writers=str(flow.writers), attempt=attempt)
        .load()
    )
    query = (
        ranges.writeStream.format(SINK)
        .options(
            run=run,
            run_folder=run_folder.location,
            attempt=attempt,
        )
        .option("checkpointLocation", checkpoint.uri)
        .trigger(availableNow=True)
        .queryName(f"{flow.name} {run}")
        .start()
    )
    try:
        query.awaitTermination()
    except PySparkException as error:
        reason = _first_sentence(error)
        raise SparkFailed(
            f"Spark broke off the query of {flow.name}, run {run} (checkpoint "
            f"{checkpoint.location}): {reason}",
            advice="What was sealed stays. Is another run of this flow active, or were files of "
            "the state folder deleted? Then run it again.",
        ) from error
    return OutcomeFiles(run_folder, attempt).read()


def _first_sentence(error: PySparkException) -> str:
    """What happened, without the stack traces of two languages."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback"))]
    return next((line for line in told if "Error: " in line or "Exception: " in line), told[0])
