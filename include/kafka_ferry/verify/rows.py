"""The rows of the reconciliation table: ranges and partitions.

All offsets are "the next one to read": a range includes ``start`` and excludes ``end``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from kafka_ferry.batches import Reason
from kafka_ferry.flat import Flat
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger import RangeKey

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAccount(Flat):
    """How the ledger accounts for the source offsets of a range: each is a copied record or has a reason.

    Attributes:
        run: the run that copied it.
        ledger_offset: its offset in the ledger.
        copied: records written to the target.
        digest_sent: of the batches as they were sent.
        reasons: offsets without a record on the target, by reason.
        other_reasons: offsets without a record for a reason that this release does not know.
        lost_intervals: the intervals ``(start, end)`` of the lost offsets.
        rewound_from: the position before the source's log was truncated to the range's start, -1 where
            it was not.
        adopted: copied records that an earlier attempt had written, and that were compared with the
            source's one by one.
        misplaced: records that were to keep their offsets and have others.
        backfill: whether a backfill has copied it, which may overlap other ranges.
        unmapped: how many copied records have no place in the offset map.
        displaced: how many copied records are, by the ledger, at offsets of the target that it had reached before.
    """

    STORED: ClassVar = ("accounted",)

    run: str
    ledger_offset: int
    copied: int
    digest_sent: str
    reasons: Counter[Reason] = field(default_factory=Counter, hash=False)
    other_reasons: int = 0
    lost_intervals: tuple[tuple[int, int], ...] = ()
    rewound_from: int = UNKNOWN
    adopted: int = 0
    misplaced: int = 0
    backfill: bool = False
    unmapped: int = 0
    displaced: int = 0

    @property
    def accounted(self) -> int:
        """``copied`` and all reasons together."""
        return self.copied + self.reasons.total() + self.other_reasons

    @property
    def losses_unnamed(self) -> int:
        """How many more offsets were lost than the intervals name."""
        return self.reasons[Reason.LOST] - sum(end - start for start, end in self.lost_intervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecords:
    """What the target holds of the records of a range, and why it lacks the others.

    Attributes:
        target_records: records that it holds.
        digest_read: of the batches as they were read back.
        digest_comparable: False where it no longer holds all of what was sent, or has rewritten it.
        expired: records that its retention has removed since.
        target_compacted: records that its log cleaner has removed since; 0 unless the topic is compacted.
        gone: records whose topic was deleted since.
        foreign: data records between ours that the ledger does not have.
        foreign_own: 1 where writers of the flow itself have written some of these, else 0.
        foreign_at: the target offset of the first of these, -1 where there is none.
        foreign_by: the id of the producer of that one, -1 where it has none.
        accepted_missing: records that are missing for no known reason, which a person has decided to leave so.
        unread: why they could not be read back, "" if they were: the numbers say nothing then.
        gone_before: 1 where the last record that had been copied before them is no longer there, else 0.
    """

    target_records: int
    digest_read: str
    digest_comparable: bool = True
    expired: int = 0
    target_compacted: int = 0
    gone: int = 0
    foreign: int = 0
    foreign_own: int = 0
    foreign_at: int = UNKNOWN
    foreign_by: int = UNKNOWN
    accepted_missing: int = 0
    unread: str = ""
    gone_before: int = 0

    @property
    def is_read(self) -> bool:
        """Whether they were read back."""
        return not self.unread

    @property
    def unread_ranges(self) -> int:
        """1 if they could not be read back, 0 if they were."""
        return int(bool(self.unread))

    @property
    def found(self) -> int:
        """Copied records that are on the target or whose absence is explained."""
        explained = self.expired + self.target_compacted + self.gone + self.accepted_missing
        return self.target_records + explained


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """What came of evaluating a range's transform rule again, and comparing that with the target.

    Attributes:
        evaluated: source offsets for which it was evaluated again, and compared; 0 for a range that was not chosen.
        unevaluated: source offsets for which it could not be, although they were chosen.
        unlike_rule: evaluated offsets for which the target does not have what the rule gives.
        evaluation: the first of these, with the rule, as sentences; or why it could not be evaluated.
    """

    evaluated: int = 0
    unevaluated: int = 0
    unlike_rule: int = 0
    evaluation: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceWitness:
    """What the source's log says of offsets of a range that have no record on the target.

    Attributes:
        witnessed: how many of them were looked up there; 0 for a range that was not chosen.
        contradicted: how many of these have a record that a ``read_committed`` consumer gets.
        contradiction: the first of these, as a sentence for each stretch.
    """

    witnessed: int = 0
    contradicted: int = 0
    contradiction: tuple[str, ...] = ()

    def __add__(self, other: SourceWitness) -> SourceWitness:
        """What is said of several stretches."""
        return SourceWitness(
            self.witnessed + other.witnessed,
            self.contradicted + other.contradicted,
            self.contradiction + other.contradiction,
        )


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What the dead letter topic has of a range's records that went there.

    Attributes:
        letters_missing: how many of them it does not have; 0 for a range that was proved before.
        letters_deleted: how many were deleted there since, by its retention or a person.
        letters_unread: why it could not be read, "" if it was: all of them count as missing then.
    """

    letters_missing: int = 0
    letters_deleted: int = 0
    letters_unread: str = ""


@dataclass(frozen=True, slots=True)
class RangeRow(Flat):
    """One range of the ledger and its recount. All numbers count offsets or records.

    Attributes:
        topic: the source's topic.
        partition: the partition, on both clusters.
        remote_topic: the topic on the target.
        start: first source offset.
        end: source offset after the last one.
        ledger: how the ledger accounts for it.
        recount: what was read back of it.
        topic_id: the source topic's id; a recreated topic starts its offsets over.
        remote_topic_id: the target topic's id.
        preserved: whether the records were to keep their offsets.
        compaction_expected: whether the source compacts the topic, by the run's plan.
        again: whether it had been proved before, and was read back once more.
        rule: what came of evaluating its transform rule again.
        witness: what the source says of its offsets without a record.
        letters: what the dead letter topic has of its records.
    """

    STORED: ClassVar = ("source_offsets",)

    topic: str
    partition: int
    remote_topic: str
    start: int
    end: int
    ledger: LedgerAccount
    recount: TargetRecords
    topic_id: str = ""
    remote_topic_id: str = ""
    preserved: bool = False
    compaction_expected: bool = False
    again: bool = False
    rule: RuleEvaluation = RuleEvaluation()
    witness: SourceWitness = SourceWitness()
    letters: DeadLetters = DeadLetters()

    @property
    def first_proof(self) -> bool:
        """Whether no run has proved it before."""
        return not self.again

    @property
    def source_offsets(self) -> int:
        """How many offsets it has."""
        return self.end - self.start

    @property
    def source_gaps(self) -> int:
        """Offsets without a record in the source's log, although it does not compact the topic."""
        return 0 if self.compaction_expected else self.ledger.reasons[Reason.COMPACTED]

    @property
    def oddly_compacted(self) -> int:
        """Copied records that the target's log cleaner removed though the source does not compact the topic."""
        return 0 if self.compaction_expected else self.recount.target_compacted

    @property
    def rewound(self) -> int:
        """Offsets that were copied from a branch of the log that the source has lost since."""
        return max(0, self.ledger.rewound_from - self.start)

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)

    def __str__(self) -> str:
        return f"{self.source} [{self.start}, {self.end})"


def key_of(row: RangeRow) -> RangeKey:
    """What identifies the range of a row in the ledger."""
    return row.ledger.ledger_offset, row.topic, row.partition, row.start


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the ranges of a partition cover of its source offsets.

    Attributes:
        covered_start: first source offset of the ranges.
        covered_end: source offset after the last one of the ranges; equals ``covered_start``
            where nothing is covered.
        gap_offsets: offsets between consecutive ranges, and between them and what was verified
            before, that no range covers; all that was planned, where there is no range at all.
        overlap_offsets: offsets that a range covers again.
    """

    covered_start: int
    covered_end: int
    gap_offsets: int = 0
    overlap_offsets: int = 0


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """What the target's log of a partition has around the ledger's ranges.

    Attributes:
        target_beyond: data records after the last one that the ledger knows.
        beyond_at: the target offset of the first of these, -1 where there is none.
        beyond_by: the id of the producer of that one, -1 where it has none.
        uncommitted: records of an interrupted attempt, after the last one that the ledger knows.
        target_before: data records before the mirror's first range.
        unreached: offsets before the ranges' end that a ``read_committed`` consumer of the target
            cannot reach; 0 unless offsets are preserved.
        exposed: offsets that the target still has before its intended log start.
        unread: why it could not be read where the partition has no ranges to read back, "" otherwise.
    """

    target_beyond: int = 0
    beyond_at: int = UNKNOWN
    beyond_by: int = UNKNOWN
    uncommitted: int = 0
    target_before: int = 0
    unreached: int = 0
    exposed: int = 0
    unread: str = ""

    @property
    def unread_ends(self) -> int:
        """1 if what follows the ledger's last record could not be read, 0 otherwise."""
        return int(bool(self.unread))


@dataclass(frozen=True, slots=True)
class PartitionRow(Flat):
    """One partition: whether its ranges join, and where position and target end.

    Attributes:
        topic: the source's topic; "" where only the target's is known.
        partition: the partition, on both clusters.
        remote_topic: the topic on the target; "" where it is not known.
        planned_start: first source offset that the run planned, -1 where it planned nothing.
        planned_end: source offset after the last planned one, -1 where it planned nothing.
        coverage: what its ranges cover.
        position: the flow's committed position, -1 where there is none; for a branch that the
            source has lost, the position from which it was set back.
        beyond_position: how far the position and the end of the ledger's ranges are apart.
        log: what the target's log has around the ranges.
        preserved: whether records keep their offsets.
        replaced: how many offsets before the position the source's log has lost or replaced since, at the least.
    """

    topic: str
    partition: int
    remote_topic: str
    planned_start: int
    planned_end: int
    coverage: Coverage
    position: int = UNKNOWN
    beyond_position: int = 0
    log: RemoteLog = RemoteLog()
    preserved: bool = False
    replaced: int = 0

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)

    @property
    def uncovered(self) -> int:
        """Planned offsets before the first and after the last range."""
        start, end = self.coverage.covered_start, self.coverage.covered_end
        inside = min(self.planned_end, end) - max(self.planned_start, start)
        return self.planned_end - self.planned_start - max(0, inside)

    def __str__(self) -> str:
        if not self.topic:
            return f"{self.target} on the target"
        start, end = self.coverage.covered_start, self.coverage.covered_end
        if start == end and self.planned_start != UNKNOWN:
            start, end = self.planned_start, self.planned_end
        return f"{self.source} [{start}, {end})"
