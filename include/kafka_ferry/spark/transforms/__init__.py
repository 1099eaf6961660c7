"""Transform rules in Spark: their expressions, checked and evaluated, and the job that works with them."""

from kafka_ferry.spark.transforms.job import run_by_rules
from kafka_ferry.spark.transforms.query import checked_rules

__all__ = ["checked_rules", "run_by_rules"]
