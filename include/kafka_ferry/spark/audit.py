"""Audits as Spark jobs: pairs of partitions, each read by one task on both clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kafka_ferry.audit.compare import PairComparison
from kafka_ferry.audit.comparison.entries import Hashes, Integers
from kafka_ferry.audit.comparison.unordered import Unordered
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.terms import AuditPair, AuditTerms
from kafka_ferry.spark.jobs import deal, run_in_tasks
from kafka_ferry.spark.security.serialized_flow import envelope, open_envelope
from kafka_ferry.spark.spark_errors import spark_failures
from kafka_ferry.wire import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_TASKS_PER_CORE: Final = 2
# What a task has not begun when its time is over, the next round does.
_PAIRS_PER_TASK: Final = 64


class SparkComparison:
    """Compares in Spark's tasks; the executors must reach both clusters.

    Its methods raise ``SparkFailed`` if a task fails too often, and ``ConfigError`` if a store or connection of
    a cluster cannot be read.

    Args:
        spark: the session.
        flow: the flow, whose clusters are compared.
        terms: the audit's terms.

    Attributes:
        round_s: how many seconds to give ``go_on``.
    """

    round_s = 30.0

    def __init__(self, spark: SparkSession, flow: Flow, terms: AuditTerms) -> None:
        self._spark, self._name = spark, flow.name
        self._flow = envelope(flow)
        self._terms = terms
        self._cores = spark.sparkContext.defaultParallelism

    @property
    def at_once(self) -> int:
        """How many pairs to give to ``go_on`` at a time."""
        return self._cores * _TASKS_PER_CORE * _PAIRS_PER_TASK

    def go_on(self, outcomes: Sequence[PairOutcome], seconds: float) -> list[PairOutcome]:
        """Compare pairs, or continue with them, for about ``seconds``; in any order."""
        tasks = deal(outcomes, self._cores * _TASKS_PER_CORE)
        results = self._run(
            partial(_go_on_task, self._flow, self._terms, self._share, seconds), tasks
        )
        return [outcome for of_task in results for outcome in of_task]

    def locate(self, pairs: Sequence[AuditPair], wanted: Hashes) -> list[Integers]:
        """Where digests are in the source's partition of each pair, -1 for nowhere."""
        work = partial(_locate_task, self._flow, self._terms, self._share)
        return self._run(work, [(pair, wanted) for pair in pairs])

    def without_order(self, topics: Sequence[Sequence[AuditPair]]) -> list[Unordered]:
        """Compare topics, each with all of its pairs, without order."""
        return self._run(partial(_topic_task, self._flow, self._terms, self._share), topics)

    @property
    def _share(self) -> float:
        return 1 / self._cores

    def _run(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        with spark_failures(
            f"the audit of {self._name}",
            advice="What was compared is kept: --resume continues once both clusters answer.",
        ):
            return run_in_tasks(self._spark, work, items)


def _go_on_task(
    flow: bytes, terms: AuditTerms, share: float, seconds: float, outcomes: Sequence[PairOutcome]
) -> list[PairOutcome]:
    until = time.monotonic() + seconds
    results = []
    with _comparison(flow, terms, share) as comparison:
        for outcome in outcomes:
            left = until - time.monotonic()
            results.append(comparison.go_on(outcome, left) if left > 0 else outcome)
    return results


def _locate_task(
    flow: bytes, terms: AuditTerms, share: float, lookup: tuple[AuditPair, Hashes]
) -> Integers:
    with _comparison(flow, terms, share) as comparison:
        return comparison.locate(*lookup)


def _topic_task(
    flow: bytes, terms: AuditTerms, share: float, pairs: Sequence[AuditPair]
) -> Unordered:
    with _comparison(flow, terms, share) as comparison:
        return comparison.without_order(pairs)


@contextmanager
def _comparison(flow: bytes, terms: AuditTerms, share: float) -> Iterator[PairComparison]:
    clusters = open_envelope(flow)
    with connect(clusters.source) as source, connect(clusters.target) as target:
        yield PairComparison(source, target, terms, share)
