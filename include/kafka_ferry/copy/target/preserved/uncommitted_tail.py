"""Records on the target after a position: an earlier attempt wrote them and did not commit.

Their offsets are correct, because each answer's was checked; whether they still are what the source
holds is checked against the source, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_ferry.batches import (
    Batch,
    ConvertedBatch,
    MalformedBatch,
    Reason,
    Record,
    Rejected,
    by_runs,
    read_records,
    records_of,
    restore,
    set_aside,
)
from kafka_ferry.batches.converted_batch import within
from kafka_ferry.errors import FerryError
from kafka_ferry.model.positions import ProducerState
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.plan.offsets.producer_sequence import Trail
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import stored_batches

# A record that the source had at an offset, and no longer has.
_REMOVED: Final = frozenset({Reason.COMPACTED, Reason.LOST})


class Misplaced(FerryError):
    """The log of a remote topic holds something else than the flow would write there.

    Attributes:
        offset: the first such offset.
        is_own: whether the partition's own producer has written it, in an attempt that did not commit.
    """

    def __init__(self, message: str, *, offset: int, is_own: bool = False) -> None:
        super().__init__(message)
        self.offset, self.is_own = offset, is_own


class Adopted(NamedTuple):
    """A converted batch whose records the target already holds.

    Attributes:
        converted_batches: the converted batch, in pieces of one run each, as it is on the target.
        letters: records that the target may have refused, since it holds nothing for them.
        batches: the target's batches that were read for it, in order; a batch that it shares with the
            next converted batch is not counted twice.
    """

    converted_batches: Sequence[ConvertedBatch]
    letters: Sequence[Rejected]
    batches: Sequence[Batch]


class Ahead:
    """The records of one target partition from a position to the log's end.

    Attributes:
        end: the log's end.
        expired_to: where the log begins, as far as known: records below are gone.

    Args:
        cluster: the target; no answers may be pending on its connections.
        partition: the partition on the target.
        start: the position.
        end: the log's end.
        producer: the flow's producer there, as of ``start``.
        is_compacted: whether log compaction on the target may have removed records since.
        may_be_refused: whether records that the target refused may be missing. Where it compacts, nothing tells one
            from a record that was removed since: to be in the dead letter topic too is the lesser evil.
    """

    def __init__(
        self,
        cluster: WireCluster,
        partition: TopicPartition,
        start: int,
        end: int,
        producer: ProducerState,
        *,
        is_compacted: bool = False,
        may_be_refused: bool = False,
    ) -> None:
        self.end = end
        self.expired_to = 0
        self._cluster = cluster
        self._partition = partition
        self._at = start
        self._producer = producer
        self._is_compacted = is_compacted
        self._may_be_refused = may_be_refused
        self._trail: Trail | None = None
        self._batches: Iterator[Batch] | None = None
        self._left: list[Record] = []
        self._read: list[Batch] = []
        # Where control batches lie: no cleaner has put them there.
        self._filled: set[int] = set()

    def adopt(self, converted: ConvertedBatch) -> Adopted:
        """Compare ``converted``, which joins the last one and ends at the log's end at most, with the target.

        Raises:
            Misplaced: if the target holds anything other than the converted batch.
            FerryError: if the target cannot be read.
        """
        existing, wanted = self._take(converted.end), records_of(converted)
        read, self._read = self._read, []
        removed = self._require_the_sources(converted, existing, wanted)
        if removed:
            converted = restore(converted, removed)
        offsets = {record[0] for record in existing}
        gone = [record[0] for record in wanted if record[0] not in offsets]
        gone = [offset for offset in gone if offset >= self.expired_to]
        letters: Sequence[Rejected] = ()
        if gone and self._may_be_refused:
            converted, letters = set_aside(converted, gone)
        elif lost := [at for at in gone if not self._is_compacted or at in self._filled]:
            message = "it holds nothing where the source has a record."
            # Foreign records would have been found before.
            raise Misplaced(message, offset=lost[0], is_own=True)
        return Adopted(tuple(by_runs(converted)), letters, read)

    def _require_the_sources(
        self, converted: ConvertedBatch, existing: Iterable[Record], wanted: Iterable[Record]
    ) -> list[Record]:
        """The offsets in ``existing`` that the source has compacted away or deleted since.

        Raises:
            Misplaced: if the target holds records that the source never had.
        """
        has = {record[0]: record for record in wanted}
        removed = []
        for record in existing:
            offset = record[0]
            absent = next(within(converted.absent, offset, offset + 1), None)
            if absent and absent.reason in _REMOVED:
                removed.append(record)
            elif has.get(offset) != record:
                message = "it holds another record than the source has."
                raise Misplaced(message, offset=offset, is_own=True)
        return removed

    @property
    def next_sequence(self) -> int | None:
        """The sequence number after the last record, None where no batch says."""
        return self._trail.expected if self._trail else None

    @property
    def epoch(self) -> int:
        """The epoch of the flow's own producer after the last record."""
        return (self._trail.producer if self._trail else self._producer).epoch

    def _take(self, until: int) -> list[Record]:
        """The records below the offset ``until`` that were not taken yet."""
        taken: list[Record] = []
        while True:
            below = [record for record in self._left if record[0] < until]
            taken += below
            self._left = self._left[len(below) :]
            if self._left or self._at >= min(until, self.end):
                return taken
            self._left = retry(self._next)

    def _next(self) -> list[Record]:
        """The records of the next batch; none at the log's end, or where only the log's end is left."""
        if self._batches is None:
            log = partition_log(self._cluster, self._partition)
            self.expired_to = log.start
            if self._trail is None or self.expired_to > self._at:
                self._trail = Trail(
                    self._producer, self._at, self.expired_to, is_compacted=self._is_compacted
                )
            self._at = max(self._at, self.expired_to)
            self._batches = stored_batches(self._cluster, log, self._at, self.end)
        try:
            batch = next(self._batches, None)
        except FerryError:
            # In any case the leader may have moved: nothing more is read from this one.
            self._batches = None
            raise
        if batch is None:
            self._at = self.end
            return []
        first, self._at = self._at, batch.header.next_offset
        try:
            return self._ours(batch, first)
        except MalformedBatch as error:
            raise Misplaced(f"it holds {error}.", offset=first) from error

    def _ours(self, batch: Batch, first: int) -> list[Record]:
        assert self._trail is not None
        if problem := self._trail.problem(batch.header):
            raise Misplaced(problem, offset=batch.header.base_offset)
        if batch.header.is_control:
            self._filled.add(batch.header.base_offset)
            return []
        self._read.append(batch)
        return [record for record in read_records(batch) if record[0] >= first]
