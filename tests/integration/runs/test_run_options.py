"""What is asked of one run: some topics only, no more than a plan, no faster than so, all of it proved again."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.copy import RateLimit, copy_for_flow
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.model import Plan, RunOptions
from kafka_ferry.model.rate import Rate
from kafka_ferry.runs import Run
from kafka_ferry.runs.progress import log_progress
from kafka_ferry.runs.publish.lag import readable_lag
from kafka_ferry.spark.session import SparkSource, terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, delete_topic, produce
from tests.support.runs.flows import copy_now, copy_planned, failures, ledger_rows, remote
from tests.support.runs.pair import Pair

NO_SPARK: Any = None
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("tests of options", tasks=2) as spark:
        yield spark


def a_topic(
    broker: KafkaCluster,
    topic: str,
    records: int = 50,
    size: int = 10,
    age_ms: int = 0,
    **configs: str,
) -> str:
    create_topic(broker.bootstrap, topic, **configs)
    fill(broker, topic, records, size, age_ms)
    return topic


def fill(broker: KafkaCluster, topic: str, records: int, size: int, age_ms: int = 0) -> None:
    at = now_ms() - age_ms
    values = [Record(b"%d" % n, b"v" * size, timestamp=at) for n in range(records)]
    produce(broker.bootstrap, topic, values)


def planned(flow: Flow, run: str, **asked: object) -> tuple[Run, Plan]:
    this = Run(flow, run)
    return this, this.plan(RunOptions(**asked))  # type: ignore[arg-type]


def copied(flow: Flow) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in ledger_rows(flow):
        topic = str(row["topic"])
        counts[topic] = counts.get(topic, 0) + int(str(row["records"]))
    return counts


@pytest.mark.usefixtures("without_docs")
def test_a_run_may_be_about_some_topics_and_the_next_one_is_about_all_again(
    pair: Pair,
    spark: SparkSource,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_ferry.runs.progress._LINES_EVERY_S", 0.3)
    orders, payments, gone = (
        a_topic(pair.primary, pair.unique(name)) for name in ("orders", "payments", "gone")
    )
    flow = pair.flow(
        [orders, payments, gone],
        on_source_topic_deleted="retire",
        transaction_max_ms=300,
        rate_limit_bytes="10GiB",
    )
    assert not failures(copy_now(flow, "run-0"))
    delete_topic(pair.primary, gone)
    for topic in (orders, payments):
        # Of a batch that is the only one, nothing would have to wait.
        for _ in range(8):
            fill(pair.primary, topic, 25, 2_000)

    this, plan = planned(flow, "run-1", topics=(orders[:-1] + ".",), max_bytes_per_s=150_000)
    this.sync_topics()
    with caplog.at_level(logging.INFO, logger="kafka_ferry"):
        with log_progress(this):
            outcomes = this.mirror(spark)
        this.verify(spark)
        this.sync_groups()
        report = this.publish()

    assert {range_.topic for range_ in plan.ranges} == {orders}
    assert plan.topics.retirements == ()
    assert copied(flow) == {orders: 250, payments: 50, gone: 50}
    # 400 kB, of which neither the last batch nor a second's worth need be waited for.
    (outcome,) = outcomes
    assert outcome.ended_at - outcome.began_at >= 1_000
    assert report.state == "verified" and report.measures
    assert any("This run is only for" in note and "other 1" in note for note in report.topics.notes)
    assert report.measures.verified_until == 0, "most of the flow was not looked at"
    lines = [record.message for record in caplog.records]
    under_way = [line for line in lines if line.startswith(f"{flow.name}, {orders}: ")]
    assert any("/s, about" in line for line in under_way), lines
    assert "100 %, 200 records" in under_way[-1] and under_way[-1].endswith("done")
    tables = [line.split()[:3] for line in lines]
    assert tables.count([orders, "1", "200"]) == 2, "of the copy, and of the report"

    this, plan = planned(flow, "run-2")
    assert len(plan.topics.retirements) == 1
    assert not failures(copy_planned(flow, this.sync_topics()))
    assert copied(flow) == {orders: 250, payments: 250, gone: 50}


def test_topics_that_do_not_exist_and_invalid_patterns_are_refused(pair: Pair) -> None:
    topic = a_topic(pair.primary, pair.unique("misspelt"), records=1)
    flow = pair.flow([topic])
    with pytest.raises(FerryError, match=r"no topic on .* that matches ordres") as raised:
        planned(flow, "run-1", topics=("ordres",))
    assert not raised.value.transient
    with pytest.raises(ConfigError, match=r"not a valid regular expression"):
        planned(flow, "run-1", topics=("*",))
    # Beside a topic that is there, the lag of the others is shown.
    behind = readable_lag(flow, RunOptions(topics=(topic, "ordres")))
    assert [row.topic for row in behind.rows] == [topic]
    assert behind.unknown == (
        f"{flow.name} has no topic on {flow.source.alias} that matches ordres.",
    )


def test_a_dry_run_changes_nothing_whatever_is_done_with_it(pair: Pair) -> None:
    topic = a_topic(pair.primary, pair.unique("dry"))
    flow = pair.flow([topic])
    this, plan = planned(flow, "run-1", dry_run=True)
    assert plan.offsets == 50

    for step in (
        this.sync_topics,
        lambda: this.mirror(NO_SPARK),
        lambda: this.verify(NO_SPARK),
        this.sync_groups,
        this.publish,
    ):
        with pytest.raises(FerryError, match="run-1 is a dry run"):
            step()  # type: ignore[operator]

    assert Run(flow, "run-1").plan().topics.creations, "the remote topic is still to be created"


@pytest.mark.long
def test_all_that_was_ever_copied_can_be_proved_again(pair: Pair, spark: SparkSource) -> None:
    orders, payments = (a_topic(pair.primary, pair.unique(name)) for name in ("again", "not-again"))
    flow = pair.flow([orders, payments])
    assert not failures(copy_now(flow, "run-1"))
    Run(flow, "run-1").verify(spark)

    def judged(run: str, *, everything: bool = False, **asked: object) -> dict[str, int]:
        this, _ = planned(flow, run, **asked)
        this.verify(spark, everything=everything)
        found = this.reconciliation()
        assert found
        return {row.topic: row.recount.target_records for row in found.ranges}

    assert judged("run-2") == {}
    assert judged("run-3", verify_all=True, topics=(orders,)) == {orders: 50}
    assert judged("run-4", everything=True) == {orders: 50, payments: 50}
    produce(pair.backup.bootstrap, remote(flow, orders), [Record(b"k", b"another client's")])
    for run, everything in (("run-5", False), ("run-6", True)):
        with pytest.raises(FerryError, match=orders):
            judged(run, verify_all=everything)


@pytest.mark.parametrize(
    ("offsets", "rate"), [("translated", Rate(100_000)), ("preserved", Rate(records_per_s=10))]
)
def test_a_copy_is_no_faster_than_its_limit_and_commits_in_time(
    pair: Pair, offsets: str, rate: Rate
) -> None:
    topic = pair.topic("slow")
    for _ in range(30):
        pair.produce(topic, [Record(value=b"x" * 10_000)])
    flow = pair.flow(
        [topic],
        offsets=offsets,
        transaction_max_ms=500,
        join_batches_below=32_768 if rate.bytes_per_s else 0,
    )
    this, _ = planned(flow, "run-1")
    ranges = this.sync_topics().ranges
    began = time.monotonic()

    outcomes = copy_for_flow(flow, "run-1", ranges, RateLimit(rate))

    # 300 kB in 30 records, of which the last batch is not waited for.
    assert not failures(outcomes)
    assert time.monotonic() - began >= 1.5
    assert len(ledger_rows(flow)) >= 3, "readers of the target never wait for the limit"
    pair.assert_same(flow, topic)


def test_what_expires_first_is_copied_first(pair: Pair) -> None:
    week = str(7 * DAY)
    late, soon, never = (
        a_topic(pair.primary, pair.unique("late"), 300, 1_000, age_ms=HOUR, retention_ms=week),
        a_topic(pair.primary, pair.unique("soon"), 300, 1_000, age_ms=6 * DAY, retention_ms=week),
        a_topic(pair.primary, pair.unique("never"), 300, 1_000, age_ms=6 * DAY, retention_ms="-1"),
    )
    flow = pair.flow(
        [late, soon, never], writers=1, fetch_max_bytes="64KiB", transaction_max_bytes="32KiB"
    )
    this, plan = planned(flow, "run-1")
    expires = {range_.topic: range_.expires_at for range_ in plan.ranges}
    assert expires[never] == -1
    assert expires[soon] == pytest.approx(now_ms() + DAY, abs=HOUR)
    assert expires[late] == pytest.approx(now_ms() + 7 * DAY - HOUR, abs=HOUR)

    assert not failures(copy_for_flow(flow, "run-1", this.sync_topics().ranges))

    order = list(dict.fromkeys(str(row["topic"]) for row in ledger_rows(flow)))
    assert order == [soon, late, never]


def test_no_line_is_written_of_a_run_with_nothing_to_copy(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    topic = a_topic(pair.primary, pair.unique("idle"), records=1)
    flow = pair.flow([topic])
    assert not failures(copy_now(flow, "run-0"))
    this, plan = planned(flow, "run-1")
    assert not any(map(len, plan.ranges))
    with caplog.at_level(logging.INFO, logger="kafka_ferry.runs.progress"), log_progress(this):
        pass
    assert not [it for it in caplog.records if it.name == "kafka_ferry.runs.progress"]
