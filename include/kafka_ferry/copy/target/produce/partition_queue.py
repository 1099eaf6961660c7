"""A writer's state for each target partition while a transaction is open."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import ClassVar

from kafka_ferry.batches import Batch, ConvertedBatch, RangeDigest, Reason, SegmentList
from kafka_ferry.batches.epochs import EpochSpan, add_span
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.model import Position, Range


@dataclass(slots=True)
class Outgoing:
    """A converted batch in flight to a target partition.

    Attributes:
        converted: the converted batch.
        range: the range that it belongs to or is written for; None for the flow's own records.
        base_offset: where the target stored its batch, once known.
        adopted: whether an earlier attempt had written its records.
    """

    converted: ConvertedBatch
    range: Range | None = None
    base_offset: int | None = None
    adopted: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is known."""
        return self.converted.batch is None or self.base_offset is not None

    @property
    def size(self) -> int:
        """The size of its batch in bytes."""
        return self.converted.batch.header.size if self.converted.batch else 0


@dataclass(slots=True)
class RangeTally:
    """What the open transaction holds of one range.

    Attributes:
        rewound_from: the position before it was set back to ``start``, -1 where it was not.
        adopted: records that an earlier attempt had written.
        epochs: the leader epochs of its batches.
    """

    start: int
    end: int
    rewound_from: int = -1
    leader_epoch: int = -1
    last_crc: int = -1
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    rebuilt: Counter[str] = field(default_factory=Counter)
    segments: SegmentList = field(default_factory=SegmentList)
    adopted: int = 0
    rule_counts: Counter[str] = field(default_factory=Counter)
    digest: RangeDigest = field(default_factory=RangeDigest)
    lost: list[tuple[int, int]] = field(default_factory=list)
    epochs: list[EpochSpan] = field(default_factory=list)

    def add(self, out: Outgoing) -> None:
        """Count a converted batch whose outcome is known."""
        converted = out.converted
        self.end = converted.end
        self.leader_epoch = converted.leader_epoch
        self.last_crc = converted.last_crc
        if converted.leader_epoch >= 0 and converted.start < converted.end:
            add_span(self.epochs, EpochSpan(converted.start, converted.end, converted.leader_epoch))
        self.reasons.update({str(reason): count for reason, count in converted.reasons.items()})
        self.rebuilt.update({str(why): count for why, count in converted.rebuilt.items()})
        self.rule_counts.update(converted.rule_counts)
        self.lost += [
            (absent.first, absent.end)
            for absent in converted.absent
            if absent.reason == Reason.LOST
        ]
        if converted.batch and out.base_offset is not None:
            self.records += converted.batch.header.records
            self.segments.add(converted.runs, out.base_offset)
            if out.adopted:
                self.adopted += converted.batch.header.records
            else:
                self.add_stored(converted.batch)

    @property
    def is_of_one_epoch(self) -> bool:
        """Whether ``leader_epoch`` is that of all of its batches."""
        return [span.epoch for span in self.epochs] in ([], [self.leader_epoch])

    def add_stored(self, batch: Batch) -> None:
        """Count a batch as the target stores it."""
        self.bytes += batch.header.size
        self.batches += 1
        self.digest.add(batch)


@dataclass(slots=True)
class PartitionQueue:
    """One target partition: what waits, what is in flight, what the transaction holds.

    Attributes:
        node: the broker that leads it.
        range: the range that is copied into it; None for the ledger and the dead letter topic.
        remote_topic_id: its topic's id.
        position: the range's position when the writer took over, -1 where it had none.
        stored_to: the offset after the last batch that the target has stored since the writer took over.
        is_transactional: whether its batches belong to the writer's transaction.
    """

    is_transactional: ClassVar[bool] = True

    node: int
    range: Range | None
    remote_topic_id: str
    position: int = -1
    sequence: int = 0
    stored_to: int = 0
    in_transaction: bool = False
    waiting: deque[Outgoing] = field(default_factory=deque)
    sent: deque[Outgoing] = field(default_factory=deque)
    tally: RangeTally | None = None

    def next_to_send(self) -> Outgoing | None:
        """Take what waits at the head; converted batches without records are settled in passing."""
        while self.waiting and self.waiting[0].converted.batch is None:
            self.sent.append(self.waiting.popleft())
        self.settle()
        if not self.waiting:
            return None
        out = self.waiting.popleft()
        self.sent.append(out)
        return out

    def note_stored(self, out: Outgoing, base_offset: int) -> bool:
        """Note where the target has stored a batch; returns whether that is after all that it had stored before."""
        assert out.converted.batch is not None
        is_after = base_offset >= self.stored_to
        out.base_offset = base_offset
        self.stored_to = base_offset + out.converted.batch.header.records
        self.settle()
        return is_after

    def settle(self) -> None:
        """Account for everything at the head whose outcome is known."""
        while self.sent and self.sent[0].is_settled:
            head = self.sent.popleft()
            if self.range:
                self.account(head)

    def account(self, out: Outgoing) -> None:
        """Count the outcome of a converted batch of the range."""
        if self.tally is None:
            start = out.converted.start
            self.tally = RangeTally(start, start, self.position if start < self.position else -1)
            self.position = -1
        self.tally.add(out)

    def position_after(self) -> Position:
        """The range's position with what the open transaction holds of it, at least something."""
        assert self.tally is not None
        return Position(self.tally.end, leader_epoch=self.tally.leader_epoch)

    def forget(self) -> None:
        """Forget the content of a transaction that has ended."""
        self.tally = None
        self.waiting.clear()
        self.sent.clear()

    def copied_range(self) -> CopiedRange:
        """What the open transaction holds of the range, for the ledger."""
        range_, tally = self.range, self.tally
        assert range_ is not None and tally is not None
        return CopiedRange(
            topic=range_.topic,
            topic_id=range_.topic_id,
            partition=range_.partition,
            remote_topic=range_.remote_topic,
            remote_topic_id=self.remote_topic_id,
            start=tally.start,
            end=tally.end,
            records=tally.records,
            bytes=tally.bytes,
            batches=tally.batches,
            reasons=dict(tally.reasons),
            rebuilt=dict(tally.rebuilt),
            segments=tuple(tally.segments),
            digest=tally.digest.hexdigest(),
            lost=tuple(tally.lost),
            leader_epoch=tally.leader_epoch,
            last_crc=tally.last_crc,
            epochs=() if tally.is_of_one_epoch else tuple(tally.epochs),
            rewound_from=tally.rewound_from,
            adopted=tally.adopted,
            origins=range_.origins,
            begin=range_.begin if tally.start == range_.start else "",
            transform=range_.transform,
            schema_ids=range_.schema_ids,
            rule_counts=dict(tally.rule_counts),
        )
