"""Spark sessions for our jobs."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.resources import as_file, files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from kafka_ferry.errors import SparkNeeded
from kafka_ferry.spark.driver_output import driver_stderr
from kafka_ferry.spark.java import require_java
from kafka_ferry.spark.properties import (
    EVERY_JOB,
    driver_options,
    is_local,
    protection,
    set_environment,
)
from kafka_ferry.spark.security.flow_key import keep_out_of_code, key_properties, without_key
from kafka_ferry.spark.security.private_sockets import driver_folder, temporary_files_in

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

SparkSource = Callable[[], "SparkSession"]
"""Gives the session; called only where there is work for Spark, since the first call may start it."""


_Starter = Callable[[Callable[["SparkContext"], None]], "SparkSession"]
"""Starts a session, and calls its argument as soon as the session's context is there."""


def no_spark() -> SparkSession:
    """Takes the place of a session where there should be no work for Spark.

    Raises:
        SparkNeeded: always.
    """
    raise SparkNeeded(
        "There is work for Spark, but this process has no Spark.", advice="Run it with Spark."
    )


class SparkOnDemand:
    """A session that is started when something needs it.

    Args:
        start: starts it; calls its argument with the context, half a second before the session is there.
    """

    # Spark has one session per process: the next one starts when the last one has stopped.
    _last_stop: ClassVar[threading.Thread | None] = None

    def __init__(self, start: _Starter) -> None:
        self._start = start
        self._starting: Future[SparkSession] | None = None
        self._daemons: threading.Thread | None = None

    def begin(self) -> None:
        """Start it in the background, and with it the daemons that workers are forked from."""
        if self._starting is None:
            starter = ThreadPoolExecutor(1, thread_name_prefix="spark")
            self._starting = starter.submit(self._start_after, SparkOnDemand._last_stop)
            starter.shutdown(wait=False)

    def __call__(self) -> SparkSession:
        """The session, as soon as it has started."""
        self.begin()
        assert self._starting is not None
        return self._starting.result()

    def __enter__(self) -> SparkOnDemand:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it in the background; this process does not end before that."""
        SparkOnDemand._last_stop = threading.Thread(target=self.stop, name="stop-spark")
        SparkOnDemand._last_stop.start()

    def _start_after(self, last_stop: threading.Thread | None) -> SparkSession:
        if last_stop:
            last_stop.join()
        return self._start(self._begin_daemons)

    def _begin_daemons(self, context: SparkContext) -> None:
        self._daemons = threading.Thread(target=_start_daemons, args=[context], name="daemons")
        self._daemons.start()

    def stop(self) -> None:
        """Stop it, if it was started."""
        if self._starting is None or self._starting.exception():
            return
        if self._daemons:
            # Spark would log an error about a job that is interrupted by the stop.
            self._daemons.join()
        self._starting.result().stop()


def spark_of_submission(name: str) -> SparkOnDemand:
    """The session of an application that was submitted."""
    return SparkOnDemand(partial(_session, name, {}))


def terminal_spark(
    name: str, tasks: int | None = None, on_start: Callable[[], None] = lambda: None
) -> SparkOnDemand:
    """A session for the command line: quiet, without the JVM's log lines, bars and web page.

    Args:
        name: the application's name.
        tasks: how many tasks run at a time, on this machine; None leaves where and how many to Spark's
            own settings.
        on_start: called if it starts.

    Raises:
        JavaNeeded: it could never start.
    """
    require_java()
    return SparkOnDemand(partial(_terminal_session, name, tasks, on_start))


def _terminal_session(
    name: str,
    tasks: int | None,
    on_start: Callable[[], None],
    started: Callable[[SparkContext], None],
) -> SparkSession:
    on_start()
    where = {} if tasks is None else {"spark.master": f"local[{tasks}]"}
    with as_file(files("kafka_ferry.spark") / "log4j2.properties") as log_config:
        quiet = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": f"{driver_options()} {temporary_files_in(driver_folder())} "
            f"-Dlog4j2.configurationFile={log_config}",
        }
        return _session(name, quiet | where, started)


def _session(
    name: str, config: Mapping[str, str], started: Callable[[SparkContext], None]
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    set_environment()
    conf = SparkConf().setAppName(name).setAll([*{**EVERY_JOB, **config}.items()])
    # It logs each connection between Python and the JVM, even when everything is closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # It writes each error as a line of JSON with the JVM's stack; the error itself is raised.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    _start_jvm(conf)
    # Only now does it have what spark-submit and Spark's files say; and no secret is an argument of the JVM.
    whole = SparkConf().setAll(conf.getAll())
    whole.setAll([*protection(dict(whole.getAll())).items()])
    local = is_local(whole.get("spark.master", "") or "")
    whole.setAll([*key_properties(local=local).items()])
    context = SparkContext.getOrCreate(whole)
    context.setLogLevel("ERROR")
    _keep_files_out_of_log(context)
    keep_out_of_code(context.environment, local=local)
    _show_library(context)
    started(context)
    return without_key(SparkSession.builder.config(conf=conf).getOrCreate())


def _start_jvm(conf: SparkConf) -> None:
    """Start the driver's JVM, if there is none yet, without this process's standard output.

    It ends half a second after this process, and a pipe's reader waits until no process holds the pipe open.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        with driver_stderr() as stderr:
            streams = {"stdout": subprocess.DEVNULL, "stderr": stderr}
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _keep_files_out_of_log(context: SparkContext) -> None:
    """Leave it to the error to say why a query has broken off.

    The JVM would log the first line of a file in its checkpoint that Spark has not written: a link to another file.
    """
    log4j = context._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.core.config.Configurator.setLevel(
        "org.apache.spark.sql.execution.streaming", log4j.Level.OFF
    )


def _start_daemons(context: SparkContext) -> None:
    """Start the daemons that workers are forked from, while the driver does something else."""
    # Any error is reported by the session, or by the first task of a real job.
    with suppress(Exception):
        tasks = context.defaultParallelism
        context.parallelize(range(tasks), tasks).count()


def _show_library(context: SparkContext) -> None:
    """Let the daemon that workers are forked from find the ``--py-files`` of an executor.

    They are in the executor's working directory. PySpark only tells the workers, too late for the daemon.
    """
    files = context.getConf().get("spark.submit.pyFiles", "") or ""
    names = [PurePosixPath(file).name for file in files.split(",") if file]
    known = context.environment.get("PYTHONPATH")
    if names:
        context.environment["PYTHONPATH"] = ":".join([*names, *filter(None, [known])])
