"""What a run will do: names on the target, positions, ranges, the plan. Pure."""

from kafka_ferry.model.cluster_state import Found, LogBounds, Mark, Topic
from kafka_ferry.model.plan import (
    AdvisedAcl,
    Creation,
    Estimate,
    Growth,
    Note,
    OffsetsChoice,
    Plan,
    Refusal,
    Risk,
    Skipped,
    read_plan,
    save_plan,
)
from kafka_ferry.model.positions import Position, ProducerState, position_group
from kafka_ferry.model.ranges import Range, TopicPartition, writer_of
from kafka_ferry.model.run_options import ORDINARY, RunOptions, Window
from kafka_ferry.plan.planning import make_plan
from kafka_ferry.plan.policies import policy_of
from kafka_ferry.plan.selection import Selection, select, select_topics

__all__ = [
    "ORDINARY",
    "AdvisedAcl",
    "Creation",
    "Estimate",
    "Found",
    "Growth",
    "LogBounds",
    "Mark",
    "Note",
    "OffsetsChoice",
    "Plan",
    "Position",
    "ProducerState",
    "Range",
    "Refusal",
    "Risk",
    "RunOptions",
    "Selection",
    "Skipped",
    "Topic",
    "TopicPartition",
    "Window",
    "make_plan",
    "policy_of",
    "position_group",
    "read_plan",
    "save_plan",
    "select",
    "select_topics",
    "writer_of",
]
