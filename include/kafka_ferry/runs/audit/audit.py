"""An audit: plans, compares what is left to compare, and tells what was found."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from kafka_ferry.audit.compare import PairComparison
from kafka_ferry.audit.comparison.entries import Hashes, Integers
from kafka_ferry.audit.comparison.unordered import Unordered
from kafka_ferry.audit.findings_of_topic import elsewhere, results_in_order, results_without_order
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.result import AuditReport, PartitionAudit
from kafka_ferry.audit.terms import AuditPair, AuditTerms
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model.remarks import Skipped
from kafka_ferry.runs.audit.folder import AuditFolder, audits_of, forget_old, unfinished_audit
from kafka_ferry.runs.audit.output import write_outputs
from kafka_ferry.runs.audit.plan import AuditPlan, planned_audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.audit.topics import audited_topics
from kafka_ferry.runs.provenance.appended import count_appended
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.state import folder_name
from kafka_ferry.wire import connect

if TYPE_CHECKING:
    from kafka_ferry.spark.session import SparkSource

log = logging.getLogger(__name__)

SMALL: Final = 1_000_000
"""Up to this many offsets, of both sides together, are compared sooner than Spark starts."""
# Foreign records of a topic beyond this number are not looked for in other partitions.
_MOST_LOCATED: Final = 200_000
_NAMES_SHOWN: Final = 10

Progress = Callable[[int, int], None]
"""Is told how many offsets of how many are compared."""


class Comparison(Protocol):
    """Where pairs are compared: in this process or in Spark's tasks."""

    @property
    def at_once(self) -> int:
        """How many pairs to give to ``go_on`` at a time."""

    @property
    def round_s(self) -> float:
        """How many seconds to give it: what an interruption loses at most."""

    def go_on(self, outcomes: Sequence[PairOutcome], seconds: float) -> list[PairOutcome]:
        """Compare pairs, or continue with them, for about ``seconds``."""

    def locate(self, pairs: Sequence[AuditPair], wanted: Hashes) -> list[Integers]:
        """Where digests are in the source's partition of each pair, -1 for nowhere."""

    def without_order(self, topics: Sequence[Sequence[AuditPair]]) -> list[Unordered]:
        """Compare topics, each with all of its pairs, without order."""


class Audit:
    """An audit of a flow's clusters.

    Args:
        flow: which clusters, and by default which topics; nothing of it need ever have run.
        request: what is audited.

    Attributes:
        notes: what is worth knowing about the plan.
    """

    def __init__(self, flow: Flow, request: AuditRequest) -> None:
        self.flow, self.request = flow, request
        self._folder: AuditFolder | None = None
        self.notes: list[str] = []

    def plan(self, *, resume: bool = False) -> AuditPlan:
        """Read what exists on both clusters, and store what is to be compared.

        Args:
            resume: whether to continue the last audit that asked for the same, if it was interrupted: what
                that one has compared is not read again, and its ends of the logs count.

        Raises:
            FerryError: a cluster cannot be read, or no topic is left.
        """
        flow, request = self.flow, self.request
        source, target = ClusterControl(flow.source), ClusterControl(flow.target)
        topics = audited_topics(flow, source, target, request)
        self._tell_lone(topics.without_counterpart)
        self._tell_left_out(topics.left_out)
        planned = planned_audit(flow, source, target, topics, request)
        audits = audits_of(flow)
        interrupted = unfinished_audit(audits, planned.key)
        earlier = interrupted.plan() if interrupted else None
        if earlier and resume:
            self._folder = interrupted
            return earlier
        if earlier:
            self.notes.append(f"{earlier.audit} was interrupted. --resume would continue it.")
        self._folder = AuditFolder(audits.folder(folder_name(planned.audit)))
        self._folder.save_plan(planned)
        return planned

    def _tell_lone(self, topics: Sequence[str]) -> None:
        if topics:
            self.notes.append(
                f"{len(topics):,} topics of {self.flow.source.alias} have no counterpart on "
                f"{self.flow.target.alias} and are not compared: {_some(topics)}"
            )

    def _tell_left_out(self, topics: Sequence[Skipped]) -> None:
        reasons: dict[str, list[str]] = defaultdict(list)
        for left_out in topics:
            reasons[left_out.reason].append(left_out.topic)
        for reason, names in reasons.items():
            self.notes.append(
                f"Not compared, since the flow does not copy it: {_some(names)}: {reason}"
            )

    @property
    def folder(self) -> AuditFolder:
        """Its files; after ``plan``."""
        assert self._folder, "the audit is not planned"
        return self._folder

    def compare(self, plan: AuditPlan, spark: SparkSource, progress: Progress) -> AuditReport:
        """Compare what is left to compare, and store the result.

        Args:
            plan: what ``plan`` gave.
            spark: gives the session, whose executors must reach both clusters; asked for only where there is
                so much to read that it pays.
            progress: is told how far it is.

        Raises:
            ClusterUnreachable: if a cluster does not answer for a minute; what was compared is kept.
            SparkFailed: likewise.
        """
        known = {
            number: self._known_outcome(number, pair) for number, pair in enumerate(plan.pairs)
        }
        left = sum(outcome.pair.offsets for outcome in known.values() if not _is_done(outcome))
        with self._comparison(plan.terms, spark, left) as comparison:
            work = _Work(comparison, self.folder, known, progress)
            work.compare_pairs()
            partitions = [part for some in work.by_topic() for part in work.topic(some)]
        if any(part.counts.reordered for part in partitions):
            partitions = self._add_appended(partitions)
        report = AuditReport(
            audit=plan.audit,
            source=self.flow.source.alias,
            target=self.flow.target.alias,
            source_cluster_id=plan.source_cluster_id,
            target_cluster_id=plan.target_cluster_id,
            began_at=plan.began_at,
            finished_at=now_ms(),
            terms=plan.terms,
            partitions=tuple(partitions),
            skipped=plan.skipped,
        )
        write_outputs(self.folder.files, report)
        self.folder.finish(report)
        forget_old(self.flow)
        return report

    def _add_appended(self, parts: Sequence[PartitionAudit]) -> list[PartitionAudit]:
        """The results with what the ledger explains; another tool's copy has none."""
        run, ledger = RunContext.of(self.flow, ""), ledger_topic(self.flow.source.alias)
        names = {part.pair.remote_topic for part in parts}
        try:
            ids = ClusterControl(self.flow.target).topic_ids({*names, ledger})
            if ledger not in ids:
                return list(parts)
            run.project_ledger()
        except AccessDenied as error:
            log.warning(
                "Whether a backfill has appended what is out of order is not known: %s", error
            )
            return list(parts)
        return count_appended(run.ledger, parts, ids)

    def _known_outcome(self, number: int, pair: AuditPair) -> PairOutcome:
        """How far a pair has come; one that could not be compared is tried again."""
        stored = self.folder.outcome(number, pair)
        return stored if stored and not stored.failure else PairOutcome(pair)

    @contextmanager
    def _comparison(
        self, terms: AuditTerms, spark: SparkSource, offsets: int
    ) -> Iterator[Comparison]:
        if offsets > SMALL:
            from kafka_ferry.spark.audit import SparkComparison  # noqa: PLC0415  (PySpark)

            yield SparkComparison(spark(), self.flow, terms)
            return
        with connect(self.flow.source) as source, connect(self.flow.target) as target:
            yield _Here(PairComparison(source, target, terms))


@dataclass
class _Here:
    """Compares in this process."""

    comparison: PairComparison
    at_once: int = 1
    round_s: float = 5.0

    def go_on(self, outcomes: Sequence[PairOutcome], seconds: float) -> list[PairOutcome]:
        until = time.monotonic() + seconds
        return [
            self.comparison.go_on(outcome, until - time.monotonic())
            if time.monotonic() < until
            else outcome
            for outcome in outcomes
        ]

    def locate(self, pairs: Sequence[AuditPair], wanted: Hashes) -> list[Integers]:
        return [self.comparison.locate(pair, wanted) for pair in pairs]

    def without_order(self, topics: Sequence[Sequence[AuditPair]]) -> list[Unordered]:
        return [self.comparison.without_order(pairs) for pairs in topics]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")


def _is_done(outcome: PairOutcome) -> bool:
    """Whether a pair was compared; an outcome that was only begun has neither a walk nor a time."""
    return outcome.is_over and bool(outcome.seconds)


@dataclass
class _Work:
    """The comparison of all pairs of an audit."""

    comparison: Comparison
    folder: AuditFolder
    outcomes: dict[int, PairOutcome]
    progress: Progress

    def compare_pairs(self) -> None:
        """Compare the pairs that are not done, the largest first, and store each result as it comes."""
        numbers = {outcome.pair: number for number, outcome in self.outcomes.items()}
        left = [number for number, outcome in self.outcomes.items() if not _is_done(outcome)]
        left.sort(key=lambda number: -self.outcomes[number].pair.offsets)
        self._tell()
        while left:
            some = [self.outcomes[number] for number in left[: self.comparison.at_once]]
            for outcome in self.comparison.go_on(some, self.comparison.round_s):
                number = numbers[outcome.pair]
                self.outcomes[number] = outcome
                if outcome.seconds:
                    self.folder.save(number, outcome)
            left = [number for number in left if not _is_done(self.outcomes[number])]
            self._tell()

    def by_topic(self) -> list[list[PairOutcome]]:
        """The outcomes of each pair of topics."""
        outcomes_by_topics: dict[tuple[str, str], list[PairOutcome]] = defaultdict(list)
        for outcome in self.outcomes.values():
            outcomes_by_topics[outcome.pair.topic, outcome.pair.remote_topic].append(outcome)
        return list(outcomes_by_topics.values())

    def topic(self, outcomes: Sequence[PairOutcome]) -> list[PartitionAudit]:
        """The results of a topic, after its other partitions were searched."""
        pairs = [outcome.pair for outcome in outcomes]
        if any(outcome.lost for outcome in outcomes):
            began = time.monotonic()
            (unordered,) = self.comparison.without_order([pairs])
            return results_without_order(pairs, unordered, time.monotonic() - began)
        left = elsewhere(outcomes)
        readable = [outcome.pair for outcome in outcomes if not outcome.failure]
        if len(readable) > 1 and 0 < len(left.unknown) <= _MOST_LOCATED:
            offsets = self.comparison.locate(readable, left.unknown)
            numbers = [pair.partition for pair in readable]
            left.locate(dict(zip(numbers, offsets, strict=True)))
        return results_in_order(outcomes, left)

    def _tell(self) -> None:
        total = sum(outcome.pair.offsets for outcome in self.outcomes.values())
        self.progress(sum(map(_count_compared, self.outcomes.values())), total)


def _count_compared(outcome: PairOutcome) -> int:
    """How many offsets of a pair are compared."""
    pair, state = outcome.pair, outcome.state
    if state is None:
        return pair.offsets if outcome.seconds else 0
    return state.source_at - pair.source.since + state.target_at - pair.target.since
