"""Compares all partitions of a topic at once, whatever their order. Pure, but for temporary files.

For topics whose records another mirror has put into other partitions or into another order altogether. Each
side is read once. What is compared of a record, 28 bytes, goes to temporary files by its digest, and then
file after file is compared, so that memory is bounded. Order is not judged, and an altered record is told as
one that is missing and one that is foreign.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from kafka_ferry.audit.comparison.entries import (
    AuditedLog,
    Booleans,
    Hashes,
    Integers,
    all_but,
    chunks,
    most_deleted,
    share_of,
)
from kafka_ferry.audit.comparison.findings import NO_OFFSET, Differing, FindingKind

AT_ONCE: Final = 500_000
"""How many records of both sides are compared at a time."""
MOST_LISTED: Final = 200_000
_MOST_FILES: Final = 256
_NEVER: Final = 2**63 - 1
_ROW: Final = np.dtype([("digest", "u8"), ("offset", "i8"), ("partition", "i4"), ("time", "i8")])
# Odd numbers spread what they multiply over all bits.
_SPREAD: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))

Rows = npt.NDArray[Any]


@dataclass
class UnorderedPartition:
    """The result for a source partition; foreign and expired records are of the target's of that number.

    Attributes:
        source_records: records of the source's partition.
        target_records: records of the target's partition.
        matched: records that are in both.
        counts: records that differ, by kind; altered ones are in another partition.
        differing: those of them that are listed.
        removed: source records that are older than the target's log, no more than it may have deleted.
        expired: target records that are older than the source's log, likewise.
    """

    source_records: int = 0
    target_records: int = 0
    matched: int = 0
    counts: Counter[FindingKind] = field(default_factory=Counter)
    differing: list[Differing] = field(default_factory=list)
    removed: int = 0
    expired: int = 0


class Unordered(dict[int, UnorderedPartition]):
    """The result for a topic, by partition."""

    listed = 0

    @property
    def keeps_partitions(self) -> bool:
        """Whether no record was found in another partition than its own."""
        return not any(one.counts["altered"] for one in self.values())

    def __missing__(self, partition: int) -> UnorderedPartition:
        self[partition] = UnorderedPartition()
        return self[partition]

    def add(self, partition: int, record: Differing) -> None:
        """Count a record that differs, and list it while there is room."""
        of_partition = self[partition]
        of_partition.counts[record.kind] += 1
        if self.listed < MOST_LISTED:
            self.listed += 1
            of_partition.differing.append(record)

    def add_many(self, partition: int, count: int, listed: Sequence[Differing]) -> None:
        """Count ``count`` records of one kind; some of them may be ``listed``."""
        for record in listed:
            self.add(partition, record)
        self[partition].counts[listed[0].kind] += count - len(listed)


class _Before:
    """Records of one side that are older than the other side's log, by partition.

    Attributes:
        counts: how many they are.
        latest: the offsets of the latest ones, as many as may be listed.
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.latest: dict[int, Integers] = {}

    def take(self, rows: Rows, oldest: Mapping[int, int]) -> Rows:
        """Take those that are older than ``oldest``, by partition; returns the others."""
        is_before = np.zeros(len(rows), np.bool_)
        for partition in set(np.unique(rows["partition"]).tolist()) & oldest.keys():
            is_older = (rows["partition"] == partition) & (rows["time"] < oldest[partition])
            known = self.latest.get(partition, np.empty(0, np.int64))
            self.latest[partition] = np.sort(np.append(known, rows["offset"][is_older]))[
                -MOST_LISTED:
            ]
            self.counts[partition] += int(is_older.sum())
            is_before |= is_older
        return rows[~is_before]

    def beyond(
        self, logs: Mapping[int, AuditedLog], *, apart: bool
    ) -> Iterator[tuple[int, int, list[int]]]:
        """What no start of a log explains: a partition, the number of its records, and the offsets of the latest.

        A log has deleted no more records than there are offsets before its start. Where records have changed
        partitions (not ``apart``), this holds of all logs together.
        """
        most = {partition: most_deleted(log) for partition, log in logs.items()}
        left = self.counts.total() - (0 if apart else sum(most.values()))
        for partition, count in self.counts.items():
            if (more := min(count - most.get(partition, 0), left)) > 0:
                left -= more
                self.counts[partition] -= more
                yield partition, more, self.latest[partition][-more:].tolist()


def compare_unordered(
    sources: Mapping[int, AuditedLog],
    targets: Mapping[int, AuditedLog],
    records: int,
    at_once: int = AT_ONCE,
) -> Unordered:
    """Compare the records of all partitions of a topic.

    Args:
        sources: the source's logs, by partition.
        targets: the target's.
        records: about how many records there are on both sides together.
        at_once: how many of them are compared at a time.

    Raises:
        OSError: if the temporary files cannot be written.
    """
    result = Unordered()
    files = min(_MOST_FILES, -(-records // at_once) or 1)
    with ExitStack() as stack:
        ours, theirs = (
            [stack.enter_context(tempfile.TemporaryFile()) for _ in range(files)] for _ in range(2)
        )
        counts, oldest = _spill(sources, ours)
        remote_counts, remote_oldest = _spill(targets, theirs)
        for partition in counts.keys() | remote_counts.keys():
            result[partition].source_records = counts.get(partition, 0)
            result[partition].target_records = remote_counts.get(partition, 0)
        removed, expired = _Before(), _Before()
        for our_file, their_file in zip(ours, theirs, strict=True):
            left, strange = _compare(_read(our_file), _read(their_file), result)
            for _, offset, partition, _ in expired.take(strange, oldest).tolist():
                result.add(partition, Differing("foreign", NO_OFFSET, offset))
            for _, offset, partition, _ in removed.take(left, remote_oldest).tolist():
                result.add(partition, Differing("missing", offset, NO_OFFSET))
    apart = result.keeps_partitions
    for partition, count, offsets in removed.beyond(targets, apart=apart):
        result.add_many(partition, count, [Differing("missing", at, NO_OFFSET) for at in offsets])
    for partition, count, offsets in expired.beyond(sources, apart=apart):
        result.add_many(partition, count, [Differing("foreign", NO_OFFSET, at) for at in offsets])
    for partition in result:
        result[partition].removed = removed.counts[partition]
        result[partition].expired = expired.counts[partition]
    return result


def _spill(
    logs: Mapping[int, AuditedLog], files: Sequence[IO[bytes]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Write all records to files by their digests.

    Returns:
        By partition, the number of records; and the oldest time of each log that has lost its head.
    """
    counts: dict[int, int] = {}
    oldest: dict[int, int] = {}
    for partition, log in logs.items():
        counts[partition] = 0
        for chunk in chunks(log, log.since):
            if log.lost_head:
                oldest[partition] = min(oldest.get(partition, _NEVER), int(chunk.times.min()))
            counts[partition] += len(chunk)
            rows = np.empty(len(chunk), _ROW)
            rows["digest"], rows["offset"] = chunk.digests, chunk.offsets
            rows["partition"], rows["time"] = partition, chunk.times
            number = share_of(chunk.digests, len(files))
            for file in np.unique(number).tolist():
                files[file].write(rows[number == file].tobytes())
        if log.lost_head and not counts[partition]:
            oldest[partition] = _NEVER
    return counts, oldest


def _read(file: IO[bytes]) -> Rows:
    file.seek(0)
    return np.frombuffer(file.read(), _ROW)


def _compare(ours: Rows, theirs: Rows, result: Unordered) -> tuple[Rows, Rows]:
    """Match the records of a file; returns those of the source, and of the target, without partner."""
    i, j = _same(ours, theirs, by_partition=True)
    for partition, count in zip(*np.unique(ours["partition"][i], return_counts=True), strict=True):
        result[int(partition)].matched += int(count)
    left, strange = ours[all_but(i, len(ours))], theirs[all_but(j, len(theirs))]
    i, j = _same(left, strange, by_partition=False)
    for here, other in zip(left[i].tolist(), strange[j].tolist(), strict=True):
        moved = Differing("altered", here[1], other[1], ("partition",), other[2])
        result.add(here[2], moved)
    left, strange = left[all_but(i, len(left))], strange[all_but(j, len(strange))]
    is_double, origins = _origins(ours, strange)
    for record, origin in zip(strange[is_double].tolist(), origins, strict=True):
        result.add(origin[2], Differing("doubled", origin[1], record[1], (), record[2]))
    return left, strange[~is_double]


def _same(ours: Rows, theirs: Rows, *, by_partition: bool) -> tuple[Integers, Integers]:
    """Places of records with equal digests, and equal partitions if wanted, each place once."""
    our_symbols, their_symbols = (
        _symbols(rows, by_partition=by_partition) for rows in (ours, theirs)
    )
    _, i, j = np.intersect1d(our_symbols, their_symbols, return_indices=True)
    return i, j


def _symbols(rows: Rows, *, by_partition: bool) -> Hashes:
    """A number for each record: of its digest, its partition if wanted, and how often both came before."""
    symbols: Hashes = rows["digest"].copy()
    if by_partition:
        symbols ^= (rows["partition"].astype(np.uint64) + np.uint64(1)) * _SPREAD[0]
    order = np.argsort(symbols, kind="stable")
    ordered = symbols[order]
    nth = np.empty(len(rows), np.uint64)
    nth[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return symbols ^ nth * _SPREAD[1]


def _origins(ours: Rows, theirs: Rows) -> tuple[Booleans, Iterator[Any]]:
    """Which target records the source has too, and the source's record of each of those."""
    digests, first = np.unique(ours["digest"], return_index=True)
    if not len(digests):
        return np.zeros(len(theirs), np.bool_), iter(())
    places = np.minimum(np.searchsorted(digests, theirs["digest"]), len(digests) - 1)
    is_double: Booleans = digests[places] == theirs["digest"]
    return is_double, iter(ours[first[places[is_double]]].tolist())
