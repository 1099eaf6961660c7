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
    Booleans,
    Entries,
    Integers,
    RecordParts,
    Times,
    all_but,
    chunks,
    locate_first,
    most_deleted,
    share_of,
)
from kafka_ferry.audit.comparison.findings import NO_OFFSET, Differing
from kafka_ferry.audit.comparison.keyless import KeylessRecords, compare_keyless, have_no_key

MOST_KEYS: Final = 500_000
"""The most keys of a side that are held at a time, some 40 MB while they are sorted."""
_PARTS: Final = ("value", "headers", "timestamp")


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
        removed: keys that the target's retention has deleted: their latest records are older than its log, and
            they are no more than the offsets before its start.
        expired: keys that the source's retention has deleted, likewise.
        before_target: offsets on the source of lone keys that are older than the target's log, by pass.
        before_source: offsets on the target of lone keys that are older than the source's log.
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
    before_target: list[Integers] = field(default_factory=list)
    before_source: list[Integers] = field(default_factory=list)

    def explain(self, source: AuditedLog, target: AuditedLog) -> None:
        """Tell what the logs' starts explain of what is older than they are, the earliest records first."""
        removed, missing = _split(self.before_target, most_deleted(target))
        expired, foreign = _split(self.before_source, most_deleted(source))
        self.removed, self.expired = len(removed), len(expired)
        self.differing += [Differing("missing", offset, NO_OFFSET) for offset in missing.tolist()]
        self.differing += [Differing("foreign", NO_OFFSET, offset) for offset in foreign.tolist()]


def _split(offsets: list[Integers], most: int) -> tuple[Integers, Integers]:
    """The first ``most`` of the offsets, and the others."""
    ascending = np.sort(np.concatenate(offsets))
    return ascending[:most], ascending[most:]


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
        source_compacts: whether the source's cleaner may have removed records without a key.
        most_keys: the most keys of a side to hold at a time.
    """
    passes = 1
    while True:
        result = KeysCompared(passes)
        try:
            for number in range(passes):
                ours, theirs = _compare_some(
                    source, target, result, number, times, recent, most_keys
                )
                _compare_keyless(source, target, result, ours, theirs, recent, source_compacts)
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
    # A tombstone may be gone on either side.
    result.matched += int(lone.tombstones.sum() + strange.tombstones.sum())
    _add_missing(result, lone.at(~lone.tombstones), target, recent)
    _add_foreign(result, strange.at(~strange.tombstones), source)
    _judge(source, target, result, ours.at(i[~same]), theirs.at(j[~same]), times, recent)
    return records.keyless, remote_records.keyless


def _compare_keyless(
    source: AuditedLog,
    target: AuditedLog,
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
    _add_missing(result, compared.missing, target, recent)
    _add_foreign(result, compared.foreign, source)
    for origin, offset in zip(
        compared.origins.tolist(), compared.more.offsets.tolist(), strict=True
    ):
        result.differing.append(Differing("doubled", origin, offset))


def _add_missing(
    result: KeysCompared, missing: Entries, target: AuditedLog, recent: Times | None
) -> None:
    """Add records that the target has nothing like: some may still come, or be deleted there."""
    may_come = missing.have_time_in(recent)
    result.pending += int(may_come.sum())
    is_removed = ~may_come & _before(missing, target)
    result.before_target.append(missing.offsets[is_removed])
    for offset in missing.offsets[~may_come & ~is_removed].tolist():
        result.differing.append(Differing("missing", offset, NO_OFFSET))


def _add_foreign(result: KeysCompared, foreign: Entries, source: AuditedLog) -> None:
    """Add records that the source has nothing like: some may be deleted there."""
    is_expired = _before(foreign, source)
    result.before_source.append(foreign.offsets[is_expired])
    for offset in foreign.offsets[~is_expired].tolist():
        result.differing.append(Differing("foreign", NO_OFFSET, offset))


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


def _before(entries: Entries, log: AuditedLog) -> Booleans:
    """Which records are older than a log's first one, if the log has lost its head."""
    first = log.cursor(log.since).take(1) if log.lost_head and len(entries) else Entries.of()
    if not len(first):
        return np.full(len(entries), log.lost_head)
    is_before: Booleans = entries.times < first.times[0]
    return is_before


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
