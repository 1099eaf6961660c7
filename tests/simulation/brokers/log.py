"""A partition's log as its leader has it: batches, epochs, transactions, producers (``UnifiedLog`` in Kafka)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

from kafka_ferry.batches import Batch, read_records, split_batches
from kafka_ferry.batches.record_format.content import Content, key_value_of
from kafka_ferry.batches.record_format.records import dense_batch

NONE: Final = 0
OUT_OF_ORDER_SEQUENCE: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
COORDINATOR_FENCED: Final = 52
_CONTROL: Final = 0x30
_REMEMBERED: Final = 5


class Stored(NamedTuple):
    """A batch in a log, with its bytes as they are sent."""

    base: int
    next: int
    batch: Batch
    bytes: bytes


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, its marker's, and the last stable offset in the broker's index."""

    producer: int
    first: int
    marker: int
    stable: int


@dataclass
class Producer:
    """What a log knows of a producer.

    Attributes:
        recent: the sequences and base offset of its last batches.
        open_from: where its open transaction begins; -1 for none.
    """

    epoch: int = -1
    recent: list[tuple[int, int, int]] = field(default_factory=list)
    coordinator_epoch: int = -1
    open_from: int = -1
    at_ms: int = 0


@dataclass
class Log:
    """A log; everything in it is replicated.

    Attributes:
        start: the first offset that consumers may ask for.
        end: the high watermark.
        epochs: each leader epoch with the offset at which it begins.
        tried: by producer, the epoch and the lowest sequence with which it has begun a transaction here, until the
            leader has accepted a batch of it (``VerificationStateEntry``).
        remote_to: what is before is in remote storage only.
        as_source: gives the value that a record had on the source, where a rule has changed some.
    """

    start: int = 0
    end: int = 0
    stored: list[Stored] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    aborted: list[Aborted] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)
    tried: dict[int, tuple[int, int]] = field(default_factory=dict)
    epoch: int = 0
    remote_to: int = 0
    as_source: Callable[[bytes | None], bytes | None] | None = None

    @property
    def stable(self) -> int:
        """The last stable offset."""
        open_ = [it.open_from for it in self.producers.values() if it.open_from >= 0]
        return max(self.start, min(open_)) if open_ else self.end

    def begin(self, batch: Batch) -> None:
        """Note a transactional batch before the coordinator is asked whether its transaction has the partition."""
        header = batch.header
        known = self.producers.get(header.producer_id)
        if known and known.open_from >= 0:
            return
        asked = header.producer_epoch, header.base_sequence
        epoch, lowest = self.tried.setdefault(header.producer_id, asked)
        if header.producer_epoch > epoch or (header.producer_epoch, lowest) > (epoch, asked[1]):
            self.tried[header.producer_id] = asked

    def append(self, batch: Batch, now_ms: int) -> tuple[int, int]:
        """Append a producer's batch; gives Kafka's error code and the base offset."""
        header = batch.header
        if header.producer_id >= 0:
            code, known = self._check(header.producer_id, batch)
            if code or known >= 0:
                return code, known
            self.tried.pop(header.producer_id, None)
        base = self.end
        self._place(batch)
        self._note(self.stored[-1], now_ms)
        return NONE, base

    def _check(self, producer_id: int, batch: Batch) -> tuple[int, int]:
        """An error code; or where the batch is already; or 0 and -1 (``ProducerAppendInfo``)."""
        header, known = batch.header, self.producers.get(producer_id)
        if header.base_sequence > self.tried.get(producer_id, (-1, header.base_sequence))[1]:
            return OUT_OF_ORDER_SEQUENCE, -1
        if known is None or known.epoch < 0:
            return NONE, -1
        if header.producer_epoch < known.epoch:
            return INVALID_PRODUCER_EPOCH, -1
        last = header.base_sequence + header.records - 1
        if header.producer_epoch > known.epoch:
            return (OUT_OF_ORDER_SEQUENCE if header.base_sequence else NONE), -1
        for first, end, base in known.recent:
            if (first, end) == (header.base_sequence, last):
                return NONE, base
        if known.recent and header.base_sequence != known.recent[-1][1] + 1:
            return OUT_OF_ORDER_SEQUENCE, -1
        if not known.recent and header.base_sequence:
            return OUT_OF_ORDER_SEQUENCE, -1
        return NONE, -1

    def mark(
        self, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, now_ms: int
    ) -> int:
        """Append a transaction's marker; gives Kafka's error code."""
        known = self.producers.get(producer_id, Producer())
        if epoch < known.epoch:
            return INVALID_PRODUCER_EPOCH
        if coordinator_epoch < known.coordinator_epoch:
            return COORDINATOR_FENCED
        key = struct.pack(">hh", 0, int(commit))
        content = Content(key, struct.pack(">hi", 0, coordinator_epoch)).encode()
        batch = dense_batch([(0, now_ms, b"\0", content)], 0)
        header = batch.header._replace(
            attributes=_CONTROL, producer_id=producer_id, producer_epoch=epoch, base_sequence=-1
        )
        self._place(Batch(header, batch.payload).with_crc())
        self._note(self.stored[-1], now_ms)
        return NONE

    def _place(self, batch: Batch) -> None:
        header = batch.header._replace(base_offset=self.end, leader_epoch=self.epoch)
        placed = Batch(header, batch.payload)
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs.append((self.epoch, self.end))
        self.stored.append(Stored(self.end, header.next_offset, placed, placed.encode()))
        self.end = header.next_offset

    def _note(self, stored: Stored, now_ms: int) -> None:
        """Keep what a batch says of its producer."""
        header = stored.batch.header
        if header.producer_id < 0:
            return
        known = self.producers.setdefault(header.producer_id, Producer())
        known.at_ms = now_ms
        if header.producer_epoch != known.epoch:
            known.recent.clear()
        known.epoch = header.producer_epoch
        if header.is_control:
            (_, _, _, content), *_ = read_records(stored.batch)
            key, value = key_value_of(content)
            assert key and value
            known.coordinator_epoch = struct.unpack(">hi", value)[1]
            first, known.open_from = known.open_from, -1
            if first >= 0 and not struct.unpack(">hh", key)[1]:
                stable = min(self.stable, stored.next)
                self.aborted.append(Aborted(header.producer_id, first, stored.base, stable))
            return
        last = header.base_sequence + header.records - 1
        known.recent = [*known.recent, (header.base_sequence, last, stored.base)][-_REMEMBERED:]
        if header.is_transactional and known.open_from < 0:
            known.open_from = stored.base

    def elect(self, *, lose_from: int | None = None) -> None:
        """Begin a new leader epoch; unclean where the new leader lacks the log from an offset on."""
        if lose_from is not None and lose_from < self.end:
            self.cut(lose_from)
        self.tried.clear()
        self.epoch += 1

    def as_now(self) -> Log:
        """A copy that stays as it is."""
        return replace(
            self,
            stored=[*self.stored],
            epochs=[*self.epochs],
            aborted=[*self.aborted],
            producers={of: replace(it, recent=[*it.recent]) for of, it in self.producers.items()},
            tried={},
        )

    def cut(self, at: int) -> None:
        """Lose the batches that end after ``at``, and what the log knew from them."""
        self.stored = [it for it in self.stored if it.next <= at]
        self.end = max(self.stored[-1].next if self.stored else 0, self.start)
        self.epochs = [it for it in self.epochs if it[1] < self.end]
        self.aborted = [it for it in self.aborted if it.marker < self.end]
        self.producers = {}
        aborted, self.aborted = self.aborted, []
        for stored in self.stored:
            self._note(stored, stored.batch.header.max_timestamp)
        self.aborted = aborted or self.aborted

    def put_back(self, branch: Iterable[Stored]) -> None:
        """Have batches again, of earlier leader epochs, that follow what is there."""
        for stored in branch:
            epoch = stored.batch.header.leader_epoch
            if not self.epochs or self.epochs[-1][0] != epoch:
                self.epochs.append((epoch, stored.base))
            self.stored.append(stored)
            self.end = stored.next
            self._note(stored, stored.batch.header.max_timestamp)

    def move_start(self, to: int) -> None:
        """Delete the records before an offset."""
        self.start = max(self.start, min(to, self.end))
        self.stored = [it for it in self.stored if it.next > self.start]
        self.aborted = [it for it in self.aborted if it.marker >= self.start]
        # The epoch of the first record begins there by now (``LeaderEpochFileCache.truncateFromStart``).
        before = [epoch for epoch, began in self.epochs if began <= self.start]
        later = self.epochs[len(before) :]
        self.epochs = [*((epoch, self.start) for epoch in before[-1:]), *later]

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to ``epoch`` and where it ends; (-1, -1) where there is none (KIP-101)."""
        if epoch == self.epoch:
            return epoch, self.end
        if epoch > self.epoch:
            return -1, -1
        before = [it for it in self.epochs if it[0] <= epoch]
        if not before:
            return (epoch, self.epochs[0][1]) if self.epochs else (-1, -1)
        later = [it for it in self.epochs if it[0] > epoch]
        return before[-1][0], later[0][1] if later else self.end

    def read(self, offset: int, limit: int, *, committed: bool) -> tuple[bytes, int]:
        """The batches from the one that holds ``offset`` on, at least one, and where they end."""
        end, at, size = self.stable if committed else self.end, offset, 0
        pieces: list[bytes] = []
        for it in self.stored:
            if it.next <= offset:
                continue
            if it.base >= end or (pieces and size + len(it.bytes) > limit):
                break
            pieces.append(it.bytes)
            size += len(it.bytes)
            at = it.next
        return b"".join(pieces), at

    def aborted_in(self, offset: int, end: int) -> list[Aborted]:
        """The aborted transactions in ``[offset, end)`` of what was read, as ``TransactionIndex`` lists them."""
        found = []
        for it in self.aborted:
            if it.marker >= offset and it.first < end:
                found.append(it)
            if it.stable >= end:
                break
        return found

    def index_as_follower(self) -> None:
        """Have the index of a replica that got all of the log at once (``findNextIncompleteTxn``).

        For it no later transaction of the same producer is open where an aborted one ends.
        """
        open_ = {of: it.open_from for of, it in self.producers.items() if it.open_from >= 0}
        for at, it in enumerate(self.aborted):
            others = [first for of, first in open_.items() if of != it.producer]
            others += [to.first for to in self.aborted[at + 1 :] if to.producer != it.producer]
            self.aborted[at] = it._replace(stable=min(others, default=self.end))

    def next_sequence(self, producer: int) -> int:
        """The sequence of a producer's next batch."""
        known = self.producers.get(producer)
        return known.recent[-1][1] + 1 if known and known.recent else 0

    def at_time(self, time_ms: int) -> tuple[int, int]:
        """The first record at or after a time, and its time; (-1, -1) for none."""
        for it in self.stored:
            if it.batch.header.max_timestamp >= time_ms:
                for offset, timestamp, _, _ in read_records(it.batch):
                    if timestamp >= time_ms and offset >= self.start:
                        return offset, timestamp
        return -1, -1

    def compact(self, upto: int) -> list[tuple[int, bytes | None]]:
        """Remove older records of a key before ``upto``; gives what was removed."""
        last: dict[bytes | None, int] = {}
        clean = min(upto, self.stable)
        for it in self.stored:
            if not it.batch.header.is_control and it.next <= clean:
                for offset, _, _, content in read_records(it.batch):
                    last[key_value_of(content)[0]] = offset
        removed: list[tuple[int, bytes | None]] = []
        kept = []
        for it in self.stored:
            if it.batch.header.is_control or it.next > clean or self._is_aborted(it):
                kept.append(it)
                continue
            records = read_records(it.batch)
            stays = [it for it in records if last[key_value_of(it[3])[0]] == it[0]]
            gone = [it for it in records if last[key_value_of(it[3])[0]] != it[0]]
            lost = {offset for offset, _, _, _ in gone}
            removed += [of for of in self._values(it) if of[0] in lost]
            if gone and stays:
                kept.append(_rewritten(it, stays))
            elif stays:
                kept.append(it)
        self.stored = kept
        return removed

    def _is_aborted(self, stored: Stored) -> bool:
        producer = stored.batch.header.producer_id
        return any(
            it.producer == producer and it.first <= stored.base < it.marker for it in self.aborted
        )

    def shown(self) -> list[tuple[int, bytes | None]]:
        """What a read_committed consumer sees, told by the markers alone: offsets and values."""
        return [of for of in self.unaborted() if of[0] < self.stable]

    def unaborted(self) -> list[tuple[int, bytes | None]]:
        """Offsets and values of the records that no marker says are aborted."""
        return [
            of
            for it in self.stored
            if not (it.batch.header.is_transactional and self._is_aborted(it))
            for of in self._values(it)
        ]

    def records(self) -> list[tuple[int, bytes | None]]:
        """What a read_uncommitted consumer sees: offsets and values."""
        return [of for it in self.stored for of in self._values(it)]

    def open_records(self, producer: int) -> list[bytes | None]:
        """The values in a producer's open transaction."""
        known = self.producers.get(producer)
        first = known.open_from if known else -1
        mine = [it for it in self.stored if it.batch.header.producer_id == producer]
        return [value for it in mine if 0 <= first <= it.base for _, value in self._values(it)]

    def _values(self, stored: Stored) -> list[tuple[int, bytes | None]]:
        values = _values_in(stored.bytes)
        if self.as_source:
            values = [(at, self.as_source(value)) for at, value in values]
        return values if self.start <= stored.base else [it for it in values if it[0] >= self.start]


@lru_cache(20_000)
def _values_in(batch: bytes) -> list[tuple[int, bytes | None]]:
    (found,) = split_batches(batch)
    if found.header.is_control:
        return []
    return [(at, key_value_of(it)[1]) for at, _, _, it in read_records(found)]


def _rewritten(stored: Stored, records: Sequence[tuple[int, int, bytes, bytes]]) -> Stored:
    """A batch that the cleaner has left with some of its records."""
    old = stored.batch.header
    made = dense_batch(records, 0, deltas=[it[0] - old.base_offset for it in records])
    header = made.header._replace(
        base_offset=old.base_offset,
        leader_epoch=old.leader_epoch,
        attributes=old.attributes & ~0x07,
        last_offset_delta=old.last_offset_delta,
        producer_id=old.producer_id,
        producer_epoch=old.producer_epoch,
        base_sequence=old.base_sequence,
    )
    batch = Batch(header, made.payload).with_crc()
    return Stored(stored.base, stored.next, batch, batch.encode())
