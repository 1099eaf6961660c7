"""The daemon that Spark's Python workers are forked from, with all imports that our tasks need.

Spark starts it on each executor, by ``spark.python.daemon.module``. PySpark's own daemon, which this
one becomes, imports nothing, so that each of its workers would spend seconds on the same imports.
Nothing here may start a thread, which would be missing in the workers; Arrow's allocator has one, and
handles that itself.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback

from kafka_ferry.imports import prepare_imports

# NumPy's linear algebra starts a thread for each processor when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
prepare_imports()

import pyspark.daemon  # noqa: E402
import pyspark.worker  # noqa: E402

import kafka_ferry.spark.query  # noqa: E402
import kafka_ferry.spark.recount  # noqa: E402, F401


class _QuietTraceback:
    """What PySpark's daemon prints exceptions by."""

    @staticmethod
    def print_exc() -> None:
        """Print the exception, unless it is that the driver has ended before its worker could answer it."""
        if not isinstance(sys.exception(), BrokenPipeError):
            traceback.print_exc()


def main() -> None:
    """Fork workers until Spark stops the daemon."""
    # Garbage collection in a worker would copy shared memory pages.
    gc.collect()
    gc.freeze()
    vars(pyspark.daemon)["traceback"] = _QuietTraceback
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
