"""Spark sessions with what our jobs need."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib.resources import as_file, files

from pyspark.sql import SparkSession

from kafka_ferry.spark.properties import EVERY_JOB, LIGHT_JVM


def spark_session(name: str) -> SparkSession:
    """The running session, or a new one with what every job of ours needs."""
    return _session(name, EVERY_JOB)


def terminal_session(name: str, tasks: int | None = None) -> SparkSession:
    """A session for the command line: quiet, without the JVM's log lines, bars and web page.

    Args:
        name: the application's name.
        tasks: how many tasks run at a time, on this machine; None leaves where and how many to Spark's
            own settings.
    """
    where = {} if tasks is None else {"spark.master": f"local[{tasks}]"}
    with as_file(files("kafka_ferry.spark") / "log4j2.properties") as log_config:
        quiet = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": f"{LIGHT_JVM} -Dlog4j2.configurationFile={log_config}",
        }
        return _session(name, EVERY_JOB | quiet | where)


def _session(name: str, config: Mapping[str, str]) -> SparkSession:
    # Spark starts `python3` for its workers, whichever that is, unless told otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in config.items():
        builder = builder.config(key, value)
    # It tells of each connection between Python and the JVM, even when everything is closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
