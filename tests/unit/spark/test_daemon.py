"""The process that Spark's workers are forked from."""

import subprocess
import sys

# jemalloc's, which comes with Arrow, is begun again by its own fork handlers.
OF_ARROW = "jemalloc_bg_thd"


def test_it_has_all_that_a_task_imports_and_no_thread_that_its_workers_would_miss() -> None:
    code = (
        "import os, sys, kafka_ferry.spark.daemon\n"
        "from pathlib import Path\n"
        "before = set(sys.modules)\n"
        "from kafka_ferry.spark.query import _copy_task\n"
        "from kafka_ferry.spark.recount import _recount_task\n"
        "import pyspark.worker\n"
        "threads = sorted(task.read_text().strip() for task in Path('/proc/self/task').glob('*/comm'))\n"
        "print(len(threads), threads[0], sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in (f"2 {OF_ARROW} []\n", "1 python []\n")


def test_no_task_needs_what_only_judges() -> None:
    code = "import sys, kafka_ferry.spark.daemon; print({'pandas', 'great_expectations'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_worker_whose_driver_has_ended_prints_nothing() -> None:
    code = (
        "from kafka_ferry.spark.daemon import _QuietTraceback\n"
        "for error in (BrokenPipeError, ValueError):\n"
        "    try:\n"
        "        raise error\n"
        "    except error:\n"
        "        _QuietTraceback.print_exc()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ValueError" in done.stderr and "BrokenPipeError" not in done.stderr
