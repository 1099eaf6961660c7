"""The incarnations of a partition: histories in which no offset may be missing and none copied twice. Pure.

A topic that is recreated, on the source or on the target, begins a new incarnation, and so does a source's
log that was truncated below what had been copied (KIP-101)::

    the log that was copied   [0 ............ 60 ...... 100)
    the truncated log         [0 ............ 60 .. 75)      rewound_from = 100

The new incarnation keeps what was copied below the truncation; the lost branch is an incarnation of its
own, ``[60, 100)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.verify.rows import UNKNOWN, RangeRow

Key = tuple[TopicPartition, str, TopicPartition, str]
"""Source partition, its topic's id, target partition, its topic's id."""
NOTHING: Final[Mapping[Key, int]] = MappingProxyType({})


@dataclass(slots=True)
class Incarnation:
    """One incarnation of one partition.

    Attributes:
        source: the partition on the source.
        target: the partition on the target.
        spans: the source offsets ``(start, end)`` of its ranges, in the ledger's order.
        end: where its last range ends.
        ledger_offset: of its last range.
        left_at: the position from which it was set back, -1 unless it is a lost branch.
        preserved: whether its records keep their offsets.
        verified_to: where what was verified before ends, -1 where nothing was.
    """

    source: TopicPartition
    target: TopicPartition
    spans: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    ledger_offset: int = 0
    left_at: int = UNKNOWN
    preserved: bool = False
    verified_to: int = UNKNOWN

    def add(self, row: RangeRow) -> None:
        """Continue with the range of ``row``."""
        self.spans.append((row.start, row.end))
        self.end = row.end
        self.ledger_offset = row.ledger.ledger_offset
        self.preserved = row.preserved

    def cut(self, offset: int, left_at: int) -> Incarnation:
        """Keep what is below ``offset``, and return the rest as the lost branch."""
        lost = [(max(start, offset), end) for start, end in self.spans if end > offset]
        branch = replace(self, spans=lost, left_at=left_at, verified_to=UNKNOWN)
        self.verified_to = min(self.verified_to, offset)
        self.spans = [(start, min(end, offset)) for start, end in self.spans if start < offset]
        return branch


def incarnations(
    ranges: Iterable[RangeRow], verified: Mapping[Key, int] = NOTHING
) -> list[Incarnation]:
    """The incarnations of all partitions; each partition's newest one comes last.

    Args:
        ranges: the ranges, in any order.
        verified: where what was verified before ``ranges`` ends.
    """
    current: dict[Key, Incarnation] = {}
    branches: list[Incarnation] = []
    for row in sorted(ranges, key=lambda row: (row.ledger.ledger_offset, row.start)):
        key = (row.source, row.topic_id, row.target, row.remote_topic_id)
        new = Incarnation(row.source, row.target, verified_to=verified.get(key, UNKNOWN))
        incarnation = current.setdefault(key, new)
        if row.ledger.rewound_from != UNKNOWN:
            branches.append(incarnation.cut(row.start, row.ledger.rewound_from))
        incarnation.add(row)
    # Without ranges: another run has verified the lost branch already.
    known = [branch for branch in branches if branch.spans]
    return sorted([*known, *current.values()], key=lambda incarnation: incarnation.ledger_offset)
