"""The Spark application of ``spark_kafka``: it takes one query a line, as JSON, and runs it to its end.

``python -m tests.support.spark.queries JARS``
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.spark.kafka_source import ANSWER


def _run(spark: SparkSession, query: Mapping[str, Any]) -> None:
    for key, value in query["conf"].items():
        spark.conf.set(key, value)
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", query["bootstrap"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", ",".join(query["topics"]))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", query["at_once"])
        .load()
        .selectExpr("cast(value as string) value")
    )
    if query["kind"] == "files":
        stream = records.writeStream.format("json").option("path", query["output"])
    else:

        def write(counts: DataFrame, _: int) -> None:
            rows = [tuple(row) for row in counts.collect()]
            Path(query["output"]).write_text(json.dumps(rows))

        counts = records.groupBy("value").count()
        stream = counts.writeStream.outputMode("complete").foreachBatch(write)
    stream = stream.option("checkpointLocation", query["checkpoint"]).trigger(availableNow=True)
    try:
        stream.start().awaitTermination()
    finally:
        for key in query["conf"]:
            spark.conf.unset(key)


def _serve(jars: str, queries: IO[str]) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(key, "false")
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in queries:
        failure = ""
        try:
            _run(spark, json.loads(line))
        except Exception as error:
            failure = str(error)[:2000] or type(error).__name__
        print(ANSWER + json.dumps(failure), flush=True)
    spark.stop()


_serve(sys.argv[1], sys.stdin)
