"""One run of a flow in a process of its own, so that it can be killed.

``python -m tests.faults.driver FLOW_FILE RUN (threads|spark)`` plans, makes topics and copies: with
a thread a writer, or with the Spark that ``SPARK_CONF_DIR`` describes. It prints ``copying`` when it
begins to copy and, as its last line, the failures as JSON. What is no ``FerryError`` stays a
traceback, for which the storm fails. SIGUSR1 makes it print where it hangs.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.errors import FerryError, RangesFailed
from kafka_ferry.runs import Run
from kafka_ferry.spark.session import terminal_spark


def main(file: str, run: str, engine: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    copy: Callable[[Flow, Run], list[str]] = {"threads": with_threads, "spark": with_spark}[engine]
    try:
        flow = load_flow(file)
        this = Run(flow, run)
        this.plan()
        failures = [str(refusal) for refusal in this.sync_topics().remarks.refused]
        failures += copy(flow, this)
    except RangesFailed as error:
        failures = list(error.failures)
    except FerryError as error:
        failures = [f"{type(error).__name__}: {error}"]
    print(json.dumps(failures), flush=True)


def with_threads(flow: Flow, run: Run) -> list[str]:
    """Copy each writer's ranges in a thread."""
    ranges = sorted(run._folder.plan().ranges, key=attrgetter("owner"))
    by_writer = [list(group) for _, group in groupby(ranges, attrgetter("owner"))]
    print("copying", flush=True)
    with ThreadPoolExecutor(len(by_writer) or 1) as pool:
        copies = [pool.submit(copy_for_flow, flow, run.run_id, group) for group in by_writer]
    outcomes = [outcome for copy in copies for outcome in copy.result()]
    return [str(outcome.failure) for outcome in outcomes if outcome.failure]


def with_spark(flow: Flow, run: Run) -> list[str]:
    """Copy with Spark, as ``ferry run`` does."""
    with terminal_spark(f"storm {run.run_id}") as spark:
        print("copying", flush=True)
        run.mirror(spark)
    return []


if __name__ == "__main__":
    main(*sys.argv[1:])
