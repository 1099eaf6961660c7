"""Which source offsets a backfill looks at, and which records of them the target has. Pure.

A backfill is for the records of a window of time that lie below the flow's position and that the
ledger does not know::

    offsets    [0 ......... lo ............ hi ...... position .... end)
                            |               |         |
                            |               |         from here the flow's own runs copy, in order
                            |               a record so new that no older one is expected after it
                            the first record that is not older than the window

What is settled in ``[lo, hi)`` is two-dimensional: an ordinary range settles its offsets for all
timestamps, a backfill's range only for those of its window.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final

from kafka_ferry.model.ranges import Settled
from kafka_ferry.model.run_options import Window

BEGINNING: Final = -(2**63)
"""Before every timestamp."""
FOREVER: Final = 2**63 - 1
"""After every timestamp."""

Span = tuple[int, int]
"""``[start, end)``, of offsets or of timestamps."""


@dataclass(frozen=True, slots=True)
class Accounted:
    """A range of the ledger, as what it settles until the source's log is truncated.

    Attributes:
        start: the first source offset.
        end: the offset after the last one.
        window: the timestamps that a backfill was for; None for an ordinary range.
        is_rewind: whether the position was set back to ``start``: what had been copied from there on
            is of a branch that the source has lost.
    """

    start: int
    end: int
    window: Window | None = None
    is_rewind: bool = False


def settled_spans(ranges: Iterable[Accounted]) -> list[Settled]:
    """What ``ranges``, of one partition and in the ledger's order, have settled."""
    settled: list[Settled] = []
    for range_ in ranges:
        if range_.is_rewind:
            settled = [
                Settled(piece.start, min(piece.end, range_.start), piece.since, piece.until)
                for piece in settled
                if piece.start < range_.start
            ]
        since, until = BEGINNING, FOREVER
        if range_.window:
            since, until = range_.window.since_ms, range_.window.until_ms
        if range_.start < range_.end:
            settled.append(Settled(range_.start, range_.end, since, until))
    return settled


def within(settled: Iterable[Settled], offsets: Span, window: Window) -> tuple[Settled, ...]:
    """What is settled of ``offsets`` and ``window``: ascending, each offset and timestamp once."""
    clipped = _clip(settled, offsets, (window.since_ms, window.until_ms))
    pieces: list[Settled] = []
    for (start, end), times in _elementary(clipped):
        for since, until in times:
            pieces.append(Settled(start, end, since, until))
    return tuple(_join(pieces))


def hull(settled: Iterable[Settled], offsets: Span, window: Window) -> Span | None:
    """From the first of ``offsets`` that is not settled for all of ``window`` to after the last one.

    Args:
        settled: as ``within`` gives it, for the same offsets and window.
        offsets: the offsets.
        window: the window.

    Returns:
        None where all of them are settled.
    """
    start, end = offsets
    whole = list(whole_spans(settled, window))
    if whole and whole[0][0] <= start:
        start = whole[0][1]
    if whole and whole[-1][1] >= end:
        end = whole[-1][0]
    return (start, end) if start < end else None


def whole_spans(settled: Iterable[Settled], window: Window) -> Iterator[Span]:
    """The offsets that are settled for all of ``window``, of what ``within`` gives; ascending."""
    spans = [
        (piece.start, piece.end)
        for piece in settled
        if piece.since <= window.since_ms and window.until_ms <= piece.until
    ]
    return iter(merge_spans(spans))


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The spans, ascending and disjoint; spans that touch are one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def gaps(spans: Iterable[Span], offsets: Span) -> list[Span]:
    """The parts of ``offsets`` that are in none of ``spans``, which ascend and may overlap."""
    at, end = offsets
    parts: list[Span] = []
    for start, after in spans:
        if at < min(start, end):
            parts.append((at, min(start, end)))
        at = max(at, after)
    return [*parts, (at, end)] if at < end else parts


def common(left: Sequence[Span], right: Sequence[Span]) -> int:
    """How many offsets are in both; each ascending and disjoint."""
    at = count = 0
    for start, end in left:
        while at < len(right) and right[at][1] <= start:
            at += 1
        following = at
        while following < len(right) and right[following][0] < end:
            count += min(end, right[following][1]) - max(start, right[following][0])
            following += 1
    return count


def _clip(settled: Iterable[Settled], offsets: Span, times: Span) -> Iterator[Settled]:
    for piece in settled:
        start, end = max(piece.start, offsets[0]), min(piece.end, offsets[1])
        since, until = max(piece.since, times[0]), min(piece.until, times[1])
        if start < end and since < until:
            yield Settled(start, end, since, until)


def _elementary(settled: Iterable[Settled]) -> Iterator[tuple[Span, list[Span]]]:
    """Spans of offsets in which no range begins or ends, each with the timestamps that are settled there."""
    by_times: dict[Span, list[Span]] = defaultdict(list)
    for piece in settled:
        by_times[piece.since, piece.until].append((piece.start, piece.end))
    edges: dict[int, Counter[Span]] = defaultdict(Counter)
    for times, spans in by_times.items():
        # The ledger has a range for each transaction, and most of them join.
        for start, end in merge_spans(spans):
            edges[start][times] += 1
            edges[end][times] -= 1
    active: Counter[Span] = Counter()
    places = sorted(edges)
    for start, end in pairwise(places):
        active.update(edges[start])
        if open_ := [times for times, count in active.items() if count]:
            yield (start, end), merge_spans(open_)


def _join(pieces: Iterable[Settled]) -> Iterator[Settled]:
    """Pieces with the same timestamps become one where their offsets touch."""
    times = attrgetter("since", "until")
    joined = [
        Settled(start, end, *key)
        for key, same in groupby(sorted(pieces, key=lambda it: (times(it), it)), key=times)
        for start, end in merge_spans((piece.start, piece.end) for piece in same)
    ]
    return iter(sorted(joined))
