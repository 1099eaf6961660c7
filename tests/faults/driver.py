"""One run of a flow in a process of its own, so that it can be killed.

``python -m tests.faults.driver FLOW_FILE RUN (threads|spark|late|verify)`` plans, makes topics and copies: with
a thread a writer, or with the Spark that ``SPARK_CONF_DIR`` describes. ``late`` does once more what RUN has
planned, as a task that was thought lost, and ``verify`` proves RUN and all that was copied before. The driver
prints ``copying`` when it begins to copy and, as its last line, the failures as JSON. What is no ``FerryError``
stays a traceback, for which the storm fails. SIGUSR1 makes it print where it hangs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import groupby
from operator import attrgetter

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import Plan
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.runs import Run
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.spark.session import terminal_spark
from tests.support.brokers.empty_answers import empty_answers
from tests.support.runs.proof import recount_here


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    given = _arguments()
    shift_clock(given.clock)
    run: Callable[[Flow, str], list[str]] = {
        "threads": with_threads,
        "spark": with_spark,
        "late": late,
        "verify": verify,
    }[given.engine]
    try:
        flow = load_flow(given.file)
        with silent(given.silent, given.seconds) if given.silent else nullcontext():
            failures = run(flow, given.run)
    except RangesFailed as error:
        failures = [*map(str, (*error.refused, *error.failures))]
    except FerryError as error:
        failures = [f"{type(error).__name__}: {error}"]
    print(json.dumps(failures), flush=True)


def with_threads(flow: Flow, name: str) -> list[str]:
    """Copy each writer's ranges in a thread."""
    run, plan = planned(flow, name)
    if plan.ranges:
        Copying(run._context).begin(plan)
    return [*map(str, plan.remarks.refused), *copy(flow, plan)]


def with_spark(flow: Flow, name: str) -> list[str]:
    """Copy with Spark, as ``ferry run`` does."""
    run, plan = planned(flow, name)
    with terminal_spark(f"storm {name}") as spark:
        print("copying", flush=True)
        run.mirror(spark)
    return [*map(str, plan.remarks.refused)]


def late(flow: Flow, name: str) -> list[str]:
    """Copy what was planned long ago, if the plan is still there."""
    try:
        plan = Run(flow, name).stored_plan()
    except FerryError:
        return []
    return copy(flow, plan)


def verify(flow: Flow, name: str) -> list[str]:
    """Prove all that the flow ever copied; Spark starts only where rules are evaluated again."""
    with pytest.MonkeyPatch.context() as patch, terminal_spark(f"storm {name}") as spark:
        recount_here(patch)
        Run(flow, name).verify(spark, everything=True)
    return []


def planned(flow: Flow, name: str) -> tuple[Run, Plan]:
    """A run, and its plan after topics were made."""
    run = Run(flow, name)
    run.plan()
    return run, run.sync_topics()


def copy(flow: Flow, plan: Plan) -> list[str]:
    """Copy a plan's ranges; what stopped them."""
    ranges = sorted(plan.ranges, key=attrgetter("owner"))
    by_writer = [list(group) for _, group in groupby(ranges, attrgetter("owner"))]
    print("copying", flush=True)
    with ThreadPoolExecutor(len(by_writer) or 1) as pool:
        copies = [pool.submit(copy_for_flow, flow, plan.run, group) for group in by_writer]
    outcomes = [outcome for copy in copies for outcome in copy.result()]
    return [str(outcome.failure) for outcome in outcomes if outcome.failure]


def shift_clock(seconds: float) -> None:
    """Let this process's wall clock be ahead, or behind where ``seconds`` are negative."""
    now, now_ns = time.time, time.time_ns
    patch = pytest.MonkeyPatch()
    patch.setattr(time, "time", lambda: now() + seconds)
    patch.setattr(time, "time_ns", lambda: now_ns() + round(seconds * 1e9))


@contextmanager
def silent(topic: str, seconds: float) -> Iterator[None]:
    """Let brokers give no records of a topic, and no error, for a while from the first answer on."""
    ends: list[float] = []

    def is_empty(_: int) -> bool:
        ends.append(time.monotonic() + seconds)
        return time.monotonic() < ends[0]

    with empty_answers(topic, is_empty):
        yield


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("file", "run", "engine"):
        parser.add_argument(name)
    parser.add_argument("--clock", type=float, default=0.0)
    parser.add_argument("--silent")
    parser.add_argument("--seconds", type=float, default=0.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
