"""What lies on the target behind a position: records that an earlier attempt wrote and did not come to seal.

Their offsets are right, because each answer's was checked; whether they still are what the source
holds is for the reader of the source to say, record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.batches import Batch, MalformedBatch, Record, next_sequence, read_records
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.patience import patiently
from kafka_ferry.plan.positions import ProducerState
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.wire import WireCluster, log_start
from kafka_ferry.wire.scan import stored_batches

_UNKNOWN: Final = -1


class Misplaced(FerryError):
    """The log of a remote topic holds what this flow has not written there.

    Attributes:
        offset: the first such offset.
    """

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class Ahead:
    """The records of one target partition from a position to the log's end.

    Attributes:
        end: the log's end.
        is_compacted: whether records may have been removed since.
        expired_to: where the log begins, as far as that is known: what was below is gone.

    Args:
        cluster: the target; no answers may be due on its connections.
        node: the broker that leads the partition.
        partition: the partition on the target.
        start: the position.
        end: the log's end.
        producer: the flow's producer there, as of ``start``.
        is_compacted: as the attribute.
    """

    def __init__(
        self,
        cluster: WireCluster,
        node: int,
        partition: TopicPartition,
        start: int,
        end: int,
        producer: ProducerState,
        *,
        is_compacted: bool = False,
    ) -> None:
        self.end = end
        self.expired_to = 0
        self._cluster = cluster
        self._node = node
        self._partition = partition
        self._at = start
        self._producer = producer
        self.is_compacted = is_compacted
        self._expected = producer.sequence
        self._batches: Iterator[Batch] | None = None
        self._left: list[Record] = []

    def take(self, until: int) -> list[Record]:
        """The records below the offset ``until`` that were not taken yet.

        Raises:
            Misplaced: if another producer wrote one of them, or ours at another time.
            FerryError: if the target cannot be read.
        """
        taken: list[Record] = []
        while True:
            below = [record for record in self._left if record[0] < until]
            taken += below
            self._left = self._left[len(below) :]
            if self._left or self._at >= min(until, self.end):
                return taken
            self._left = patiently(self._next)

    def _next(self) -> list[Record]:
        """The records of the next batch; none where the log ends, or where only its end is left."""
        if self._batches is None:
            self.expired_to = log_start(self._cluster, self._node, self._partition)
            if self.expired_to > self._at:
                self._at, self._expected = self.expired_to, _UNKNOWN
            self._batches = stored_batches(
                self._cluster, self._node, self._partition, self._at, self.end
            )
        try:
            batch = next(self._batches, None)
        except ClusterUnreachable:
            self._batches = None
            raise
        if batch is None:
            self._at = self.end
            return []
        first, self._at = self._at, batch.header.next_offset
        try:
            return [] if batch.header.is_control else self._ours(batch, first)
        except MalformedBatch as error:
            raise Misplaced(f"it holds {error}.", offset=first) from error

    def _ours(self, batch: Batch, first: int) -> list[Record]:
        header = batch.header
        if (header.producer_id, header.producer_epoch) != (
            self._producer.producer_id,
            self._producer.epoch,
        ):
            raise Misplaced(
                f"another producer (id {header.producer_id}) has written to it.",
                offset=header.base_offset,
            )
        begun = next_sequence(header.base_sequence, max(0, first - header.base_offset))
        if self._expected not in (_UNKNOWN, begun) and not self.is_compacted:
            raise Misplaced(
                f"sequence number {begun} of the flow's own producer stands where "
                f"{self._expected} belongs: a writer that was taken for dead has written again.",
                offset=header.base_offset,
            )
        self._expected = next_sequence(header.base_sequence, header.last_offset_delta + 1)
        return [record for record in read_records(batch) if record[0] >= first]
