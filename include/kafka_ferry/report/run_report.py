"""What a run did, as one object, from which the web page, the JSON file and the metrics are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.batches import Reason
from kafka_ferry.clock import moment_text
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.model import OffsetsChoice, TopicPartition, Window
from kafka_ferry.report.measures import Measures
from kafka_ferry.verify import PartitionRow, RangeRow, Verdict

State = Literal[
    "verified", "groups not synced", "not applied", "not verified", "incomplete", "failed"
]


@dataclass(frozen=True, slots=True)
class RunReport(AsJson):
    """One run of a flow.

    Attributes:
        flow: the flow's name.
        run: the run's id.
        source: the source's alias.
        target: the target's alias.
        planned_at: when it was planned, in milliseconds since 1970.
        finished_at: when it ended, in milliseconds since 1970.
        seconds: how long each step took, in the order in which they ran.
        records: records copied.
        bytes: bytes of their batches, compressed as they are.
        batches: batches copied.
        reasons: source offsets without a record on the target, by reason.
        rebuilt: batches that could not be copied unopened, by reason.
        failures: partitions that were not copied to their end, a sentence each.
        step_failures: by step, its other errors, a sentence each; without the verdict's.
        refused: topics and partitions that cannot be mirrored as things are, a sentence each.
        skipped: source topics that the flow does not mirror, each with the reason.
        losses: intervals of source offsets that were deleted on the source before they were
            copied, a sentence each.
        dead_letter_topic: the topic for records that the target rejects.
        notes: what the plan found unusual and did not refuse, a sentence each.
        changes: what the plan changed on the target other than topics and records, a sentence each.
        unapplied: which of these changes could not be made, a sentence each.
        drifts: configs of remote topics that the flow has not set, a sentence each.
        retirements: remote topics whose source topics are gone, deleted or about to be, a sentence each.
        choices: how the offsets of each planned topic are kept, and why.
        adopted: copied records that an earlier attempt had written and not committed; each was compared
            with the source's.
        adoptions: the ranges that have such records, a sentence each.
        ranges: the ranges that were verified.
        partitions: their partitions.
        verdict: what the verification found, None where nothing was verified.
        groups: what became of the groups, None where no step has read them.
        group_failures: what could not be read, committed or written of them, a sentence each.
        measures: the input of the run's metrics; None in reports of older releases.
        window: for a backfill, the timestamps of its records.
        proved_by: the last run that has proved anything, "" where none has.
        proved_at: when it did, in milliseconds since 1970.
    """

    WHAT: ClassVar = "a run's report"

    flow: str
    run: str
    source: str
    target: str
    planned_at: int
    finished_at: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    losses: tuple[str, ...] = ()
    dead_letter_topic: str = ""
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    unapplied: tuple[str, ...] = ()
    drifts: tuple[str, ...] = ()
    retirements: tuple[str, ...] = ()
    choices: tuple[OffsetsChoice, ...] = ()
    adopted: int = 0
    adoptions: tuple[str, ...] = ()
    ranges: tuple[RangeRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    verdict: Verdict | None = None
    groups: GroupMoves | None = None
    group_failures: tuple[str, ...] = ()
    measures: Measures | None = None
    window: Window | None = None
    step_failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    proved_by: str = ""
    proved_at: int = 0

    @property
    def duration(self) -> float:
        """How many seconds the run took: the sum of its steps, without their start-up."""
        return round(sum(self.seconds.values()), 3)

    @property
    def copying(self) -> float | None:
        """How many seconds of ``mirror`` copied records; the rest is start-up and reading back."""
        return self.measures.copying_seconds if self.measures and "mirror" in self.seconds else None

    @property
    def waited(self) -> str:
        """What copying waited for, as in ``71 % waiting for primary``; "" where that is not known."""
        source, _, target = self.flow.partition("->")
        return self.measures.waits.text(source, target) if self.measures else ""

    @property
    def offsets(self) -> int:
        """Source offsets accounted for: records copied and all reasons."""
        return self.records + sum(self.reasons.values())

    @property
    def lost(self) -> int:
        """Source offsets that were deleted on the source before they were copied."""
        return self.reasons.get(Reason.LOST, 0)

    @property
    def dead_lettered(self) -> int:
        """Records that the target rejected and the dead letter topic holds."""
        return self.reasons.get(Reason.DEAD_LETTERED, 0)

    @property
    def found(self) -> str:
        """What the verification has read, and since when the part that it need not read again is proved."""
        if self.verdict is None:
            return "nothing was read"
        if self.verdict.ranges:
            return f"{self.verdict.records:,} records in {self.verdict.ranges:,} ranges"
        looked_at = len(self.measures.partitions) if self.measures else 0
        nothing = f"nothing new in {looked_at:,} partition{'' if looked_at == 1 else 's'}"
        if not self.proved_by:
            return f"{nothing}, and nothing was ever copied"
        return (
            f"{nothing}; the last proof is of {moment_text(self.proved_at)}, run {self.proved_by}"
        )

    @property
    def preserved(self) -> tuple[OffsetsChoice, ...]:
        """The topics whose records keep their offsets."""
        return tuple(choice for choice in self.choices if choice.preserved)

    @property
    def has_preserved(self) -> bool:
        """Whether any of its topics, planned or only verified, keeps its offsets."""
        return bool(self.preserved) or any(row.preserved for row in self.partitions)

    @property
    def uncommitted(self) -> tuple[str, ...]:
        """The partitions with records that the ledger does not have yet, a sentence each."""
        return tuple(
            f"{TopicPartition(row.topic, row.partition)}: {row.uncommitted:,} on {row.remote_topic}, "
            f"from offset {row.covered_end} on."
            for row in self.partitions
            if row.uncommitted
        )

    @property
    def state(self) -> State:
        """The worst applicable state: failed, incomplete, not verified, not applied, or not synced."""
        if self.failures or self.refused or self.step_failures:
            return "failed"
        if self.verdict is None:
            return "not verified"
        if not self.verdict.success:
            return "incomplete"
        if self.unapplied:
            return "not applied"
        return "groups not synced" if self.group_failures else "verified"
