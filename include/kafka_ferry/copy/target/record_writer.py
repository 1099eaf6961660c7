"""What differs between the write protocols: how the batches of ranges get into remote topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.copy.target.produce.partition_queue import PartitionQueue
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.wire import PartitionLeader


class RecordWriter(Protocol):
    """Writes the batches of ranges, for a ``Transaction`` that commits what was written."""

    def forget(self) -> None:
        """Drop what is in flight, before a take-over."""

    def queue_of(self, leader: PartitionLeader, range_: Range) -> PartitionQueue:
        """A new queue for a partition of the target."""

    def resume(
        self, positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Position]:
        """Prepare to write after ``positions``, by *target* partition; returns the resulting positions."""

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        """See ``Writer.write``."""

    def send(self) -> None:
        """See ``Writer.send``."""

    def drain(self) -> None:
        """Write all that was accepted, and check what is about to be committed."""

    def after_commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Do what follows a commit, which has moved the positions of these *source* partitions."""
