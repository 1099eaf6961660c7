"""The records that the target lacks, and that a person has accepted as missing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kafka_ferry.batches import Segment
from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.ledger.queries.copied_ranges import spans_beside
from kafka_ferry.ledger.rows import LedgerEnd, LedgerRange
from kafka_ferry.plan.backfill.windows import Span, gaps, merge_spans

if TYPE_CHECKING:
    from kafka_ferry.ledger.copied_range import CopiedRange
    from kafka_ferry.ledger.record import AcceptedRange
    from kafka_ferry.ledger.table import LedgerTable
    from kafka_ferry.model.ranges import TopicPartition


class AcceptedLoss(NamedTuple):
    """What the target lacks of a range.

    Attributes:
        entry: the range in the ledger.
        places: where these records were, as segments: ascending on the source.
        reason: why they are left so, in a person's words.
    """

    entry: LedgerRange
    places: tuple[Segment, ...]
    reason: str

    @property
    def sources(self) -> list[Span]:
        """Their offsets on the source."""
        return [(source, source + records) for source, _, records in self.places]

    @property
    def targets(self) -> list[Span]:
        """Their offsets on the target."""
        return [(target, target + records) for _, target, records in self.places]


def accepted_losses(ledger: LedgerTable, *, lasting: bool = False) -> Iterator[AcceptedLoss]:
    """The losses that people have accepted, by the newest decision on each range.

    Args:
        ledger: the flow's ledger, projected.
        lasting: whether to leave out the records that a repair has appended since.
    """
    accepted = {key: it for key, it in accepted_ranges(ledger).items() if it.missing}
    offsets = sorted({offset for offset, *_ in accepted})
    for entry in chain.from_iterable(ledger.ranges_within(at, at + 1) for at in offsets):
        if not (known := accepted.get(entry.key)):
            continue
        places = _places(entry.copied.segments, known.missing)
        if lasting:
            again = (it for span in spans_beside(ledger, entry) for it in span.segments)
            places = _without(places, merge_spans((it[0], it[0] + it[2]) for it in again))
        yield AcceptedLoss(entry, tuple(places), known.reason)


def accepted_cuts(
    ledger: LedgerTable, ends: Mapping[TopicPartition, LedgerEnd]
) -> frozenset[TopicPartition]:
    """The *target* partitions whose last record is missing as a person has accepted.

    Of a range whose missing records are not all named, the last one may be among them.

    Args:
        ledger: the flow's ledger, projected.
        ends: where the ledger has the partitions' ends.
    """
    accepted = accepted_ranges(ledger) if ends else {}
    offsets = sorted({offset for offset, *_ in accepted})
    ranges = chain.from_iterable(ledger.ranges_within(at, at + 1) for at in offsets)
    return frozenset(
        entry.target
        for entry in ranges
        if entry.target in ends
        and ends[entry.target].offset == entry.copied.target_end
        and (known := accepted.get(entry.key))
        and _lacks_end(entry.copied, known)
    )


def _lacks_end(copied: CopiedRange, accepted: AcceptedRange) -> bool:
    if accepted.missing_count(0) < copied.records - accepted.records:
        return True
    return bool(accepted.missing) and accepted.missing[-1][1] >= copied.target_end


def _places(segments: Iterable[Segment], missing: Sequence[Span]) -> Iterator[Segment]:
    """The parts of ``segments`` whose *target* offsets are ``missing``, which ascend."""
    ends = [end for _, end in missing]
    for source, target, records in segments:
        for first, last in missing[bisect_right(ends, target) :]:
            if first >= target + records:
                break
            start = max(first, target)
            yield Segment(start - target + source, start, min(last, target + records) - start)


def _without(places: Iterable[Segment], sources: Sequence[Span]) -> Iterator[Segment]:
    """The parts of ``places`` whose source offsets are not among ``sources``, which ascend."""
    for source, target, records in places:
        for start, end in gaps(sources, (source, source + records)):
            yield Segment(start, start - source + target, end - start)
