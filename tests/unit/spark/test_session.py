"""Where the command line's Spark runs, and when it starts."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext

from kafka_ferry.spark import session
from kafka_ferry.spark.session import SparkOnDemand, terminal_spark
from tests.support.waiting import wait_until


class Session:
    """Counts how often it was started and stopped."""

    def __init__(self) -> None:
        self.started = self.stopped = 0

    def start(self, _: object) -> Any:
        self.started += 1
        return self

    def stop(self) -> None:
        self.stopped += 1


def test_tasks_at_a_time_are_spark_s_local_threads_and_without_a_word_its_own_settings_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_session", lambda _, config, started: config)
    with_three: Any = terminal_spark("tests", 3)()
    without: Any = terminal_spark("tests")()
    assert with_three["spark.master"] == "local[3]"
    assert "spark.master" not in without


def test_what_nothing_asks_for_is_never_started() -> None:
    session = Session()
    with SparkOnDemand(session.start):
        pass
    assert (session.started, session.stopped) == (0, 0)


def test_it_is_started_once_and_stopped() -> None:
    session = Session()
    with SparkOnDemand(session.start) as spark:
        spark.begin()
        spark.begin()
        assert spark() is spark() is session  # type: ignore[comparison-overlap]
    wait_until(lambda: session.stopped == 1)
    assert session.started == 1


def test_a_start_that_fails_says_so_where_the_session_is_asked_for() -> None:
    def fail(_: object) -> Any:
        raise RuntimeError("no Java")

    with SparkOnDemand(fail) as spark:
        spark.begin()
        with pytest.raises(RuntimeError, match="no Java"):
            spark()


def test_the_next_one_starts_when_the_last_one_has_stopped() -> None:
    """Spark gives a session that is being stopped to code that asks for one meanwhile."""
    may_stop, order = threading.Event(), list[str]()

    class Slow(Session):
        def stop(self) -> None:
            may_stop.wait(30)
            order.append("stopped")

    class Next(Session):
        def start(self, _: object) -> Any:
            order.append("started")
            return super().start(_)

    with SparkOnDemand(Slow().start) as first:
        first()
    with SparkOnDemand(Next().start) as second:
        second.begin()
        may_stop.set()
        second()
    assert order == ["stopped", "started"]


def test_a_jvm_that_ends_after_the_command_does_not_hold_its_output_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway, launched = object(), list[dict[str, int]]()

    def launch(conf: object, options: dict[str, int]) -> object:
        launched.append(options)
        return gateway

    def initialize(*, gateway: object, conf: object) -> None:
        monkeypatch.setattr(SparkContext, "_gateway", gateway)

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launch)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", initialize)
    monkeypatch.setattr(SparkContext, "_gateway", None)

    session._start_jvm(SparkConf(loadDefaults=False))
    session._start_jvm(SparkConf(loadDefaults=False))

    (streams,) = launched
    assert streams["stdout"] == subprocess.DEVNULL
    assert streams["stderr"] not in (sys.stderr.fileno(), 2)
    assert SparkContext._gateway is gateway
