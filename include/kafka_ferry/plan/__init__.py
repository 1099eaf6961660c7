"""What a run will do: names on the target, positions, ranges, the plan. Pure."""

from kafka_ferry.plan.facts import Found, LogBounds, Mark, Topic
from kafka_ferry.plan.plan import (
    AdvisedAcl,
    Creation,
    Growth,
    Note,
    OffsetsChoice,
    Plan,
    Refusal,
    Skipped,
    read_plan,
    save_plan,
)
from kafka_ferry.plan.planning import make_plan
from kafka_ferry.plan.positions import Position, ProducerState, position_group
from kafka_ferry.plan.ranges import Range, TopicPartition, writer_of
from kafka_ferry.plan.selection import policy_of, select_topics

__all__ = [
    "AdvisedAcl",
    "Creation",
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
    "Skipped",
    "Topic",
    "TopicPartition",
    "make_plan",
    "policy_of",
    "position_group",
    "read_plan",
    "save_plan",
    "select_topics",
    "writer_of",
]
