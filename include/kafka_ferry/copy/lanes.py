"""What a writer knows of each target partition while a transaction is open."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from kafka_ferry.batches import Passage, RangeDigest, SegmentList
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.plan import Range


@dataclass(slots=True)
class Sent:
    """A passage on its way; ``base_offset`` is where the target stored its batch, once it says so."""

    passage: Passage
    base_offset: int | None = None


@dataclass(slots=True)
class Tally:
    """What the open transaction holds of one range."""

    start: int
    end: int
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    rebuilt: Counter[str] = field(default_factory=Counter)
    segments: SegmentList = field(default_factory=SegmentList)
    digest: RangeDigest = field(default_factory=RangeDigest)

    def add(self, sent: Sent) -> None:
        """Count a passage whose outcome is known."""
        passage = sent.passage
        self.end = passage.end
        self.reasons.update({str(reason): count for reason, count in passage.reasons.items()})
        if passage.rebuilt:
            self.rebuilt[str(passage.rebuilt)] += 1
        if passage.batch and sent.base_offset is not None:
            self.records += passage.batch.header.records
            self.bytes += passage.batch.header.size
            self.batches += 1
            self.segments.add(passage.runs, sent.base_offset)
            self.digest.add(passage.batch)


@dataclass(slots=True)
class Lane:
    """One target partition: what waits, what is on its way, what the transaction holds."""

    node: int
    range: Range | None
    remote_topic_id: str
    sequence: int = 0
    in_transaction: bool = False
    waiting: deque[Passage] = field(default_factory=deque)
    sent: deque[Sent] = field(default_factory=deque)
    tally: Tally | None = None

    def settle(self) -> None:
        """Account for everything at the head whose outcome is known."""
        while self.sent and (
            self.sent[0].passage.batch is None or self.sent[0].base_offset is not None
        ):
            head = self.sent.popleft()
            if self.tally is None:
                self.tally = Tally(head.passage.start, head.passage.start)
            self.tally.add(head)

    def copied(self) -> CopiedRange:
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
        )
