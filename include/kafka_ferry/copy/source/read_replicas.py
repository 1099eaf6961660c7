"""Which broker to ask for a partition: its leader, or the replica in our own rack that the leader names (KIP-392)."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from kafka_ferry.model.ranges import TopicPartition

# As long as the Java consumer's metadata.max.age.ms: the leader may know of a nearer replica by then.
_NAMED_S: Final = 300.0
# For so long a replica that had not what its leader has is left alone.
_LEFT_S: Final = 60.0


class ReadReplica(NamedTuple):
    """A broker to ask, and the rack to ask from: "" is answered by the leader itself."""

    node: int
    rack: str


class ReadReplicas:
    """Whom to ask for each partition.

    What another replica than the leader says is believed only where it gives records: it may be late, or
    have a log that it has yet to truncate. All else is the leader's to say.

    Args:
        rack: where this process runs (``client.rack``); "" to read from leaders alone.
    """

    def __init__(self, rack: str = "") -> None:
        self._rack = rack
        self._leaders: dict[TopicPartition, int] = {}
        self._named: dict[TopicPartition, tuple[int, float]] = {}
        self._left_until: dict[TopicPartition, float] = {}

    def __contains__(self, partition: object) -> bool:
        """Whether the leader is known."""
        return partition in self._leaders

    def note_leader(self, partition: TopicPartition, leader: int) -> None:
        """Store who leads a partition."""
        self._leaders[partition] = leader

    def note_replica(self, partition: TopicPartition, replica: int) -> None:
        """Store which replica a partition's leader has named."""
        self._named[partition] = replica, time.monotonic() + _NAMED_S

    def to_ask(self, partition: TopicPartition) -> ReadReplica:
        """Whom to ask for a partition whose leader is known."""
        now = time.monotonic()
        node, until = self._named.get(partition, (-1, 0.0))
        if now < until:
            return ReadReplica(node, self._rack)
        left = now < self._left_until.get(partition, 0.0)
        return ReadReplica(self._leaders[partition], "" if left else self._rack)

    def leave(self, partition: TopicPartition) -> bool:
        """Ask the leader from now on; returns whether it was another replica that was asked."""
        if not self._named.pop(partition, None):
            return False
        self._left_until[partition] = time.monotonic() + _LEFT_S
        return True

    def forget(self, partition: TopicPartition) -> None:
        """Look the leader up again."""
        self.leave(partition)
        self._leaders.pop(partition, None)
