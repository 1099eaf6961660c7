"""The ledger's proofs: the last one, and where the proved part ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.compute as pc

from kafka_ferry.ledger.claims import CLAIMED, is_verification
from kafka_ferry.ledger.record import AcceptedRange
from kafka_ferry.ledger.rows import RangeKey, accepted_range, copied_rows, is_one_of, ordinary_rows
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable


_READ: Final = ("again", "accepted", "failed", "gone")

AcceptedRanges = Mapping[RangeKey, AcceptedRange]
"""By ledger offset, source topic, partition and first offset, the ranges that are left as they are."""


class Proof(NamedTuple):
    """A verification.

    Attributes:
        run: the run that has verified.
        at: when, in milliseconds since 1970.
    """

    run: str
    at: int


class Verification(NamedTuple):
    """What a verification has proved.

    Attributes:
        proof: the verification.
        through: the ledger offset before which all was proved by then.
        again: ledger offsets ``[start, end)`` whose ranges were read back once more.
        gone: ids of remote topics of which nothing was looked at.
    """

    proof: Proof
    through: int
    again: tuple[tuple[int, int], ...]
    gone: frozenset[str]


def verifications(ledger: LedgerTable) -> list[Verification]:
    """All verifications, in their order."""
    rows = ledger.read(pc.field("type") == "verification", [*CLAIMED, *_READ]).to_pylist()
    return [
        Verification(
            Proof(row["run"], row["at"]),
            row["through"],
            tuple((interval["start"], interval["end"]) for interval in row["again"]),
            frozenset(row["gone"]),
        )
        for row in rows
        if is_verification(row) and not row["accepted"] and not row["failed"]
    ]


def failed_entries(ledger: LedgerTable) -> set[int]:
    """The ledger's records of ranges that a verification has found wrong, and none has proved since."""
    rows = ledger.read(pc.field("type") == "verification", ["again", "failed"]).to_pylist()
    failed: set[int] = set()
    if not any(row["failed"] for row in rows):
        return failed
    offsets = sorted(
        set(ledger.read(copied_rows(), ["ledger_offset"])["ledger_offset"].to_pylist())
    )

    def within(intervals: Iterable[Mapping[str, int]]) -> Iterator[int]:
        for one in intervals:
            yield from offsets[
                bisect_left(offsets, one["start"]) : bisect_left(offsets, one["end"])
            ]

    for row in rows:
        failed.difference_update(within(row["again"]))
        failed.update(within(row["failed"]))
    return failed


def accepted_ranges(ledger: LedgerTable) -> AcceptedRanges:
    """The ranges that people have decided to leave as they are; the newest decision counts."""
    rows = ledger.read(pc.field("type") == "verification", ["accepted"]).to_pylist()
    ranges = [accepted_range(accepted) for row in rows for accepted in row["accepted"]]
    return {
        (range_.ledger_offset, range_.topic, range_.partition, range_.start): range_
        for range_ in ranges
    }


def last_proof(ledger: LedgerTable) -> Proof | None:
    """The newest verification, whatever was verified."""
    proofs = verifications(ledger)
    return proofs[-1].proof if proofs else None


def ends_before(
    ledger: LedgerTable, ledger_offset: int, remote_topics: Collection[str]
) -> dict[tuple[TopicPartition, str, TopicPartition, str], int]:
    """How far partitions had been copied at a ledger offset.

    Args:
        ledger: the ledger.
        ledger_offset: entries from there on are left out.
        remote_topics: the topics of the partitions.

    Returns:
        The source offset after the last one by source partition, its topic's id, target partition
        and its topic's id.
    """
    wanted = ordinary_rows() & (pc.field("ledger_offset") < ledger_offset)
    wanted &= is_one_of("remote_topic", remote_topics)
    keys = ["topic", "topic_id", "partition", "remote_topic", "remote_topic_id"]
    # Of one thread, the last one is the newest.
    rows = ledger.read(wanted, [*keys, "end"]).group_by(keys, use_threads=False)
    return {
        (
            TopicPartition(row["topic"], row["partition"]),
            row["topic_id"],
            TopicPartition(row["remote_topic"], row["partition"]),
            row["remote_topic_id"],
        ): row["end_last"]
        for row in rows.aggregate([("end", "last")]).to_pylist()
    }
