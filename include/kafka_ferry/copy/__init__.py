"""Copying ranges: reader, judge, writer."""

from kafka_ferry.copy.copier import Limits, Outcome, copy_ranges
from kafka_ferry.copy.for_flow import copy_for_flow
from kafka_ferry.copy.outcomes import OutcomeFiles, outcomes_from_json, outcomes_to_json
from kafka_ferry.copy.takeover import fence_writers
from kafka_ferry.copy.writer import Failure

__all__ = [
    "Failure",
    "Limits",
    "Outcome",
    "OutcomeFiles",
    "copy_for_flow",
    "copy_ranges",
    "fence_writers",
    "outcomes_from_json",
    "outcomes_to_json",
]
