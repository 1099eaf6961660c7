"""Compares pairs of partitions, and topics without order, on two clusters."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafka_ferry.audit.comparison.compacted import compare_keys
from kafka_ferry.audit.comparison.entries import Hashes, Integers, chunks, locate_first
from kafka_ferry.audit.comparison.unmatched import judge_unmatched
from kafka_ferry.audit.comparison.unordered import Unordered, compare_unordered
from kafka_ferry.audit.comparison.walk import LogWalk, WalkState
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.result import PairCounts
from kafka_ferry.audit.terms import AuditPair, AuditTerms
from kafka_ferry.audit.wire_log import WireLog
from kafka_ferry.copy.rate_limit import RateLimit
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rate import Rate
from kafka_ferry.wire import WireCluster


class PairComparison:
    """Compares what a process was given, on two clusters.

    Args:
        source: the source, used by nothing else meanwhile.
        target: the target, likewise.
        terms: the audit's terms.
        share: this process's share of the rate, 0 to 1.
    """

    def __init__(
        self, source: WireCluster, target: WireCluster, terms: AuditTerms, share: float = 1.0
    ) -> None:
        self._source, self._target, self._terms = source, target, terms
        limit = max(1, round(terms.bytes_per_s * share)) if terms.bytes_per_s else 0
        self._rate = RateLimit(Rate(bytes_per_s=limit))

    def go_on(self, outcome: PairOutcome, seconds: float) -> PairOutcome:
        """Compare a pair, or continue with it.

        An error of its own, such as a missing ACL, a partition without leader or records that were deleted
        meanwhile, becomes the outcome's ``failure``: other pairs may be compared nevertheless.

        Args:
            outcome: what is known of it so far.
            seconds: about how long a walk goes on at most.

        Raises:
            ClusterUnreachable: if a cluster does not answer for a minute.
        """
        began = time.monotonic()
        try:
            result = self._compare(outcome, began + seconds)
        except ClusterUnreachable:
            raise
        except FerryError as error:
            result = PairOutcome(outcome.pair, failure=str(error))
        result.seconds = outcome.seconds + time.monotonic() - began
        return result

    def locate(self, pair: AuditPair, wanted: Hashes) -> Integers:
        """Where digests are in the source's partition, -1 for nowhere.

        Raises:
            FerryError: as a cursor's methods.
        """
        log = self._logs(pair)[0]
        return locate_first(chunks(log, log.since), wanted)[1]

    def without_order(self, pairs: Sequence[AuditPair]) -> Unordered:
        """Compare all partitions of a topic at once.

        Args:
            pairs: all of its pairs; of partitions that one side lacks, that side is empty.

        Raises:
            FerryError: as a cursor's methods.
            OSError: if the temporary files cannot be written.
        """
        logs = {pair.partition: self._logs(pair) for pair in pairs}
        sources = {number: ours for number, (ours, _) in logs.items()}
        targets = {number: theirs for number, (_, theirs) in logs.items()}
        return compare_unordered(sources, targets, sum(pair.offsets for pair in pairs))

    def _compare(self, outcome: PairOutcome, until: float) -> PairOutcome:
        pair = outcome.pair
        source, target = self._logs(pair)
        if pair.by == "keys":
            return self._by_keys(pair, source, target)
        state = outcome.state or WalkState(pair.source.since, pair.target.since)
        LogWalk(
            *(source, target, state),
            one_in=self._terms.one_in,
            by_time=pair.times,
            block=self._terms.block,
        ).go(lambda: time.monotonic() < until)
        if state.is_lost:
            return PairOutcome(pair, lost=True)
        if not state.is_over:
            return PairOutcome(pair, state)
        judged = judge_unmatched(source, target, state, times=pair.times, recent=self._terms.recent)
        counts = PairCounts(
            source_records=state.source_records,
            target_records=state.target_records,
            matched=state.matched + judged.in_order,
            counted=state.skipped,
            removed=judged.removed,
            expired=judged.expired,
            pending=judged.pending,
        )
        return PairOutcome(
            pair,
            counts=counts,
            differing=judged.differing,
            missing=judged.missing,
            foreign=judged.foreign,
        )

    def _by_keys(self, pair: AuditPair, source: WireLog, target: WireLog) -> PairOutcome:
        compared = compare_keys(
            source,
            target,
            times=pair.times,
            recent=self._terms.recent,
            source_compacts=pair.source_compacts,
        )
        counts = PairCounts(
            source_records=compared.source_records,
            target_records=compared.target_records,
            matched=compared.matched,
            superseded=compared.superseded,
            removed=compared.removed,
            expired=compared.expired,
            pending=compared.pending,
        )
        return PairOutcome(
            pair, counts=counts, differing=compared.differing, passes=compared.passes
        )

    def _logs(self, pair: AuditPair) -> tuple[WireLog, WireLog]:
        source = TopicPartition(pair.topic, pair.partition)
        target = TopicPartition(pair.remote_topic, pair.partition)
        ours = WireLog(
            *(self._source, source, pair.source, self._terms), times=pair.times, rate=self._rate
        )
        theirs = WireLog(
            *(self._target, target, pair.target, self._terms), times=pair.times, rate=self._rate
        )
        return ours, theirs
