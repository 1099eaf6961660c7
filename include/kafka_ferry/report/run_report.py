"""What a run did, as one object, from which the web page, the JSON file and the metrics are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.batches import Reason
from kafka_ferry.batches.rule_counts import RuleUse, uses_of
from kafka_ferry.clock import moment_text
from kafka_ferry.flat import Flat
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.model import OffsetsChoice, Refusal, Window
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.report.measures import NOT_MEASURED, Measures
from kafka_ferry.report.offsets import OffsetsBar, OffsetsRow
from kafka_ferry.verify import PartitionRow, RangeRow, TopicRow, Verdict
from kafka_ferry.verify.counts import count, records_text

State = Literal[
    "verified", "groups not synced", "not applied", "not verified", "incomplete", "failed"
]


# Of fewer records, each may be one that the rule is not for.
_SOME: Final = 10
# Or one that has not all of the fields that the rule is for.
_MANY: Final = 100
_ARE_NAMES_RIGHT: Final = (
    "Does it name the fields and headers as the records do? What a record lacks is null."
)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When a run took place, and how long its steps took.

    Attributes:
        planned_at: when it was planned, in milliseconds since 1970.
        finished_at: when it ended, in milliseconds since 1970.
        seconds: how long each step took, in the order in which they ran.
    """

    planned_at: int
    finished_at: int
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        """How many seconds the run took: the sum of its steps, without their start-up."""
        return round(sum(self.seconds.values()), 3)


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What a transform rule has done in a run.

    Attributes:
        number: its place among the flow's rules, from 1 on.
        records: the records that went through it.
        changed: those that it has changed.
        left_out: those that it has left out.
        changes: whether it is to change any.
        by_name: in how many records it did what with each name (``batches.rule_counts``).
        passed: those for which it failed, and which are copied as they were (``on.transform.error: pass``).
    """

    number: int
    records: int
    changed: int
    left_out: int
    changes: bool
    by_name: Mapping[str, int] = field(default_factory=dict)
    passed: int = 0

    def __str__(self) -> str:
        left_out = f"left out {self.left_out:,}" if self.left_out or not self.changes else ""
        changed = f"changed {self.changed:,}" if self.changes else ""
        passed = f"failed for {self.passed:,}" if self.passed else ""
        done = " and ".join(filter(None, (changed, left_out, passed)))
        of_all = f"rule {self.number} {done} of {count(self.records, 'record')}"
        return f"{of_all}: {', '.join(names)}" if (names := [*self._names()]) else of_all

    def _names(self) -> Iterator[str]:
        """By name, what it changed where it is to change several, and what no record has."""
        uses = dict(uses_of(self.by_name))
        changes = {use: records for use, records in uses.items() if use.verb in ("set", "drop")}
        for use, records in changes.items():
            if added := uses.get(RuleUse("added", use.name), 0):
                yield f"{use.name} added to {added:,}"
            if records and len(changes) > 1:
                yield f"{use.name} in {records:,}"
            if not records and not added:
                yield f"{use.name} in none"
        changed = {use.name for use in changes}
        for use, records in uses.items():
            if use.verb not in ("read", "sought") or use.name in changed:
                continue
            if not records:
                yield f"{use.name} is in none"
            elif use.verb == "read" and self.left_out and records < self.records:
                # What a record lacks is null, and a condition on it is not true.
                yield f"{use.name} is in {records:,}"

    @property
    def doubts(self) -> Iterator[str]:
        """What is hardly meant, a sentence each."""
        rule, kept = f"Rule {self.number}", self.records - self.left_out
        if self.passed:
            yield (
                f"{rule} failed for {count(self.passed, 'record')}, copied as on the source: on.transform.error is "
                "pass, and what the rule was to hide is not hidden there."
            )
        if self.records < _SOME:
            return
        if not kept:
            yield f"{rule} has left out all {self.records:,} records. {_ARE_NAMES_RIGHT}"
        elif self.changes and not self.changed:
            yield f"{rule} has changed none of {kept:,} records. {_ARE_NAMES_RIGHT}"
        if self.records < _MANY:
            return
        uses = dict(uses_of(self.by_name))
        is_enough = self.changed > 0 and kept >= _MANY
        changes = {use.name for use in uses if use.verb in ("set", "drop")} if is_enough else set()
        for use, records in uses.items():
            if use.verb == "near" and records >= _MANY:
                added, _, present = use.name.partition("=")
                which = f"{records:,} records, one of the first of which has {present}"
                yield f"{rule} adds {added} to {which}. Is that one meant?"
            if records or uses.get(RuleUse("added", use.name)):
                continue
            # What it sets and reads, and no record has, is one mistake.
            if use.verb == "read" and use.name not in changes:
                none = f"none of {self.records:,} records has. What a record lacks is null."
                yield f"{rule} reads {use.name}, which {none}"
            elif use.verb in ("set", "drop") and is_enough:
                none = f"none of {kept:,} records. {_ARE_NAMES_RIGHT}"
                yield f"{rule} {use.verb}s {use.name}, which has changed {none}"


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What a run has copied and what it has not, by the ledger.

    Attributes:
        records: records copied.
        bytes: bytes of their batches, compressed as they are.
        batches: batches copied.
        reasons: source offsets without a record on the target, by reason.
        rebuilt: batches that could not be copied unopened, by reason.
        losses: intervals of source offsets that were deleted on the source before they were
            copied, a sentence each.
        dead_letter_topic: the topic for records that the target rejects.
        adopted: copied records that an earlier attempt had written and not committed; each was compared
            with the source's.
        adoptions: the ranges that have such records, a sentence each.
        heartbeats: how many of the records are in topics of heartbeats, by topic.
        rules: what the transform rules have done that any record went through.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    losses: tuple[str, ...] = ()
    dead_letter_topic: str = ""
    adopted: int = 0
    adoptions: tuple[str, ...] = ()
    heartbeats: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[RuleCounts, ...] = ()

    @property
    def records_text(self) -> str:
        """The records, with those in topics of heartbeats apart."""
        return records_text(self.records, sum(self.heartbeats.values()))

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


@dataclass(frozen=True, slots=True)
class RunTopics:
    """What the plan said of topics, a sentence each, and what it changed on the target.

    Attributes:
        skipped: source topics that the flow does not mirror, each with the reason.
        notes: what the plan found unusual and did not refuse.
        deleted: of a backfill, those of them that are about records of its window that the source has deleted.
        changes: what the plan changed on the target other than topics and records.
        drifts: configs of remote topics that the flow has not set, and replicas on other racks than it says.
        retirements: remote topics whose source topics are gone, deleted or about to be.
        choices: how the offsets of each planned topic are kept, and why.
        translated_ids: topics whose records got the ids of schemas on the target, with the fingerprint of how.
    """

    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    drifts: tuple[str, ...] = ()
    retirements: tuple[str, ...] = ()
    choices: tuple[OffsetsChoice, ...] = ()
    translated_ids: tuple[str, ...] = ()

    @property
    def preserved(self) -> tuple[OffsetsChoice, ...]:
        """The topics whose records keep their offsets."""
        return tuple(choice for choice in self.choices if choice.preserved)


@dataclass(frozen=True, slots=True)
class RunProblems:
    """What made a run fail besides its verdict.

    Attributes:
        failures: partitions that were not copied to their end.
        step_failures: by step, its other errors, a sentence each; without the verdict's.
        unended: the first step that has not ended, as one that was marked, in a sentence.
        refused: topics and partitions that cannot be mirrored as things are.
        unapplied: which changes on the target could not be made, a sentence each.
        group_failures: what could not be read, committed or written of groups, a sentence each.
    """

    failures: tuple[Failure, ...] = ()
    step_failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unended: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unapplied: tuple[str, ...] = ()
    group_failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunProof:
    """What a run has verified.

    Attributes:
        ranges: the ranges that were verified.
        partitions: their partitions.
        verdict: what the verification found, None where nothing was verified.
        proved_by: the last run that has proved anything, "" where none has.
        proved_at: when it did, in milliseconds since 1970.
        certificate: the serial of the run's certificate, 0 where it has none.
        oldest_proof: when the range was last read back that was not read for the longest time, of those that
            the target still has; in milliseconds since 1970, 0 where that is not known.
        topics: the remote topics that were looked at.
    """

    ranges: tuple[RangeRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    verdict: Verdict | None = None
    proved_by: str = ""
    proved_at: int = 0
    certificate: int = 0
    oldest_proof: int = 0
    topics: tuple[TopicRow, ...] = ()

    @property
    def evaluated_ranges(self) -> tuple[RangeRow, ...]:
        """The ranges whose transform rules were evaluated again, or were to be."""
        return tuple(row for row in self.ranges if row.rule.evaluated or row.rule.unevaluated)

    @property
    def uncommitted(self) -> tuple[str, ...]:
        """The partitions with records that the ledger does not have yet, a sentence each."""
        return tuple(
            f"{row.source}: {row.log.uncommitted:,} on {row.remote_topic}, "
            f"from offset {row.coverage.covered_end} on."
            for row in self.partitions
            if row.log.uncommitted
        )

    def rewound(self, run: str) -> int:
        """How many offsets the source has lost that had been copied before ``run``."""
        return sum(row.rewound for row in self.ranges if row.ledger.run == run)


@dataclass(frozen=True, slots=True)
class RunOffsets:
    """The flow's source offsets so far, by its ledger.

    Attributes:
        bars: by run.
        topics: by topic: those with losses and the most offsets without a record.
        more_topics: how many other topics there are.
    """

    bars: tuple[OffsetsBar, ...] = ()
    topics: tuple[OffsetsRow, ...] = ()
    more_topics: int = 0


@dataclass(frozen=True, slots=True)
class RunReport(Flat, AsJson):
    """One run of a flow.

    Attributes:
        flow: the flow's name.
        run: the run's id.
        source: the source's alias.
        target: the target's alias.
        times: when it took place.
        counts: what it has copied and what not.
        topics: what its plan said of topics.
        problems: what made it fail.
        proof: what it has verified.
        groups: what became of the groups, None where no step has read them.
        measures: the input of the run's metrics.
        window: for a backfill, the timestamps of its records.
        so_far: the flow's source offsets so far.
    """

    NESTED: ClassVar = ("measures", "so_far")
    WHAT: ClassVar = "a run's report"

    flow: str
    run: str
    source: str
    target: str
    times: RunTimes
    counts: RunCounts = RunCounts()
    topics: RunTopics = RunTopics()
    problems: RunProblems = RunProblems()
    proof: RunProof = RunProof()
    groups: GroupMoves | None = None
    measures: Measures = NOT_MEASURED
    window: Window | None = None
    so_far: RunOffsets = RunOffsets()

    @property
    def copying(self) -> float | None:
        """How many seconds of ``mirror`` copied records; the rest is start-up and reading back."""
        return self.measures.copying_seconds if "mirror" in self.times.seconds else None

    @property
    def waited(self) -> str:
        """What copying waited for, as in ``71 % waiting for primary``; "" where that is not known."""
        source, _, target = self.flow.partition("->")
        return self.measures.waits.text(source, target)

    @property
    def found(self) -> str:
        """What the verification has read, and since when the part that it need not read again is proved."""
        if self.proof.verdict is None:
            return "nothing was read"
        if self.proof.verdict.ranges or self.proof.verdict.gone:
            deleted = f"; {self.deleted_text}" if self.deleted_text else ""
            return (
                f"{self.proof.verdict.found}{self._evaluated_text}{self._witnessed_text}{deleted}"
            )
        if self.window:
            return self._nothing_of_window
        nothing = f"nothing new in {count(len(self.measures.partitions), 'partition')}"
        if not self.proof.proved_by:
            return f"{nothing}, and nothing was ever copied"
        return f"{nothing}; last proved on {moment_text(self.proof.proved_at)} by run {self.proof.proved_by}"

    @property
    def _nothing_of_window(self) -> str:
        """Why a backfill has verified nothing."""
        if self.problems.refused or self.problems.failures:
            return "nothing, since nothing was copied"
        if self.topics.deleted:
            return f"nothing of {self.window} that the source still has is left to copy; {self.deleted_text}"
        return f"nothing of {self.window} is left to copy"

    @property
    def deleted_text(self) -> str:
        """In how many partitions a backfill could not copy all of its window; "" where it could."""
        if not self.topics.deleted:
            return ""
        where = count(len(self.topics.deleted), "partition")
        return f"in {where} the source has deleted offsets before they were copied"

    @property
    def _evaluated_text(self) -> str:
        """What of the ranges transform rules were evaluated again for."""
        ranges = [row for row in self.proof.evaluated_ranges if row.rule.evaluated]
        if not ranges:
            return ""
        offsets = count(sum(row.rule.evaluated for row in ranges), "offset")
        return f"; rules evaluated again for {offsets} in {count(len(ranges), 'range')}"

    @property
    def _witnessed_text(self) -> str:
        """Of how many offsets without a record the source was asked too."""
        offsets = sum(row.witness.witnessed for row in self.proof.ranges)
        return (
            f"; {count(offsets, 'offset')} without a record looked up on the source"
            if offsets
            else ""
        )

    @property
    def has_preserved(self) -> bool:
        """Whether any of its topics, planned or only verified, keeps its offsets."""
        return bool(self.topics.preserved) or any(row.preserved for row in self.proof.partitions)

    @property
    def state(self) -> State:
        """The worst applicable state: failed, incomplete, not verified, not applied, or not synced."""
        problems = self.problems
        if problems.failures or problems.refused or problems.step_failures:
            return "failed"
        if self.proof.verdict is None:
            return "not verified"
        if not self.proof.verdict.success:
            return "incomplete"
        if problems.unapplied:
            return "not applied"
        return "groups not synced" if problems.group_failures else "verified"
