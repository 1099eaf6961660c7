"""Which records of a range the target lacks, one by one. Pure.

A source offset is missing if the ledger says that it has a record, and the target has none at any of the offsets
that the ledger names for it. Below the log's start a record has expired, and is not missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafka_ferry.batches import Segment

Span = tuple[int, int]
"""``[start, end)`` of offsets."""


def missing_offsets(
    claims: Iterable[Segment], copied_again: Iterable[Segment], present: Sequence[Span]
) -> list[Span]:
    """The source offsets whose records the target lacks, ascending and disjoint.

    Args:
        claims: where the records of a range are on the target, by the ledger.
        copied_again: where other ranges of the ledger have records of the same source offsets.
        present: the *target* offsets that have a record or have expired.
    """
    present_again = [
        span for segment in copied_again for span in _sources(segment, present, inside=True)
    ]
    lacking = [span for segment in claims for span in _sources(segment, present, inside=False)]
    return [span for gap in lacking for span in without(gap, sorted(present_again))]


def without(span: Span, excluded: Sequence[Span]) -> list[Span]:
    """What is left of a span, ascending; ``excluded`` ascend."""
    left, at = [], span[0]
    for start, end in excluded:
        if end <= at or start >= span[1]:
            continue
        if start > at:
            left.append((at, start))
        at = end
    if at < span[1]:
        left.append((at, span[1]))
    return left


def spans_of(offsets: Iterable[int]) -> list[Span]:
    """Ascending offsets as spans."""
    spans: list[Span] = []
    for offset in offsets:
        if spans and spans[-1][1] == offset:
            spans[-1] = (spans[-1][0], offset + 1)
        else:
            spans.append((offset, offset + 1))
    return spans


def _sources(segment: Segment, present: Sequence[Span], *, inside: bool) -> list[Span]:
    """The source offsets of a segment whose target offsets are among ``present``, or are not."""
    source, target, records = segment
    absent = without((target, target + records), present)
    spans = without((target, target + records), absent) if inside else absent
    return [(start - target + source, end - target + source) for start, end in spans]
