"""Copies what a run's plan says, or one shard of it.

``spark-submit spark_jobs/mirror.py --config FILE --flow SOURCE->TARGET --run-id ID [--shard NUMBER]``
"""

import sys

from kafka_ferry.imports import prepare_imports

prepare_imports()

from kafka_ferry.runs.job import mirror  # noqa: E402

if __name__ == "__main__":
    sys.exit(mirror())
