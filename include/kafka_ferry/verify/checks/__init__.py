"""The checks of the reconciliation table, as a table. Pure."""

from kafka_ferry.verify.checks.check import Check, Row, Suite
from kafka_ferry.verify.checks.decisive import decisive, unproved_rows
from kafka_ferry.verify.checks.partitions import PARTITIONS
from kafka_ferry.verify.checks.ranges import RANGES
from kafka_ferry.verify.checks.warnings import WARNINGS

__all__ = [
    "PARTITIONS",
    "RANGES",
    "WARNINGS",
    "Check",
    "Row",
    "Suite",
    "decisive",
    "unproved_rows",
]
