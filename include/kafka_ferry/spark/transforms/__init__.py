"""Transform rules in Spark: their expressions, checked and evaluated, and the job that works with them."""

from kafka_ferry.spark.transforms.job import done_by_rules
from kafka_ferry.spark.transforms.query import checked_rules

__all__ = ["checked_rules", "done_by_rules"]
