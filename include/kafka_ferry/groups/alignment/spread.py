"""How far another mirror has copied a topic whose records it wrote to other partitions. Pure.

MirrorMaker 1 lets the target's producer choose the partition by key, and anywhere for records without
one. Then no partition of the target is a copy of one of the source's, but the topic as a whole can be
compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kafka_ferry.groups.alignment.align import Alignment, LogRecords, Misaligned
from kafka_ferry.groups.alignment.record_digests import Digests, Offsets


def align_spread(
    sources: Mapping[int, LogRecords],
    targets: Sequence[LogRecords],
    positions: Mapping[int, int | None],
    *,
    compacted: bool = False,
) -> dict[int, Alignment]:
    """Where to continue in each partition of the source: after the records that the target has without a gap.

    Single records are not matched. Records that were copied out of order after that point are counted
    as ``doubled``: they will be copied again. Of a compacted topic those are all after the position: where the mirror
    was killed in a replay, an older record of a key may be the newest there.

    Args:
        sources: the topic's partitions on the source.
        targets: those on the target.
        positions: the next offset that the other mirror would copy of each; None where it says nothing.
        compacted: whether one of the two topics is compacted.

    Raises:
        Misaligned: records that it has copied are missing, or there are foreign ones.
    """
    counts = _Counts(np.concatenate([target.digests for target in targets]))
    every = np.concatenate([source.digests for source in sources.values()])
    # Other mirrors write some records twice; but each of them was at an offset of its own.
    unknown = int((~np.isin(counts.digests, every)).sum())
    if unknown > sum(source.start for source in sources.values()):
        number, offset = next(
            (number, int(offsets[0]))
            for number, target in enumerate(targets)
            if len(offsets := target.offsets[~np.isin(target.digests, every)])
        )
        raise Misaligned(
            f"{unknown} of its records are not the source's, such as the one at offset {offset} of its partition "
            f"{number}"
        )
    deleted = sum(target.start for target in targets)
    for number, source in sources.items():
        position = positions.get(number)
        before = source.below(position or 0)
        copied = source.only(np.arange(len(source)) < before)
        missing = counts.take(copied.digests)
        missing = missing[~copied.aborted[missing]]
        deleted -= len(missing)
        if deleted < 0:
            raise Misaligned(
                f"the position of the other mirror in partition {number} is {position}, but "
                f"{len(missing)} of the source's records are not there, the first at offset "
                f"{copied.offsets[missing[0]]}"
            )
    alignments = {}
    for number, source in sources.items():
        alignment = _after(source, positions.get(number), counts, compacted=compacted)
        if alignment:
            alignments[number] = alignment
    return alignments


def _after(
    source: LogRecords, position: int | None, counts: _Counts, *, compacted: bool
) -> Alignment | None:
    """Where to continue after the position; None if nothing says that anything was copied."""
    at = source.below(position or 0)
    after = source.digests[at:]
    missing = counts.take(after)
    more = 0 if compacted else int(missing[0]) if len(missing) else len(after)
    if position is None and not more:
        return None
    last = at + more - 1
    end = max(position or 0, int(source.offsets[last]) + 1) if last >= 0 else position or 0
    epoch = int(source.leader_epochs[last]) if last >= 0 else -1
    doubled = len(after) - more - len(missing)
    is_compared = len(counts.digests) > 0
    return Alignment(end, end, doubled=doubled, leader_epoch=epoch, is_compared=is_compared)


class _Counts:
    """How many records there are of each digest, without those that were already matched."""

    def __init__(self, digests: Digests) -> None:
        self.digests, self._left = np.unique(digests, return_counts=True)

    def take(self, wanted: Digests) -> Offsets:
        """Take a record for each of ``wanted``; returns the indices of those for which there is none."""
        if not len(self.digests):
            return np.arange(len(wanted))
        places = np.minimum(np.searchsorted(self.digests, wanted), len(self.digests) - 1)
        known = np.flatnonzero(self.digests[places] == wanted)
        at = places[known]
        # The number of each one among those with its digest.
        order = np.argsort(at, kind="stable")
        ordered = at[order]
        nth = np.empty(len(at), np.int64)
        nth[order] = np.arange(len(at)) - np.searchsorted(ordered, ordered)
        taken = known[nth < self._left[at]]
        np.subtract.at(self._left, places[taken], 1)
        return np.setdiff1d(np.arange(len(wanted)), taken)
