"""Two partitions and the ledger between them as lists, to compare offset maps with what a reader gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from kafka_ferry.batches import SegmentList
from kafka_ferry.ledger import CopiedRange

Log = list[int | None]
"""At each offset a record, as its number, or None where no consumer sees one."""


def a_range(
    start: int, end: int, segments: Iterable[tuple[int, int, int]] = (), **more: object
) -> CopiedRange:
    """A range of the ledger of which only the offsets matter."""
    runs = SegmentList()
    for source, target, records in segments:
        runs.add([(source, records)], target)
    fields: dict[str, object] = {
        "topic": "orders",
        "topic_id": "orders' id",
        "partition": 0,
        "remote_topic": "primary.orders",
        "remote_topic_id": "primary.orders' id",
        "start": start,
        "end": end,
        "records": sum(records for _, _, records in runs),
        "bytes": 0,
        "batches": 1,
        "segments": tuple(runs),
        "digest": "",
    }
    return CopiedRange.model_validate(fields | more)


@dataclass
class Mirror:
    """A source partition, the remote one and what the ledger says.

    Attributes:
        source: the source's log.
        target: the target's log.
        ranges: the ledger.
        position: the next source offset to copy.
        there: where on the target each record of the source was copied to: by source offset.
    """

    source: Log = field(default_factory=list)
    target: Log = field(default_factory=list)
    ranges: list[CopiedRange] = field(default_factory=list)
    position: int = 0
    there: dict[int, int] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    # --- on the source

    def write(self, records: int) -> None:
        """Records, without a transaction."""
        self.source += [next(self.numbers) for _ in range(records)]

    def abort(self, records: int) -> None:
        """Records whose transaction is aborted, and its marker."""
        self.source += [None] * (records + 1)

    def commit(self, records: int) -> None:
        """Records of a transaction, and its marker."""
        self.write(records)
        self.source.append(None)

    def compact(self, every: int) -> None:
        """What the cleaner takes, whether it was copied or not."""
        self.source = [None if at % (every + 2) == 1 else it for at, it in enumerate(self.source)]

    def expire(self, offsets: int) -> None:
        """What retention takes, whether it was copied or not."""
        taken = min(offsets, len(self.source))
        self.source[:taken] = [None] * taken

    # --- copying

    def copy(self, offsets: int) -> None:
        """One transaction of the flow's."""
        self._copy(self.position, min(self.position + offsets, len(self.source)))

    def break_off(self, records: int) -> None:
        """An attempt that is aborted on the target."""
        self.target += [None] * (records + 1)

    def begin_at_end(self, _: int) -> None:
        """The first run begins with what is new."""
        if not self.ranges:
            self.position = len(self.source)

    def copy_earlier(self, offsets: int) -> None:
        """What lies before the first range is copied after all."""
        if self.ranges and (start := min(copied.start for copied in self.ranges)):
            position = self.position
            self._copy(max(0, start - offsets), start)
            self.position = position

    def cut(self, offsets: int) -> None:
        """The source's log is truncated below what was copied, goes on, and is copied from there."""
        if self.ranges and self.position > max(r.start for r in self.ranges):
            position = self.position
            back = max(position - offsets, min(r.start for r in self.ranges))
            del self.source[back:]
            self.there = {at: target for at, target in self.there.items() if at < back}
            self.write(offsets % 3)
            self._copy(back, len(self.source), rewound_from=position)

    def copy_by_another(self, offsets: int) -> None:
        """Another mirror copies on, of which the ledger knows nothing, and the flow goes on after it."""
        self._copy(self.position, min(self.position + offsets, len(self.source)), is_ours=False)

    def _copy(self, start: int, end: int, *, rewound_from: int = -1, is_ours: bool = True) -> None:
        segments = []
        for at in range(start, end):
            if self.source[at] is not None:
                segments.append((at, len(self.target), 1))
                self.there[at] = len(self.target)
                self.target.append(self.source[at])
        if segments:
            self.target.append(None)
        if is_ours:
            self.ranges.append(a_range(start, end, segments, rewound_from=rewound_from))
        self.position = end

    # --- reading

    def unread(self, offset: int) -> list[int | None]:
        """What was copied and a group that has committed ``offset`` on the source has not read, in order."""
        return [self.target[self.there[at]] for at in sorted(self.there) if at >= offset]

    def unread_on_target(self, offset: int) -> list[int | None]:
        """The same of an offset on the target, in the order of the source."""
        return [self.target[t] for at, t in sorted(self.there.items()) if t >= offset]


def read(log: Log, offset: int) -> list[int]:
    """What a consumer reads from ``offset`` on."""
    return [record for record in log[offset:] if record is not None]


@dataclass
class TwoWay:
    """A topic that applications write on both clusters, and two flows that copy it, each the other's opposite.

    Attributes:
        here: one log.
        there: the other one.
        to_there: the ledger of the flow from here.
        to_here: the ledger of the flow from there.
    """

    here: Log = field(default_factory=list)
    there: Log = field(default_factory=list)
    to_there: list[CopiedRange] = field(default_factory=list)
    to_here: list[CopiedRange] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def write_here(self, records: int) -> None:
        """Records of an application."""
        self.here += [next(self.numbers) for _ in range(records)]

    def write_there(self, records: int) -> None:
        """Records of an application on the other cluster."""
        self.there += [next(self.numbers) for _ in range(records)]

    def copy_there(self, offsets: int) -> None:
        """One transaction of the flow from here, without what the other flow has brought."""
        self._copy(self.here, self.there, self.to_there, self.to_here, offsets)

    def copy_here(self, offsets: int) -> None:
        """The same the other way round."""
        self._copy(self.there, self.here, self.to_here, self.to_there, offsets)

    @staticmethod
    def _copy(
        source: Log, target: Log, ledger: list[CopiedRange], opposite: list[CopiedRange], most: int
    ) -> None:
        start = ledger[-1].end if ledger else 0
        end = min(start + most, len(source))
        segments = []
        returned = {t for r in opposite for _, at, n in r.segments for t in range(at, at + n)}
        for at in range(start, end):
            if source[at] is not None and at not in returned:
                segments.append((at, len(target), 1))
                target.append(source[at])
        if segments:
            target.append(None)
        ledger.append(a_range(start, end, segments))
