"""Records as columns of digests, and what a log must offer to be compared. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Booleans = npt.NDArray[np.bool_]
Times = tuple[int, int]
"""Timestamps ``[since, until)``, in milliseconds since 1970."""

CHUNK: Final = 65_536
"""How many records a cursor is asked for at a time where all of them are read."""
# Odd, and this process's own.
_SPREAD: Final = np.uint64(secrets.randbits(63) << 1 | 1)
_HALF: Final = np.uint64(32)


def share_of(digests: Hashes, shares: int) -> Hashes:
    """Which of some equal shares, of less than 2**32, each digest falls to.

    A producer can choose the digests of its records, and does not know the shares before.
    """
    spread: Hashes = (((digests * _SPREAD) >> _HALF) * np.uint64(shares)) >> _HALF
    return spread


def _integers() -> Integers:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Entries:
    """Records of a log in the order of their offsets; 24 bytes each, 33 with keys.

    Attributes:
        offsets: ascending.
        digests: of each record's key, value, headers and, if times are compared, timestamp.
        times: timestamps, in milliseconds since 1970.
        keys: digests of the keys; empty unless they were asked for.
        tombstones: which values are null; empty unless keys were asked for.
    """

    offsets: Integers
    digests: Hashes
    times: Integers
    keys: Hashes
    tombstones: Booleans

    @classmethod
    def of(
        cls,
        offsets: Sequence[int] | Integers = (),
        digests: Sequence[int] | Hashes = (),
        times: Sequence[int] | Integers = (),
        keys: Sequence[int] | Hashes = (),
        tombstones: Sequence[bool] | Booleans = (),
    ) -> Entries:
        """The columns as arrays."""
        return cls(
            np.array(offsets, np.int64),
            np.array(digests, np.uint64),
            np.array(times, np.int64),
            np.array(keys, np.uint64),
            np.array(tombstones, np.bool_),
        )

    @classmethod
    def concat(cls, parts: Sequence[Entries]) -> Entries:
        """All of ``parts``, one after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of()
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def __len__(self) -> int:
        return len(self.offsets)

    def have_time_in(self, times: Times | None) -> Booleans:
        """Which of them have a timestamp in ``times``; none where there are none."""
        since, until = times or (0, 0)
        return (since <= self.times) & (self.times < until)

    def at(self, which: slice | Booleans | Integers) -> Entries:
        """Some of them, by a slice, a mask or their places."""
        keys, tombstones = self.keys, self.tombstones
        if len(keys):
            keys, tombstones = keys[which], tombstones[which]
        return Entries(
            self.offsets[which], self.digests[which], self.times[which], keys, tombstones
        )


@dataclass(frozen=True, slots=True)
class RecordParts:
    """Digests of the parts of records that are looked at one by one.

    Attributes:
        offsets: ascending.
        keys: of the keys; null and empty differ.
        values: of the values.
        headers: of the headers, in their order.
        times: timestamps, in milliseconds since 1970.
        no_key: which keys are null.
        no_value: which values are null.
    """

    offsets: Integers
    keys: Hashes
    values: Hashes
    headers: Hashes
    times: Integers
    no_key: Booleans
    no_value: Booleans

    def at(self, places: Integers) -> RecordParts:
        """Some of them, or all in another order, by their places."""
        return RecordParts(*(getattr(self, column.name)[places] for column in fields(self)))

    def column(self, part: str) -> Hashes | Integers:
        """What is compared of a part: ``key``, ``value``, ``headers`` or ``timestamp``."""
        columns = {"key": self.keys, "value": self.values, "headers": self.headers}
        return columns.get(part, self.times)

    def differences(
        self, place: int, other: RecordParts, other_place: int, parts: Iterable[str]
    ) -> tuple[str, ...]:
        """Which of ``parts`` differ between a record and one of another log."""
        return tuple(
            part for part in parts if self.column(part)[place] != other.column(part)[other_place]
        )


class LogCursor(Protocol):
    """Reads a log forwards."""

    def take(self, records: int) -> Entries:
        """The next records, as many as asked for; fewer only at the end."""

    def skip(self, records: int) -> int:
        """Pass over a number of records without comparing them; returns how many there were."""


class AuditedLog(Protocol):
    """A partition's log, as one side of a comparison."""

    @property
    def since(self) -> int:
        """The first offset that is looked at."""

    @property
    def end(self) -> int:
        """The offset after the last one that is looked at."""

    @property
    def lost_head(self) -> bool:
        """Whether retention or DeleteRecords may have taken records before ``since`` that belong to the comparison."""

    def cursor(self, at: int, *, keys: bool = False) -> LogCursor:
        """Reads from the offset ``at`` to the end."""

    def parts(self, offsets: Integers) -> RecordParts:
        """The parts of the records at ``offsets``, which ascend; all of them exist."""


def most_deleted(log: AuditedLog) -> int:
    """How many records a log has deleted before its start at most: one for each offset before it."""
    return log.since if log.lost_head else 0


def chunks(
    log: AuditedLog, since: int, until: int | None = None, *, keys: bool = False
) -> Iterator[Entries]:
    """The log's records with offsets of ``[since, until)``, or to its end, in chunks."""
    cursor = log.cursor(since, keys=keys)
    while len(chunk := cursor.take(CHUNK)):
        if until is not None and chunk.offsets[-1] >= until:
            yield chunk.at(slice(0, int(np.searchsorted(chunk.offsets, until))))
            return
        yield chunk


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Records of one side for which the walk has found no partner.

    Attributes:
        entries: the records, ascending.
        gaps: how many records had been matched before each of them: those of both sides with equal numbers
            lie between the same neighbours.
    """

    entries: Entries
    gaps: Integers

    @classmethod
    def concat(cls, parts: Sequence[Unmatched]) -> Unmatched:
        """All of ``parts``, one after the other."""
        gaps = [part.gaps for part in parts]
        return cls(
            Entries.concat([part.entries for part in parts]),
            np.concatenate(gaps) if gaps else _integers(),
        )

    def __len__(self) -> int:
        return len(self.gaps)

    def at(self, which: Booleans | Integers) -> Unmatched:
        """Some of them, by a mask or their places."""
        return Unmatched(self.entries.at(which), self.gaps[which])


def all_but(places: Integers | list[int], count: int) -> Booleans:
    """A mask of ``count`` records without those at ``places``."""
    left = np.ones(count, np.bool_)
    left[np.asarray(places, np.int64)] = False
    return left


def occurrences(digests: Hashes, records: Entries) -> tuple[Integers, Integers]:
    """The places in ``digests``, which ascend, that records have the digest of; and those records' offsets."""
    places = np.minimum(np.searchsorted(digests, records.digests), len(digests) - 1)
    hits = np.flatnonzero(digests[places] == records.digests)
    return places[hits], records.offsets[hits]


def locate_first(logs: Iterator[Entries], wanted: Hashes) -> tuple[Booleans, Integers]:
    """Where digests occur first.

    Args:
        logs: what is searched.
        wanted: digests, in any order, any of them repeatedly.

    Returns:
        Which of ``wanted`` occur; and the offset of the first occurrence of each, -1 for none.
    """
    digests, back = np.unique(wanted, return_inverse=True)
    offsets = np.full(len(digests), -1, np.int64)
    left = len(digests)
    while left and (chunk := next(logs, None)) is not None:
        # Of several, the last assignment counts: that of the first.
        places, found = (it[::-1] for it in occurrences(digests, chunk))
        new = offsets[places] < 0
        left -= len(np.unique(places[new]))
        offsets[places[new]] = found[new]
    first_offsets = offsets[back]
    return first_offsets >= 0, first_offsets
