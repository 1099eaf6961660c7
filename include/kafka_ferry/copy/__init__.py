"""Copying ranges: reader, judge, writer."""

from kafka_ferry.copy.copier import Limits, copy_ranges
from kafka_ferry.copy.outcome import Outcome
from kafka_ferry.copy.outcome_files import OutcomeFiles
from kafka_ferry.copy.rate_limit import RateLimit
from kafka_ferry.copy.target.all_writers import fence_writers, restore_positions, settle_writers
from kafka_ferry.copy.target.dead_letters import dead_letter_creation
from kafka_ferry.copy.task import copy_for_flow

__all__ = [
    "Limits",
    "Outcome",
    "OutcomeFiles",
    "RateLimit",
    "copy_for_flow",
    "copy_ranges",
    "dead_letter_creation",
    "fence_writers",
    "restore_positions",
    "settle_writers",
]
