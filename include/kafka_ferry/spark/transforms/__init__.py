"""Transform rules in Spark: their expressions, checked and evaluated, and the job that copies with them."""

from kafka_ferry.spark.transforms.job import copied_with_rules
from kafka_ferry.spark.transforms.query import checked_rules

__all__ = ["checked_rules", "copied_with_rules"]
