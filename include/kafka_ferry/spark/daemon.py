"""What Spark's Python workers are forked from, with everything imported that our tasks need.

Spark starts it on each executor, by ``spark.python.daemon.module``. PySpark's own daemon, which this
one becomes, has imported nothing, so that each of its workers would import the same for seconds.
Nothing here may start a thread, which would be missing in the workers; Arrow's allocator has one, and
takes care of that itself.
"""

from __future__ import annotations

import gc
import os

from kafka_ferry.garbage import search_seldom

search_seldom()

# NumPy's linear algebra starts a thread for each processor when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyspark.worker  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

import kafka_ferry.spark.query  # noqa: E402
import kafka_ferry.spark.recount  # noqa: E402, F401


def main() -> None:
    """Fork workers until Spark says that it is enough."""
    # What is collected in a worker would be copied for it first.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
