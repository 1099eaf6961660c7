"""Which batches of a fetch response belong to aborted transactions.

The algorithm is the Java consumer's (``org.apache.kafka.clients.consumer.internals.CompletedFetch``):
a broker lists, for the offsets it returned, each aborted transaction's producer and first offset;
the transaction ends at that producer's abort marker.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from kafka_ferry.batches.record_format.header import Batch, BatchHeader, MalformedBatch
from kafka_ferry.batches.record_format.records import read_records
from kafka_ferry.batches.record_format.varint import decode_varint

_MARKER_KEY: Final = struct.Struct(">hh")
# Kafka's have 17.
_MARKER_BYTES: Final = 1024
# org.apache.kafka.common.record.ControlRecordType
_ABORT: Final = 0
_COMMIT: Final = 1
# What a follower appends at a time: by default 1 MiB of a partition, 10 MiB of all, or one batch
# (replica.fetch.max.bytes, replica.fetch.response.max.bytes).
LONGEST_APPEND: Final = 16 * 1024 * 1024
_T = TypeVar("_T")


class AbortedTransaction(NamedTuple):
    """An entry of a fetch response's list of aborted transactions."""

    producer_id: int
    first_offset: int


class AbortFilter:
    """Tells, batch by batch in log order, what a ``read_committed`` consumer would not see.

    One filter serves one fetch response.

    Args:
        aborted: the broker's list for the response.
        fates: what is known of producers before it; without it the list is taken to be complete.

    Attributes:
        unlisted: transactions whose abort marker was shown, and whose records the list let pass.
        undecided: by producer, the first record that the list let pass of a transaction whose marker was
            not shown, where the list may be wrong.
        end: the offset after the last batch that was shown.
    """

    def __init__(
        self, aborted: Iterable[AbortedTransaction], fates: TransactionFates | None = None
    ) -> None:
        self.unlisted: list[AbortedTransaction] = []
        self.undecided: dict[int, int] = {}
        self.end = 0
        self._ahead = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open: set[int] = set()
        self._fates = fates

    def is_aborted(self, batch: Batch) -> bool:
        """Whether ``batch`` is data of an aborted transaction; control batches never are.

        Every batch of the response must be shown, the control batches too: markers end transactions.

        Raises:
            MalformedBatch: if a marker that matters cannot be read.
        """
        header = batch.header
        while self._ahead and self._ahead[-1].first_offset < header.next_offset:
            self._open.add(self._ahead.pop().producer_id)
        if self._fates:
            self.end = max(self.end, header.next_offset)
            self._fates.read(header)
        if header.is_control:
            self._end(batch)
            return False
        if not header.is_transactional:
            return False
        if header.producer_id in self._open:
            return True
        if self._fates and header.records and self._fates.may_be_unlisted(header.producer_id):
            self.undecided.setdefault(header.producer_id, header.base_offset)
        return False

    def _end(self, marker: Batch) -> None:
        producer = marker.header.producer_id
        if producer not in self._open and producer not in self.undecided:
            is_abort = False
        elif not marker.header.records:
            return  # The cleaner may have emptied it.
        else:
            is_abort = is_abort_marker(marker)
        if is_abort:
            self._open.discard(producer)
        first = self.undecided.pop(producer, None)
        if is_abort and first is not None:
            self.unlisted.append(AbortedTransaction(producer, first))
        if self._fates:
            self._fates.note_end(marker.header, is_abort=is_abort)


class TransactionFates:
    """What one reader of a partition knows of its producers, where the brokers' lists fall short.

    A broker's list may lack an aborted transaction. It searches its index of them up to the first entry
    whose last stable offset is not before the end of the response
    (``TransactionIndex.collectAbortedTxns``). A follower computes that offset for all transactions that
    came in one of its own fetches, and leaves later ones of the same producer out
    (``ProducerStateManager.findNextIncompleteTxn``), so that it may be too high. Once such a replica
    leads, a transaction of a producer is not listed if one of its earlier ones was aborted, both were
    replicated together, and the response ends soon after. What never lies is the marker that follows.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._end = -1
        self._aborted_at: dict[int, int] = {}
        self._known: dict[int, tuple[int, bool]] = {}

    def decide(
        self,
        listed: Iterable[AbortedTransaction],
        judge: Callable[[AbortFilter], _T],
        look_ahead: Callable[[int, Mapping[int, int]], Mapping[int, bool]],
    ) -> _T:
        """What ``judge`` makes of a response, by a filter that knows all of its aborted transactions.

        Args:
            listed: the broker's list for the response.
            judge: shows a filter the response's batches; called again with a better one where the list
                was wrong.
            look_ahead: tells whether transactions were aborted, by producer, after an offset up to which
                all was read; it gets their first records' offsets by producer.
        """
        # What is known at the beginning counts each time: a marker of the response ends it for later ones.
        known = self._known
        listed = (*listed, *_aborts_in(known))
        while True:
            self._known = dict(known)
            aborted = AbortFilter(listed, self)
            result = judge(aborted)
            if aborted.unlisted:
                listed += tuple(aborted.unlisted)
            elif not aborted.undecided:
                return result
            else:
                fates = look_ahead(aborted.end, aborted.undecided)
                decided = {it: (at, fates[it]) for it, at in aborted.undecided.items()}
                if not any(fates.values()):
                    self._known |= decided
                    return result
                known = known | decided
                listed += tuple(_aborts_in(decided))

    def read(self, header: BatchHeader) -> None:
        """Note that a batch was read, maybe again."""
        if header.base_offset >= self._end:
            self._bytes += header.size
            self._end = header.next_offset

    def note_end(self, marker: BatchHeader, *, is_abort: bool) -> None:
        """Note that a producer's transaction ends at ``marker``."""
        producer = marker.producer_id
        if is_abort:
            self._aborted_at[producer] = self._bytes
        if producer in self._known and self._known[producer][0] < marker.base_offset:
            del self._known[producer]

    def may_be_unlisted(self, producer: int) -> bool:
        """Whether a list that says nothing of the producer's transaction may be wrong."""
        # What was aborted before the first batch that was read is not known.
        since = self._bytes - self._aborted_at.get(producer, 0)
        return producer not in self._known and since < LONGEST_APPEND


def _aborts_in(fates: Mapping[int, tuple[int, bool]]) -> Iterator[AbortedTransaction]:
    for producer, (first, is_aborted) in fates.items():
        if is_aborted:
            yield AbortedTransaction(producer, first)


def is_abort_marker(batch: Batch) -> bool:
    """Whether the first record's key says so: two numbers of 16 bits, version and type.

    Args:
        batch: a transaction's marker.

    Raises:
        MalformedBatch: if it does not say, as one that the cleaner has emptied.
    """
    records = read_records(batch, _MARKER_BYTES)
    if not records:
        raise MalformedBatch("a control batch without a record")
    content = records[0][3]
    length, at = decode_varint(content, 0)
    key = content[at : at + _MARKER_KEY.size]
    if length < _MARKER_KEY.size or len(key) < _MARKER_KEY.size:
        raise MalformedBatch("a control batch without a type")
    _, kind = _MARKER_KEY.unpack(key)
    if kind not in (_ABORT, _COMMIT):
        raise MalformedBatch(f"a control batch of type {kind} in a transaction")
    return bool(kind == _ABORT)
