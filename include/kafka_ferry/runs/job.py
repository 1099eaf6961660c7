"""A step that needs Spark, as an application for ``spark-submit``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from kafka_ferry.config import load_flow
from kafka_ferry.config.back import load_way_back
from kafka_ferry.errors import FerryError
from kafka_ferry.runs.run import Run
from kafka_ferry.spark.session import spark_session


def main(step: Callable[[Run, SparkSession], Any], arguments: Sequence[str] | None = None) -> int:
    """Run one step with the flow, run and configuration that the arguments name.

    Returns:
        The exit status: 0, or the error's own.
    """
    parser = argparse.ArgumentParser(description="A step of a Kafka Ferry run, for spark-submit.")
    parser.add_argument("--config", required=True, help="the flow's file")
    parser.add_argument("--flow", required=True, help="the flow's name, source->target")
    parser.add_argument("--run-id", required=True, help="the run's id")
    parser.add_argument("--way-back", action="store_true", help="run that flow's way back instead")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        flow = load_flow(options.config, options.flow)
        if options.way_back:
            flow = load_way_back(options.config, flow)
        run = Run(flow, options.run_id)
        session = spark_session(f"ferry {run.flow.name}")
        try:
            step(run, session)
        finally:
            session.stop()
    except FerryError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return error.exit_code
    return 0
