"""A position that another client has committed in the flow's group is not believed, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Flow
from kafka_ferry.control import read_positions
from kafka_ferry.errors import ClusterUnreachable, VerificationFailed
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model import Plan, TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.runs import Run, lag
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, begin_transaction, create_topic
from tests.support.records.groups import commit_alone
from tests.support.runs.flows import assert_same, copy_now, copy_planned, failures, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, prove, recount_here

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.fixture
def copied(pair: Pair, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Flow:
    """A flow that has copied and proved 200 records of a topic, and has 50 more to copy."""
    recount_here(monkeypatch)
    topic = pair.topic("moved")
    flow = pair.flow([topic], offsets=request.param, writers=2)
    for run, records in (("run-1", 100), ("run-2", 100)):
        pair.produce(topic, [Record(b"k", b"v")] * records)
        prove(flow, run)
    pair.produce(topic, [Record(b"k", b"v")] * 50)
    return flow


def target_of(flow: Flow) -> TopicPartition:
    return TopicPartition(remote(flow, flow.topics[0]), 0)


def position(flow: Flow) -> int:
    return read_positions(flow.target, flow.name)[target_of(flow)].offset


def move(flow: Flow, backup: KafkaCluster, offset: int) -> None:
    commit_alone(backup, f"ferry.{flow.name}", {target_of(flow): offset})


def with_policy(flow: Flow, value: str) -> Flow:
    return flow.model_copy(update={"on_position_moved": value})


def planned(flow: Flow, run: str) -> tuple[Run, Plan]:
    """A run that has begun."""
    this = Run(flow, run)
    this.plan()
    plan = this.sync_topics()
    if plan.ranges:
        this._copying().begin(plan)
    return this, plan


@pytest.mark.parametrize(
    ("copied", "offset"),
    [("translated", 230), pytest.param("preserved", 150, marks=pytest.mark.long)],
    indirect=["copied"],
)
def test_a_moved_position_is_refused_by_name_or_the_ledgers_is_restored(
    pair: Pair, copied: Flow, offset: int
) -> None:
    move(copied, pair.backup, offset)

    _, plan = planned(copied, "run-3")

    (refusal,) = plan.remarks.refused
    assert f"the position {offset}, but by the ledger copying has reached 200" in str(refusal)
    assert plan.ranges == ()
    assert position(copied) == offset, "a refused partition is left as it is"
    (row,) = lag(copied)
    assert (row.position, row.lag, row.moved_to) == (200, 50, offset)

    flow = with_policy(copied, "ledger")
    run, plan = planned(flow, "run-4")
    assert "Copying continues at 200" in str(plan.remarks.notes)
    assert position(flow) == 200
    assert not failures(copy_planned(flow, plan))
    run.verify(NO_SPARK)
    assert position(flow) == 250
    assert_same(pair.primary, flow.topics[0], pair.backup, target_of(flow).topic)


@pytest.mark.parametrize("copied", ["translated", "preserved"], indirect=True)
@pytest.mark.short("translated")
def test_a_position_that_is_moved_between_plan_and_copy_fails_the_verification(
    copied: Flow, backup: KafkaCluster
) -> None:
    run, plan = planned(copied, "run-3")
    move(copied, backup, 230)
    copy_planned(copied, plan)
    with pytest.raises(VerificationFailed):
        run.verify(NO_SPARK)
    # And so does each later one: what is missing lies before all that is to be verified.
    later, _ = planned(with_policy(copied, "ledger"), "run-4")
    with pytest.raises(VerificationFailed):
        later.verify(NO_SPARK)


@pytest.mark.parametrize("copied", ["translated"], indirect=True)
def test_a_position_that_is_committed_as_it_is_loses_its_metadata_and_nothing_else(
    pair: Pair, copied: Flow
) -> None:
    """``--reset-offsets --to-current``."""
    move(copied, pair.backup, 200)
    run, plan = planned(copied, "run-3")
    assert (plan.remarks.refused, plan.remarks.notes) == ((), ())
    assert not failures(copy_planned(copied, plan))
    run.verify(NO_SPARK)
    assert_same(pair.primary, copied.topics[0], pair.backup, target_of(copied).topic)


@pytest.mark.long
@pytest.mark.parametrize("copied", ["translated"], indirect=True)
def test_positions_are_not_judged_by_a_ledger_whose_newest_records_are_hidden(
    pair: Pair, copied: Flow
) -> None:
    """As by another flow of the same source whose writer was killed, until its transaction times out."""
    flow = with_policy(copied, "ledger")
    _, plan = planned(flow, "run-3")
    ledger, record = ledger_topic(flow.source.alias), Record(value=b"open")
    stranger = begin_transaction(
        pair.backup.bootstrap, flow.name, ledger, record, timeout_ms=600_000
    )
    assert not failures(copy_planned(copied, plan))
    assert position(flow) == 250
    group = f"ferry.{flow.name}"
    client = AdminClient({"bootstrap.servers": pair.backup.bootstrap})
    client.delete_consumer_groups([group])[group].result()
    before = read_positions(flow.target, flow.name)

    with retry_for(1), pytest.raises(ClusterUnreachable, match="hides the newest records") as error:
        planned(flow.model_copy(update={"admin_timeout_ms": 1_000}), "run-4")

    assert "kafka-transactions.sh" in error.value.advice
    assert read_positions(flow.target, flow.name) == before
    stranger.abort_transaction()
    run, plan = planned(flow, "run-5")
    assert plan.remarks.refused == ()
    assert not any(map(len, plan.ranges))
    run.verify(NO_SPARK)
    assert_same(pair.primary, flow.topics[0], pair.backup, target_of(flow).topic)


def test_a_position_of_which_the_ledger_knows_nothing_skips_nothing(pair: Pair) -> None:
    topic, other = (pair.topic(it, [Record(b"k", b"v")] * 10) for it in ("first", "other"))
    flow = pair.flow([other])
    assert not failures(copy_now(flow))
    flow = flow.model_copy(update={"topics": (topic, other)})
    create_topic(pair.backup.bootstrap, remote(flow, topic))
    commit_alone(pair.backup, f"ferry.{flow.name}", {TopicPartition(remote(flow, topic), 0): 7})

    _, plan = planned(flow, "run-2")

    (refusal,) = plan.remarks.refused
    assert "offsets [0, 7) would be left out" in str(refusal)


def test_records_after_a_position_that_is_set_back_are_not_copied_without_their_rule(
    pair: Pair,
) -> None:
    topic = pair.topic("masked", [Record(b"k", b"v")] * 10)
    flow = pair.flow([topic], transform=[{"topics": [topic], "where": "key is null"}])
    plan = plan_now(flow)
    # Planned as a range without records, which comes without what evaluates rules.
    (range_,) = (replace(it, start=it.end) for it in plan.ranges)
    move(flow, pair.backup, 7)

    (outcome,) = copy_planned(flow, replace(plan, ranges=(range_,)))

    assert outcome.position == 7
    assert "at offset 7: a transform rule cannot be applied" in str(outcome.failure)
    assert "Run it again" in str(outcome.failure)
    assert pair.copied(flow, topic)[0] == []
