"""Which offset syncs represent an offset map for MirrorMaker 2. Pure.

``OffsetSyncStore``, which reads them, answers from the newest sync ``(u, d)`` at or before an offset:
``d`` for ``u`` itself, ``d + 1`` for any offset after it; it keeps 64, which are further apart the
older they are. So

(a) a sync is only written for a record whose counterpart is exact and before the counterparts of all
    later records: then ``d + 1`` skips nothing that a group has not read;
(b) the last record has one, and the earlier ones are 2, 4, 8, ... offsets away from it: what the store
    would keep if each record had a sync;
(c) they ascend. Since the first one is after those of earlier runs, the store drops the latter, and with
    them everything about a history that was truncated.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_ferry.groups.mirrormaker2.record_formats import OffsetSync
from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.translation import OffsetMap


def offset_syncs(route: Route) -> list[OffsetSync]:
    """The offset syncs of a partition, in the order in which they are to be written."""
    pairs = dict(_pairs(route.map))
    return [OffsetSync(route.source, up, pairs[up]) for up in sorted(pairs)]


def _pairs(offsets: OffsetMap) -> Iterator[tuple[int, int]]:
    """Source and target offset of each record that is to have a sync."""
    last = _last(offsets)
    if last is None:
        return
    distance = 1
    while (wanted := last + 1 - distance) > offsets.start:
        yield from _at(offsets, wanted)
        distance *= 2
    yield from _at(offsets, offsets.start)


def _last(offsets: OffsetMap) -> int | None:
    """The last source offset after which there is a record; None where there is none."""
    end = offsets.translate(offsets.end)
    if end is None:
        return None
    # Answers ascend, so that the first one that is the end's can be searched for.
    low, high = offsets.start, offsets.end
    while low < high:
        middle = (low + high) // 2
        answer = offsets.translate(middle)
        if answer is not None and answer.offset < end.offset:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > offsets.start else None


def _at(offsets: OffsetMap, wanted: int) -> Iterator[tuple[int, int]]:
    """The first record at or after ``wanted``, if (a) holds for it."""
    translation = offsets.translate(wanted)
    here = None if translation is None else offsets.reverse(translation.offset)
    if translation is None or here is None:
        return
    answer, following = offsets.translate(here.offset), offsets.translate(here.offset + 1)
    if answer is None or following is None or answer.kind != "exact":
        return
    if answer.offset == translation.offset < following.offset:
        yield here.offset, translation.offset
