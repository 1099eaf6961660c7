"""Audits a flow's topics, record by record.

``spark-submit spark_jobs/audit.py --config FILE --flow SOURCE->TARGET --run-id ID``
"""

import sys

from kafka_ferry.imports import prepare_imports

prepare_imports()

from kafka_ferry.runs.job import audit  # noqa: E402

if __name__ == "__main__":
    sys.exit(audit())
