"""Runs to their proof, with Spark and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.model import TopicPartition
from kafka_ferry.report import RunReport
from kafka_ferry.runs import Run
from kafka_ferry.runs.publish.publish import publish_run
from kafka_ferry.spark import recount as spark_recount
from kafka_ferry.spark.session import SparkSource
from kafka_ferry.verify import PartitionRecount, Terms
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.expectations import judge
from kafka_ferry.verify.expectations.user_expectations import NOTHING
from kafka_ferry.verify.recount import recount_each
from tests.support.runs.flows import copy_now, failures
from tests.support.runs.predicates import judge_by_predicates

NO_SPARK: Any = lambda: None  # noqa: E731
"""Where a session is asked for and nothing uses it."""
_MORE_THAN_A_DAY_MS: Final = 25 * 60 * 60 * 1000


def recount_here(monkeypatch: pytest.MonkeyPatch, *, docs: bool = False) -> None:
    """Have verifications recount in this process, and write Data Docs only if they are looked at."""

    def recount_all(
        _: object, flow: Flow, partitions: Mapping[TopicPartition, Sequence[RangeClaim]]
    ) -> dict[TopicPartition, PartitionRecount]:
        return dict(recount_each(flow.target, [(tp, it, None) for tp, it in partitions.items()]))

    monkeypatch.setattr(spark_recount, "recount_all", recount_all)
    if not docs:
        judge_without_docs(monkeypatch)


def judge_without_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no Data Docs written, and verdicts come from the checks' own predicates where a flow has no expectations."""
    by_expectations = judge._judge

    def verdict_of(suites: Any, rows: Any, terms: Terms, verdict: Any) -> Any:
        judged = judge_by_predicates if terms.own == NOTHING else by_expectations
        return judged(suites, rows, terms, verdict)

    monkeypatch.setattr(judge, "_judge", verdict_of)
    monkeypatch.setattr(judge, "_document", lambda *given: given[-1])


def judge_failures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Great Expectations, which take most of the time, judge only what does not hold by the checks' own word."""
    monkeypatch.setattr(judge, "_has_counts", lambda _: False)


def plan_a_day_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have plans commit the positions of quiet partitions again, as they do once a day."""
    monkeypatch.setattr("kafka_ferry.runs.run_plan.now_ms", lambda: now_ms() + _MORE_THAN_A_DAY_MS)


def report_of(flow: Flow, run: str) -> RunReport:
    """The report of a run that was copied and, if that is what its last step did, verified."""
    this = Run(flow, run)
    return publish_run(this._context, ["plan", "verify"])


def verified(flow: Flow, run: str) -> RunReport:
    """The report of a run that was copied and is proved.

    Raises:
        VerificationFailed: if it is not.
    """
    Run(flow, run).verify(NO_SPARK)
    return report_of(flow, run)


def prove(flow: Flow, run: str = "run-1") -> RunReport:
    """The report of a run that has copied all that is new, without Spark, and is proved.

    Raises:
        VerificationFailed: if it is not.
    """
    assert failures(copy_now(flow, run)) == []
    return verified(flow, run)


def run_all(flow: Flow, run: str, spark: SparkSource) -> Run:
    """A run, all steps of which are done here."""
    this = Run(flow, run)
    this.plan()
    this.sync_topics()
    this.mirror(spark)
    this.verify(spark)
    this.sync_groups()
    this.publish()
    return this
