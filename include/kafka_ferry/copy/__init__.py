"""Copying ranges: reader, judge, writer, and the Spark query that spreads them over tasks."""

from kafka_ferry.copy.copier import Limits, Outcome, copy_ranges
from kafka_ferry.copy.query import copy_with_spark
from kafka_ferry.copy.takeover import fence_writers
from kafka_ferry.copy.writer import Failure

__all__ = ["Failure", "Limits", "Outcome", "copy_ranges", "copy_with_spark", "fence_writers"]
