"""The ledger's proofs: the last one, and where the proved part ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.compute as pc

from kafka_ferry.ledger.claims import CLAIMED, is_verification
from kafka_ferry.ledger.record import AcceptedRange
from kafka_ferry.ledger.rows import RangeKey, accepted_range, is_one_of, ordinary_rows
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable


_READ: Final = ("again", "accepted", "gone")

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
        # One that accepts ranges as they are has read nothing.
        if is_verification(row) and not row["accepted"]
    ]


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
