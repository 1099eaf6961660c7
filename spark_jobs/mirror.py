"""Copies what a run's plan says.

``spark-submit spark_jobs/mirror.py --config FILE --flow SOURCE->TARGET --run-id ID``
"""

import sys

from kafka_ferry.runs.job import main
from kafka_ferry.runs.run import Run

if __name__ == "__main__":
    sys.exit(main(Run.mirror))
