"""A partition's records as arrays of digests, so that millions of them can be compared. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from kafka_ferry.batches.record_format.varint import encode_varint

Offsets = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

NO_KEY: Final = np.uint64(xxhash.xxh3_64_intdigest(encode_varint(-1)))
"""The digest of a null key, of which a record has only the length."""


@dataclass(frozen=True)
class LogRecords:
    """All records of a partition that a consumer can see, by their digests.

    Attributes:
        start: where the log starts.
        end: the offset after the last one that can be seen.
        offsets: of the records, ascending.
        digests: of each record's content and timestamp.
        aborted: which of them belong to aborted transactions.
        keys: digests of the keys; empty where nothing is compacted.
        tombstones: which of them have a null value; empty where nothing is compacted.
        leader_epochs: of their batches.
        markers: the offsets of transaction markers, which no consumer sees.
        first: the first offset that was read.
        bytes: bytes of the batches that were read, as compressed.
    """

    start: int
    end: int
    offsets: Offsets
    digests: Digests
    aborted: Mask
    leader_epochs: Offsets
    keys: Digests = field(default_factory=lambda: np.empty(0, np.uint64))
    tombstones: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    markers: Offsets = field(default_factory=lambda: np.empty(0, np.int64))
    first: int = 0
    bytes: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def only(self, mask: Mask) -> LogRecords:
        """The log without the records that ``mask`` leaves out."""
        return replace(
            self,
            offsets=self.offsets[mask],
            digests=self.digests[mask],
            aborted=self.aborted[mask],
            leader_epochs=self.leader_epochs[mask],
            keys=self.keys[mask] if len(self.keys) else self.keys,
            tombstones=self.tombstones[mask] if len(self.tombstones) else self.tombstones,
        )

    def below(self, offset: int) -> int:
        """How many records are before ``offset``."""
        return int(np.searchsorted(self.offsets, offset))

    @property
    def removed(self) -> int:
        """At how many offsets of the log, at the most, a record was that is not there any more."""
        since = self.first if self.first > self.start else 0
        return self.end - since - len(self) - len(self.markers)

    def survivors(self, before: int, held: Digests) -> Mask:
        """Which of the first ``before`` records log compaction keeps: the last of each key, and all without a key.

        A target's cleaner removes those without a key too, whatever follows: that is for the caller to judge.

        A tombstone goes in its time, but never before all that it deletes: it is kept while ``held`` has its key.

        Args:
            before: how many records are looked at.
            held: the keys of the other log.
        """
        keys = self.keys[:before]
        newest = np.zeros(before, np.bool_)
        newest[newest_of_keys(keys)] = True
        newest |= keys == NO_KEY
        newest &= ~self.tombstones[:before] | (keys == NO_KEY) | np.isin(keys, held)
        return newest

    def has_key(self, before: int) -> Mask:
        """Which of the first ``before`` records have a key."""
        has_key: Mask = self.keys[:before] != NO_KEY
        return has_key

    def distinct(self, *, compacted: bool) -> int:
        """At how many different offsets of a source, which it has deleted since, the records were at least.

        Args:
            compacted: whether it may have compacted some: not the newest of a key, but for tombstones.
        """
        if not compacted:
            return len(np.unique(self.digests))
        newest = newest_of_keys(self.keys)
        return int((~self.tombstones[newest] & (self.keys[newest] != NO_KEY)).sum())

    @cached_property
    def _by_digest(self) -> tuple[Digests, Offsets]:
        order = np.argsort(self.digests, kind="stable")
        return self.digests[order], order

    def places(self, digest: np.uint64) -> Offsets:
        """Where records with this digest are, as ascending indices."""
        digests, order = self._by_digest
        first, last = np.searchsorted(digests, digest), np.searchsorted(digests, digest, "right")
        return order[first:last]


def no_records() -> LogRecords:
    """The log of a partition that does not exist."""
    nothing = np.empty(0, np.int64)
    return LogRecords(0, 0, nothing, np.empty(0, np.uint64), np.empty(0, np.bool_), nothing)


def newest_of_keys(keys: Digests) -> Offsets:
    """The index of the last one of each key, by ascending key."""
    _, last = np.unique(keys[::-1], return_index=True)
    return len(keys) - 1 - last
