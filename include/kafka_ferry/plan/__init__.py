"""What a run will do: names on the target, positions, ranges, the plan. Pure."""

from kafka_ferry.plan.make_plan import make_plan
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.plan.topics.topic_filter import select, select_topics, selection_of

__all__ = ["make_plan", "policy_of", "select", "select_topics", "selection_of"]
