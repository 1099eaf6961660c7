"""How transactions end that are open where a reader stands: by the markers after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_ferry.batches import is_abort_marker, split_batches
from kafka_ferry.batches.aborted_transactions import LONGEST_APPEND
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.absence import LogAnswers
from kafka_ferry.wire.partitions.fetch import Expected, Fetched, corrupt_in, fetch_one
from kafka_ferry.wire.partitions.list_offsets import high_watermarks
from kafka_ferry.wire.partitions.read_ahead import NEAR_S

_FIRST_BYTES: Final = 256 * 1024
# Two answers, which end before a batch that is too long for them, have ``LONGEST_APPEND``.
_MOST_BYTES: Final = 9 * 1024 * 1024


def fates_after(
    cluster: WireCluster,
    node: int,
    partition: TopicPartition,
    start: int,
    undecided: Mapping[int, int],
    *,
    topic_id: str = "",
) -> dict[int, bool]:
    """Whether transactions were aborted, by producer.

    A transaction's marker tells, or a list of aborted ones that reaches far enough from ``start`` on to be
    complete (``TransactionFates``); one that nothing is found of was committed.

    Args:
        cluster: the cluster, with no request on its way to ``node``.
        node: the broker that leads the partition.
        partition: the partition.
        start: an offset after the transactions' first records, and before their markers.
        undecided: by producer, the offset of the first record.
        topic_id: the id that the topic must still have, "" for any.

    Raises:
        CorruptBatch: on bytes that are no valid batch.
        FerryError: if the partition cannot be read.
    """
    return _Lookahead(cluster, node, partition, start, undecided, Expected(topic_id)).fates()


class _Lookahead:
    def __init__(
        self,
        cluster: WireCluster,
        node: int,
        partition: TopicPartition,
        start: int,
        undecided: Mapping[int, int],
        expected: Expected,
    ) -> None:
        self._cluster, self._node, self._partition = cluster, node, partition
        self._expected = expected
        self._at = start
        self._left = dict(undecided)
        self._fates: dict[int, bool] = dict.fromkeys(undecided, False)
        self._bytes = 0

    def fates(self) -> dict[int, bool]:
        while self._left and self._goes_on(committed=True):
            if self._bytes >= LONGEST_APPEND:
                return self._fates
        if self._left:
            # Another transaction is open: it hides markers after its first record, and lists end there.
            end = high_watermarks(self._cluster, {self._partition: self._node})[self._partition]
            while self._left and self._at < end and self._goes_on(committed=False):
                pass
        return self._fates

    def _goes_on(self, *, committed: bool) -> bool:
        """Read on; whether there was something."""
        # Of a broker that is far away, a longer answer costs less than another one.
        is_far = self._cluster.connection(self._node).round_trip_s >= NEAR_S
        least = _MOST_BYTES if is_far else _FIRST_BYTES

        def ask(at: int, max_wait_ms: int) -> Fetched:
            return fetch_one(
                self._cluster,
                self._node,
                self._partition,
                at,
                max_bytes=min(max(least, self._bytes), _MOST_BYTES),
                max_wait_ms=max_wait_ms,
                committed=committed,
                expected=self._expected,
            )

        before = self._at
        answers = LogAnswers(self._cluster, self._node, self._partition, ask, self._expected)
        fetched, self._at = answers.at(before)
        for entry in fetched.aborted:
            if entry.first_offset <= self._left.get(entry.producer_id, -1):
                self._decide(entry.producer_id, is_aborted=True)
        with corrupt_in(self._partition, self._cluster.alias):
            for batch in split_batches(fetched.records):
                header = batch.header
                if header.base_offset < before:
                    continue
                self._at = header.next_offset
                self._bytes += header.size
                if header.is_control and header.records and header.producer_id in self._left:
                    self._decide(header.producer_id, is_aborted=is_abort_marker(batch))
        return self._at > before

    def _decide(self, producer: int, *, is_aborted: bool) -> None:
        del self._left[producer]
        self._fates[producer] = is_aborted
