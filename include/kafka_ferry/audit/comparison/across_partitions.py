"""Finds records in other partitions of the target than the source's. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kafka_ferry.audit.comparison.entries import Entries, Hashes, Integers, all_but
from kafka_ferry.audit.comparison.findings import Differing

ByPartition = Mapping[int, Entries]


@dataclass
class Elsewhere:
    """What is left of a topic's missing and foreign records once other partitions were searched.

    Attributes:
        moved: by source partition, records that are in another partition of the target.
        doubled: by source partition, records that another partition of the target has too.
        missing: by source partition, the records that no partition of the target has.
        foreign: by target partition, the records that no partition of the source has.
    """

    missing: dict[int, Entries]
    foreign: dict[int, Entries]
    moved: dict[int, list[Differing]] = field(default_factory=lambda: defaultdict(list))
    doubled: dict[int, list[Differing]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, missing: ByPartition, foreign: ByPartition) -> Elsewhere:
        """Pairs missing records with foreign ones of other partitions that have the same digest.

        Args:
            missing: by source partition.
            foreign: by target partition.
        """
        elsewhere = cls(dict(missing), dict(foreign))
        wanted = _digests(missing.values())
        waiting: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        for partition, entries in foreign.items():
            for place in np.flatnonzero(np.isin(entries.digests, wanted)).tolist():
                waiting[int(entries.digests[place])].append((partition, place))
        taken: dict[int, list[int]] = defaultdict(list)
        for partition, entries in missing.items():
            matched = []
            for place in np.flatnonzero(np.isin(entries.digests, list(waiting))).tolist():
                if candidates := waiting[int(entries.digests[place])]:
                    other, other_place = candidates.popleft()
                    offsets = (
                        int(entries.offsets[place]),
                        int(foreign[other].offsets[other_place]),
                    )
                    elsewhere.moved[partition].append(
                        Differing("altered", *offsets, ("partition",), other)
                    )
                    taken[other].append(other_place)
                    matched.append(place)
            elsewhere.missing[partition] = entries.at(all_but(matched, len(entries)))
        for partition, places in taken.items():
            entries = foreign[partition]
            elsewhere.foreign[partition] = entries.at(all_but(places, len(entries)))
        return elsewhere

    @property
    def unknown(self) -> Hashes:
        """The digests of the foreign records, to be located in all partitions of the source."""
        return np.unique(_digests(self.foreign.values()))

    def locate(self, offsets: Mapping[int, Integers]) -> None:
        """Tell which foreign records are copies of records in other partitions.

        Args:
            offsets: by source partition, where each digest of ``unknown`` was located, -1 for nowhere.
        """
        unknown = self.unknown
        for partition, entries in self.foreign.items():
            places = np.searchsorted(unknown, entries.digests)
            left = np.ones(len(entries), np.bool_)
            for origin, located in offsets.items():
                for place in np.flatnonzero(left & (located[places] >= 0)).tolist():
                    offset = int(located[places[place]]), int(entries.offsets[place])
                    self.doubled[origin].append(Differing("doubled", *offset, (), partition))
                    left[place] = False
            self.foreign[partition] = entries.at(left)


def _digests(parts: Iterable[Entries]) -> Hashes:
    return np.concatenate([np.empty(0, np.uint64), *(entries.digests for entries in parts)])
