"""What a run will do: names on the target, positions, ranges, the plan. Pure."""

from kafka_ferry.plan.facts import LogBounds, Topic
from kafka_ferry.plan.plan import Creation, Growth, Plan, Refusal, Skipped, read_plan, save_plan
from kafka_ferry.plan.planning import Found, make_plan, policy_of, select_topics
from kafka_ferry.plan.positions import Position, position_group
from kafka_ferry.plan.ranges import Range, TopicPartition, writer_of

__all__ = [
    "Creation",
    "Found",
    "Growth",
    "LogBounds",
    "Plan",
    "Position",
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
