"""Logs in memory, and the faults that tests plant into copies of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xxhash

from kafka_ferry.audit.comparison.entries import Entries, Integers, RecordParts
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.groups.alignment.record_digests import NO_KEY


class Written(NamedTuple):
    """A record; the time is in milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    headers: bytes = b""
    time: int = 0


def many(count: int, since: int = 0) -> list[Written]:
    return [
        Written(b"key %d" % (i % 7) if i % 3 else None, b"value %d" % i, b"h" * (i % 2), 1_000 + i)
        for i in range(since, since + count)
    ]


def hashed(content: bytes | None) -> int:
    return xxhash.xxh3_64_intdigest(b"0" if content is None else b"1" + content)


@dataclass
class MemoryLog:
    """A log; the offset of each record is its place after ``since``, or in ``offsets``.

    Attributes:
        reads: how many records cursors have given.
    """

    records: Sequence[Written]
    since: int = 0
    lost_head: bool = False
    times: bool = True
    offsets: Sequence[int] | None = None
    reads: int = 0

    @property
    def end(self) -> int:
        return int(self.at[-1]) + 1 if len(self.records) else self.since

    @property
    def at(self) -> Integers:
        given = self.offsets
        if given is None:
            given = range(self.since, self.since + len(self.records))
        return np.array(given, np.int64)

    def cursor(self, at: int, *, keys: bool = False) -> MemoryCursor:
        return MemoryCursor(self, int(np.searchsorted(self.at, at)), keys)

    def parts(self, offsets: Integers) -> RecordParts:
        places = np.searchsorted(self.at, offsets)
        assert (self.at[places] == offsets).all()
        found = [self.records[place] for place in places]
        return RecordParts(
            offsets,
            np.array([hashed(r.key) for r in found], np.uint64),
            np.array([hashed(r.value) for r in found], np.uint64),
            np.array([hashed(r.headers) for r in found], np.uint64),
            np.array([r.time for r in found], np.int64),
            np.array([r.key is None for r in found], np.bool_),
            np.array([r.value is None for r in found], np.bool_),
        )


@dataclass
class MemoryCursor:
    log: MemoryLog
    place: int
    keys: bool

    def take(self, records: int) -> Entries:
        found = self.log.records[self.place : self.place + records]
        offsets = self.log.at[self.place : self.place + records]
        self.place += len(found)
        self.log.reads += len(found)
        seen = [r if self.log.times else r._replace(time=0) for r in found]
        return Entries.of(
            offsets,
            [hashed(repr(r).encode()) for r in seen],
            [r.time for r in found],
            [int(NO_KEY) if r.key is None else hashed(r.key) for r in found] if self.keys else (),
            [r.value is None for r in found] if self.keys else (),
        )

    def skip(self, records: int) -> int:
        there = min(records, len(self.log.records) - self.place)
        self.place += there
        return there


@dataclass(frozen=True)
class Planted:
    """A copy with faults, and what an audit must find; offsets are places."""

    copy: list[Written]
    expected: set[Differing]


def altered(record: Written, what: Sequence[str]) -> Written:
    changed = {
        "key": {"key": b"another key"},
        "value": {"value": b"another " + (record.value or b"")},
        "headers": {"headers": record.headers + b"x"},
        "timestamp": {"time": record.time + 5},
    }
    for aspect in what:
        record = record._replace(**changed[aspect])
    return record


@dataclass(frozen=True)
class _Copied:
    record: Written
    kind: str
    source: int = -1
    what: tuple[str, ...] = ()


ASPECTS = (
    ("key",),
    ("value",),
    ("headers",),
    ("timestamp",),
    ("value", "headers"),
    ("key", "value"),
    ("key", "value", "headers"),
)


def plant(source: Sequence[Written], faults: int, seed: int) -> Planted:
    """A copy with ``faults`` faults, each at a record of its own that has no neighbour with another."""
    chance = random.Random(seed)
    copy = [_Copied(record, "same", place) for place, record in enumerate(source)]
    free = list(range(2, len(source) - 2))
    missing = set()
    for number in range(faults):
        if not free:
            break
        place = chance.choice(free)
        free = [other for other in free if abs(other - place) > 4]
        at = next(n for n, copied in enumerate(copy) if copied.source == place)
        match chance.choice(["missing", "doubled", "reordered", "altered", "foreign"]):
            case "missing":
                del copy[at]
                missing.add(Differing("missing", place, -1))
            case "doubled":
                later = chance.randrange(at + 1, len(copy) + 1)
                copy.insert(later, _Copied(source[place], "doubled", place))
            case "reordered":
                moved = replace(copy.pop(at), kind="reordered")
                # Far from where it was: of two that are swapped either one may be told.
                places = [n for n in range(len(copy) + 1) if abs(n - at) > 3]
                copy.insert(chance.choice(places), moved)
            case "altered":
                what = chance.choice(ASPECTS)
                copy[at] = _Copied(altered(source[place], what), "altered", place, what)
            case "foreign":
                strange = Written(b"strange", b"%d" % number, b"", 50)
                copy.insert(at, _Copied(strange, "foreign"))
    found = {
        Differing(copied.kind, copied.source, offset, copied.what)
        for offset, copied in enumerate(copy)
        if copied.kind != "same"
    }
    return Planted([copied.record for copied in copy], found | missing)
