"""Compares two logs, one of them compacted, by the latest record of each key. Pure.

Records without a key are compared one by one (``keyless``), where the source keeps them.

Log compaction removes what a later record of the same key replaces, on each cluster in its own time, so that
the logs cannot be compared record by record. What does not depend on it is the latest record of each key.
Keys are compared in passes, each with those whose digest falls to it, so that memory is bounded: a pass with
more than ``MOST_KEYS`` keys is given up, and all is read again in twice as many passes. Logs of n keys are
read about 2 n / ``MOST_KEYS`` times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kafka_ferry.audit.comparison.entries import (
    AuditedLog,
    Entries,
    Integers,
    RecordParts,
    Times,
    all_but,
    chunks,
    locate_first,
    most_deleted,
    occurrences,
    share_of,
)
from kafka_ferry.audit.comparison.findings import NO_OFFSET, Differing
from kafka_ferry.audit.comparison.keyless import KeylessRecords, compare_keyless, have_no_key

MOST_KEYS: Final = 500_000
"""The most keys of a side that are held at a time, some 40 MB while they are sorted."""
_PARTS: Final = ("value", "headers", "timestamp")
_NO_RECORD: Final = 2**63 - 1


class _TooManyKeys(Exception):
    pass


@dataclass
class KeysCompared:
    """The result for one partition.

    Attributes:
        passes: how often both logs were read.
        source_records: records of the source's log.
        target_records: records of the target's.
        keys: keys with a latest record on either side, tombstones included.
        matched: keys whose latest record is the same on both sides; and records without a key that are.
        superseded: records that a later one of the same key has replaced, on either side; not compared.
        pending: keys whose latest record is too recent to be called missing.
        differing: latest records that differ.
        removed: keys that the target's retention has deleted: their latest records come before all that both sides
            have, and they are no more than the offsets before its start.
        expired: keys that the source's retention has deleted, likewise.
        missing: offsets on the source of what the target lacks, by pass.
        foreign: offsets on the target of what the source lacks.
    """

    passes: int = 0
    source_records: int = 0
    target_records: int = 0
    keys: int = 0
    matched: int = 0
    superseded: int = 0
    pending: int = 0
    differing: list[Differing] = field(default_factory=list)
    removed: int = 0
    expired: int = 0
    missing: list[Integers] = field(default_factory=list)
    foreign: list[Integers] = field(default_factory=list)

    def explain(self, source: AuditedLog, target: AuditedLog) -> None:
        """Tell what the logs' starts explain of what comes before all that both have, the earliest records first."""
        self.removed, missing = _split(self.missing, source, target)
        self.expired, foreign = _split(self.foreign, target, source)
        self.differing += [Differing("missing", offset, NO_OFFSET) for offset in missing]
        self.differing += [Differing("foreign", NO_OFFSET, offset) for offset in foreign]


def _split(offsets: list[Integers], log: AuditedLog, other: AuditedLog) -> tuple[int, list[int]]:
    """How many of a log's ``offsets`` the other one may have lost with its head, and the offsets that it has not.

    A mirror keeps the order: what comes after the place of the other's first records was not in its head.
    """
    ascending = np.sort(np.concatenate(offsets))
    head = ascending[: most_deleted(other)]
    # At the place itself only one of several that are alike may be lacking.
    count = int((head <= _place_of(other, log)).sum()) if len(head) else 0
    return count, ascending[count:].tolist()


def _place_of(log: AuditedLog, other: AuditedLog) -> int:
    """Where the other log has the first ones of a log's records that it has; after all where it has none.

    Of records that are alike, it may have the last one: the earlier ones are only known to be alike.
    """
    digests = np.unique(next(chunks(log, log.since), Entries.of()).digests)
    last_offsets = np.full(len(digests), _NO_RECORD, np.int64)
    for chunk in chunks(other, other.since) if len(digests) else ():
        places, offsets = occurrences(digests, chunk)
        # Of several, the last assignment counts.
        last_offsets[places] = offsets
    return int(last_offsets.min(initial=_NO_RECORD))


def compare_keys(
    source: AuditedLog,
    target: AuditedLog,
    *,
    times: bool = True,
    recent: Times | None = None,
    source_compacts: bool = True,
    most_keys: int = MOST_KEYS,
) -> KeysCompared:
    """Compare the latest records of all keys.

    Args:
        source: the source's log.
        target: the target's log.
        times: whether timestamps are compared.
        recent: between which times, in milliseconds since 1970, records may not have been copied yet; None if
            everything should have been.
        source_compacts: whether the source's cleaner may have removed tombstones, and records without a key.
        most_keys: the most keys of a side to hold at a time.
    """
    passes = 1
    while True:
        result = KeysCompared(passes)
        try:
            for number in range(passes):
                ours, theirs = _compare_some(
                    *(source, target, result, number, times, recent),
                    *(source_compacts, most_keys),
                )
                _compare_keyless(result, ours, theirs, recent, source_compacts)
        except _TooManyKeys:
            passes *= 2
            continue
        result.explain(source, target)
        result.differing.sort(key=lambda record: (max(record.source, record.target), record.source))
        return result


def _compare_some(
    source: AuditedLog,
    target: AuditedLog,
    result: KeysCompared,
    number: int,
    times: bool,
    recent: Times | None,
    source_compacts: bool,
    most_keys: int,
) -> tuple[KeylessRecords, KeylessRecords]:
    """Compare the keys of a pass; returns its records without a key, of either side."""
    ours, records = _latest(source, number, result.passes, most_keys)
    theirs, remote_records = _latest(target, number, result.passes, most_keys)
    if not number:
        result.source_records, result.target_records = records.all, remote_records.all
    result.superseded += records.of_pass + remote_records.of_pass - len(ours) - len(theirs)
    result.keys += len(np.union1d(ours.keys, theirs.keys))
    _, i, j = np.intersect1d(ours.keys, theirs.keys, assume_unique=True, return_indices=True)
    same = ours.digests[i] == theirs.digests[j]
    result.matched += int(same.sum())
    lone, strange = ours.at(all_but(i, len(ours))), theirs.at(all_but(j, len(theirs)))
    # A tombstone may be gone on either side, but for a source that does not compact.
    is_gone = strange.tombstones & source_compacts
    result.matched += int(lone.tombstones.sum() + is_gone.sum())
    _add_missing(result, lone.at(~lone.tombstones), recent)
    result.foreign.append(strange.offsets[~is_gone])
    _judge(source, target, result, ours.at(i[~same]), theirs.at(j[~same]), times, recent)
    return records.keyless, remote_records.keyless


def _compare_keyless(
    result: KeysCompared,
    ours: KeylessRecords,
    theirs: KeylessRecords,
    recent: Times | None,
    source_compacts: bool,
) -> None:
    compared = compare_keyless(ours, theirs)
    result.matched += compared.matched
    if source_compacts:
        result.superseded += int(ours.counts.sum() + theirs.counts.sum()) - 2 * compared.matched
        return
    _add_missing(result, compared.missing, recent)
    result.foreign.append(compared.foreign.offsets)
    for origin, offset in zip(
        compared.origins.tolist(), compared.more.offsets.tolist(), strict=True
    ):
        result.differing.append(Differing("doubled", origin, offset))


def _add_missing(result: KeysCompared, missing: Entries, recent: Times | None) -> None:
    """Add records that the target has nothing like: some may still come."""
    may_come = missing.have_time_in(recent)
    result.pending += int(may_come.sum())
    result.missing.append(missing.offsets[~may_come])


def _judge(
    source: AuditedLog,
    target: AuditedLog,
    result: KeysCompared,
    ours: Entries,
    theirs: Entries,
    times: bool,
    recent: Times | None,
) -> None:
    """Latest records of the same keys that differ.

    If the target's one is an earlier one of the source's, or older than the source's latest, the latest is
    missing. If it shares its time or its value with it, it is altered. Else it is foreign.
    """
    if not len(ours):
        return
    is_earlier, _ = locate_first(chunks(source, source.since), theirs.digests)
    source_parts, target_parts = _parts(source, ours.offsets), _parts(target, theirs.offsets)
    may_come = ours.have_time_in(recent)
    compared = _PARTS if times else _PARTS[:-1]
    for place in range(len(ours)):
        offsets = int(ours.offsets[place]), int(theirs.offsets[place])
        what = source_parts.differences(place, target_parts, place, compared)
        shares = "timestamp" not in what or (
            "value" not in what and not source_parts.no_value[place]
        )
        if is_earlier[place] or (not shares and theirs.times[place] < ours.times[place]):
            if may_come[place]:
                result.pending += 1
            else:
                result.differing.append(Differing("missing", offsets[0], NO_OFFSET))
        elif shares:
            result.differing.append(Differing("altered", *offsets, what))
        else:
            result.differing.append(Differing("foreign", NO_OFFSET, offsets[1]))


def _parts(log: AuditedLog, offsets: Integers) -> RecordParts:
    """The parts of records in the order of ``offsets``, which are in any."""
    order = np.argsort(offsets)
    return log.parts(offsets[order]).at(np.argsort(order))


@dataclass
class _Seen:
    """How many records a log has, how many of them with a key are of a pass, and those of it without one."""

    all: int = 0
    of_pass: int = 0
    keyless: KeylessRecords = field(default_factory=KeylessRecords)


def _latest(log: AuditedLog, number: int, passes: int, most_keys: int) -> tuple[Entries, _Seen]:
    """The latest record of each key of a pass, by ascending key digest."""
    latest, records = Entries.of(), _Seen()
    for some in _of_pass(log, number, passes, records):
        both = Entries.concat([latest, some])
        # The first one of each key in the reversed order.
        _, first = np.unique(both.keys[::-1], return_index=True)
        latest = both.at(len(both) - 1 - first)
        if len(latest) + len(records.keyless) > most_keys:
            raise _TooManyKeys
    return latest, records


def _of_pass(log: AuditedLog, number: int, passes: int, records: _Seen) -> Iterator[Entries]:
    for chunk in chunks(log, log.since, keys=True):
        records.all += len(chunk)
        is_keyless = have_no_key(chunk)
        of_pass = share_of(np.where(is_keyless, chunk.digests, chunk.keys), passes) == number
        records.keyless = records.keyless.and_more(chunk.at(of_pass & is_keyless))
        keyed = chunk.at(of_pass & ~is_keyless)
        records.of_pass += len(keyed)
        yield keyed
