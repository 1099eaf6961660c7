"""Proves a run's copy complete.

``spark-submit spark_jobs/verify.py --config FILE --flow SOURCE->TARGET --run-id ID``
"""

import sys

from kafka_ferry.imports import prepare_imports

prepare_imports()

from kafka_ferry.runs.job import verify  # noqa: E402

if __name__ == "__main__":
    sys.exit(verify())
