"""Compares records without a key where the target's topic alone is compacted. Pure.

No later record replaces them: each is compared by its content. The target's cleaner removes them all the same, and
the copy lacks them then. Where the source compacts the topic too, its cleaner removes them in its own time: what
only one side has says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafka_ferry.audit.comparison.entries import Booleans, Entries, Integers, all_but
from kafka_ferry.groups.alignment.record_digests import NO_KEY


def have_no_key(entries: Entries) -> Booleans:
    """Which records have a null key."""
    is_keyless: Booleans = entries.keys == NO_KEY
    return is_keyless


@dataclass(frozen=True, slots=True)
class KeylessRecords:
    """Records without a key; of those that are alike, the last one.

    Attributes:
        entries: by ascending digest.
        counts: how many there are of each.
    """

    entries: Entries = field(default_factory=Entries.of)
    counts: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    def and_more(self, more: Entries) -> KeylessRecords:
        """These and later ones."""
        if not len(more):
            return self
        both = Entries.concat([self.entries, more])
        counts = np.concatenate([self.counts, np.ones(len(more), np.int64)])
        _, last, which = np.unique(both.digests[::-1], return_index=True, return_inverse=True)
        sums = np.bincount(which, weights=counts[::-1]).astype(np.int64)
        return KeylessRecords(both.at(len(both) - 1 - last), sums)


@dataclass(frozen=True, slots=True)
class KeylessCompared:
    """The result.

    Attributes:
        matched: how many are the same on both sides.
        missing: the source's records that the target has less often.
        more: the target's records that the source has too, but less often.
        origins: where on the source the last one like each of ``more`` is.
        foreign: the target's records that the source does not have.
    """

    matched: int
    missing: Entries
    more: Entries
    origins: Integers
    foreign: Entries


def compare_keyless(ours: KeylessRecords, theirs: KeylessRecords) -> KeylessCompared:
    """Compare the source's records without a key with the target's."""
    _, i, j = np.intersect1d(
        ours.entries.digests, theirs.entries.digests, assume_unique=True, return_indices=True
    )
    our_counts, their_counts = ours.counts[i], theirs.counts[j]
    lacking = all_but(i[our_counts <= their_counts], len(ours))
    return KeylessCompared(
        matched=int(np.minimum(our_counts, their_counts).sum()),
        missing=ours.entries.at(lacking),
        more=theirs.entries.at(j[their_counts > our_counts]),
        origins=ours.entries.offsets[i[their_counts > our_counts]],
        foreign=theirs.entries.at(all_but(j, len(theirs))),
    )
