"""A query like a copying one, without a cluster: ``spark-submit rehearsal.py FOLDER``.

It loads the same classes as a run (``spark.class_archive``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafka_ferry.spark.checkpoint import QueryCheckpoint, StartRanges
from kafka_ferry.spark.jobs import run_in_tasks
from kafka_ferry.spark.query import run_query
from kafka_ferry.spark.session import spark_of_submission
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    """Run the query with a folder of its own, which is empty before."""
    checkpoint = QueryCheckpoint(StateFolder(sys.argv[1]))
    with spark_of_submission("rehearsal") as spark:

        def count(batch: DataFrame, _: int) -> None:
            run_in_tasks(spark(), len, [row.value for row in batch.collect()])

        run_query(spark(), "rehearsal", checkpoint, StartRanges("run", "attempt", 0, ()), count)


if __name__ == "__main__":
    main()
