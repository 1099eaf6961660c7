"""Everything that has to agree in the reconciliation table, as a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kafka_ferry.verify.rows import UNKNOWN, PartitionRow, RangeRow
from kafka_ferry.verify.verdict import Severity, Table

Row = TypeVar("Row", RangeRow, PartitionRow)


# No slots here: generic classes with slots cannot be made on Python 3.11.
@dataclass(frozen=True)
class Check(Generic[Row]):
    """One expectation.

    Attributes:
        name: the sentence that should be true.
        left: the attribute of a row that is looked at.
        explain: what is wrong with a row, after its name.
        advice: what to look at.
        right: the attribute that must be equal to ``left``; "" where ``left`` must be 0.
        only_where: the attribute without which a row is not looked at; "" for every row.
    """

    name: str
    left: str
    explain: Callable[[Row], str]
    advice: str
    right: str = ""
    only_where: str = ""

    def holds(self, row: Row) -> bool:
        """Whether it is true of ``row``."""
        if self.only_where and not getattr(row, self.only_where):
            return True
        wanted: object = getattr(row, self.right) if self.right else 0
        return bool(getattr(row, self.left) == wanted)


@dataclass(frozen=True)
class Suite(Generic[Row]):
    """The checks of one table that are of one severity."""

    name: str
    table: Table
    severity: Severity
    checks: tuple[Check[Row], ...]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _intervals(intervals: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"[{start}, {end})" for start, end in intervals)


RANGES: Final = Suite[RangeRow](
    "ranges",
    "ranges",
    "critical",
    (
        Check(
            "every source offset is a record on the target or has a reason",
            "source_offsets",
            lambda row: f"{_count(row.source_offsets, 'offset')}, {row.accounted:,} accounted for",
            "The ledger contradicts itself, which is a fault of the copier. Leave the ledger and "
            "both topics as they are and report it.",
            right="accounted",
        ),
        Check(
            "the target holds as many records as were copied",
            "copied",
            lambda row: (
                f"{_count(row.copied, 'record')} copied, {row.target_records:,} on the target, "
                f"{row.expired:,} expired, {row.target_compacted:,} compacted away"
            ),
            "Look for an unclean leader election on the target, for deleted records and for a "
            "changed cleanup.policy of the remote topic.",
            right="found",
        ),
        Check(
            "the target's bytes are those that were sent",
            "digest_sent",
            lambda row: f"digest {row.digest_sent} sent, {row.digest_read} read back",
            "Compare the remote topic's compression.type and message.timestamp.type with the "
            "source's: a broker that compresses or stamps anew changes the bytes. Otherwise "
            "records were changed or damaged.",
            right="digest_read",
            only_where="digest_comparable",
        ),
        Check(
            "nobody else wrote between our records",
            "foreign",
            lambda row: f"{_count(row.foreign, 'record')} of somebody else in {row.target}",
            "Find the other producer and take its right to write to the remote topic away.",
        ),
        Check(
            "records keep their source's offsets",
            "misplaced",
            lambda row: f"{_count(row.misplaced, 'record')} at other offsets in {row.target}",
            "The ledger contradicts itself, which is a fault of the copier. Leave the ledger and "
            "both topics as they are and report it.",
        ),
    ),
)

PARTITIONS: Final = Suite[PartitionRow](
    "partitions",
    "partitions",
    "critical",
    (
        Check(
            "the ranges of a partition join without a gap",
            "gap_offsets",
            lambda row: f"{_count(row.gap_offsets, 'offset')} in between in no range",
            "If the run names this partition as failed, the next run goes on there. Otherwise its "
            "remote topic was deleted (a warning says so), positions were moved by hand, or ledger "
            "records are missing.",
        ),
        Check(
            "no offset was copied twice",
            "overlap_offsets",
            lambda row: f"{_count(row.overlap_offsets, 'offset')} in more than one range",
            "Look for a position of the flow's group that was reset by hand.",
        ),
        Check(
            "the ledger ends where the position is",
            "beyond_position",
            lambda row: (
                f"the ledger ends at {row.covered_end}, "
                + ("no position" if row.position == UNKNOWN else f"the position is {row.position}")
            ),
            "Look for a position of the flow's group that was reset, deleted or forgotten.",
        ),
        Check(
            "nothing lies beyond what the ledger knows",
            "target_beyond",
            lambda row: (
                f"{_count(row.target_beyond, 'record')} on the target after the ledger's last one"
            ),
            "Find the other producer and take its right to write to the remote topic away.",
        ),
        Check(
            "nothing lies before the mirror's start",
            "target_before",
            lambda row: (
                f"{_count(row.target_before, 'record')} on the target before the ledger's first one"
            ),
            "Somebody has written to the remote topic before the mirror began, or records that "
            "stand for nothing could not be deleted: the flow needs the right to do so.",
        ),
        Check(
            "the target's log goes as far as the ledger",
            "unreached",
            lambda row: (
                f"read_committed consumers of {row.remote_topic} do not get to its last "
                f"{_count(row.unreached, 'offset')}"
            ),
            "Look for an unclean leader election on the target, and for a transaction of somebody "
            "else that is open in the remote topic (kafka-transactions.sh find-hanging).",
        ),
        Check(
            "the target's log starts where the mirror does",
            "exposed",
            lambda row: (
                f"{row.remote_topic} still shows {_count(row.exposed, 'offset')} before its start"
            ),
            "The flow needs the right to delete records of the remote topic; the next run tries "
            "again.",
        ),
        Check(
            "every planned offset is covered",
            "uncovered",
            lambda row: (
                f"planned [{row.planned_start}, {row.planned_end}), "
                f"covered [{row.covered_start}, {row.covered_end})"
            ),
            "The run did not reach the end of its plan here: see its failures. The next run goes "
            "on from the position.",
        ),
    ),
)

WARNINGS: Final = Suite[RangeRow](
    "warnings",
    "ranges",
    "warning",
    (
        Check(
            "no copied record has expired on the target",
            "expired",
            lambda row: f"{row.expired:,} of {_count(row.copied, 'record')} below the log start",
            "The remote topic's retention is shorter than the time until it was verified; or the "
            "source's log start, which it follows where offsets are preserved, has passed them.",
        ),
        Check(
            "the target's cleaner has removed no copied record",
            "target_compacted",
            lambda row: (
                f"{row.target_compacted:,} of {_count(row.copied, 'record')} compacted away"
            ),
            "Normal for a compacted topic; what was removed cannot be counted any more.",
        ),
        Check(
            "no record was lost before it could be copied",
            "lost",
            lambda row: (
                f"{_count(row.lost, 'offset')} deleted on the source before they were copied: "
                f"{_intervals(row.lost_intervals)}"
            ),
            "on.source.truncation is set to continue: mirror more often, or keep the source's "
            "records longer.",
        ),
        Check(
            "no record went to the dead letter topic",
            "dead_lettered",
            lambda row: f"{_count(row.dead_lettered, 'record')} that {row.target} could not take",
            "on.rejected.record is set to dead-letter: the dead letter topic holds the records, with "
            "their coordinates and the broker's error in headers.",
        ),
        Check(
            "the source's log was not cut back below what was copied",
            "rewound",
            lambda row: (
                f"cut back to {row.start}: {_count(row.rewound, 'offset')} "
                f"[{row.start}, {row.rewound_from}) had been copied from a branch that is lost"
            ),
            "on.source.divergence is set to continue: the target keeps the records of the lost "
            "branch. Look for an unclean leader election on the source.",
        ),
        Check(
            "the remote topic that was copied into is still there",
            "gone",
            lambda row: (
                f"{_count(row.gone, 'record')} went into {row.remote_topic}, which was deleted since"
            ),
            "Nothing can be read back of them. on.target.topic.lost: recopy copies what the source "
            "still has again.",
        ),
    ),
)
