"""Copying ranges: reader, judge, writer."""

from kafka_ferry.copy.copier import Limits, Outcome, copy_ranges
from kafka_ferry.copy.for_flow import copy_for_flow
from kafka_ferry.copy.outcomes import OutcomeFiles
from kafka_ferry.copy.rate import RateLimit
from kafka_ferry.copy.rejections import dead_letter_creation
from kafka_ferry.copy.takeover import fence_writers, restore_positions
from kafka_ferry.copy.writer import Failure

__all__ = [
    "Failure",
    "Limits",
    "Outcome",
    "OutcomeFiles",
    "RateLimit",
    "copy_for_flow",
    "copy_ranges",
    "dead_letter_creation",
    "fence_writers",
    "restore_positions",
]
