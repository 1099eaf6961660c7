"""The types that all parts share: topics, partitions, ranges, positions, changes and the plan. Pure."""

from kafka_ferry.model.cluster_state import ClusterState, LogBounds, Mark, Topic
from kafka_ferry.model.plan import (
    AdvisedAcl,
    Creation,
    Estimate,
    Growth,
    OffsetsChoice,
    Plan,
    read_plan,
    save_plan,
)
from kafka_ferry.model.positions import Position, ProducerState, position_group
from kafka_ferry.model.ranges import Range, TopicPartition, writer_of
from kafka_ferry.model.remarks import Note, Refusal, Risk, Skipped
from kafka_ferry.model.run_options import ORDINARY, RunOptions, Window

__all__ = [
    "ORDINARY",
    "AdvisedAcl",
    "ClusterState",
    "Creation",
    "Estimate",
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
    "Skipped",
    "Topic",
    "TopicPartition",
    "Window",
    "position_group",
    "read_plan",
    "save_plan",
    "writer_of",
]
