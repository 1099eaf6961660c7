"""Two flows there and back with kept names: each copies what is new, and nothing that came from the other side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.config.reverse_flow import reverse_flow
from kafka_ferry.control import read_positions
from kafka_ferry.errors import AccessDenied, InputError
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.failover.failback import failback as fail_back
from kafka_ferry.runs.provenance import opposite_flow, upstream_flows
from kafka_ferry.runs.publish.lag import lag
from kafka_ferry.runs.takeover.hand_back import hand_back
from kafka_ferry.runs.takeover.takeover import Takeover
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import broker_down, cut_log, restored_from_backup
from tests.support.records.builders import Record, create_topic, produce, recreate_topic
from tests.support.records.histories import named
from tests.support.records.mirror_topics import commit, positions_of_mirrormaker_2
from tests.support.runs.flows import copy_now, copy_planned, failures, ledger_rows, plan_now
from tests.support.runs.killing import Fate, Killed, fated
from tests.support.runs.pair import Pair
from tests.support.runs.proof import prove
from tests.support.runs.topologies import values

pytestmark = pytest.mark.usefixtures("without_spark")

IDENTITY = "IdentityReplicationPolicy"


@pytest.fixture
def orders(pair: Pair) -> str:
    """A topic on both clusters."""
    name = pair.unique("orders")
    for broker in (pair.primary, pair.backup):
        create_topic(broker.bootstrap, name)
    return name


def _both_ways(pair: Pair, orders: str) -> Flow:
    """The flow there; ``reverse_flow`` gives the one back."""
    return pair.flow(
        [orders],
        into=pair.unique("backup"),
        replication_policy_class=IDENTITY,
        on_foreign_records="adopt",
        on_returned_records="leave-out",
    )


@pytest.fixture
def there(pair: Pair, orders: str) -> Flow:
    return _both_ways(pair, orders)


def write(broker: KafkaCluster, topic: str, *texts: str) -> None:
    produce(broker.bootstrap, topic, [Record(value=text.encode()) for text in texts])


def copy(flow: Flow, run: str) -> dict[str, int]:
    """Copy and prove one run; why its offsets are no records on the target."""
    assert prove(flow, run).state == "verified"
    reasons: dict[str, int] = {}
    for row in ledger_rows(flow):
        assert row["end"] - row["start"] == row["records"] + sum(row["reasons"].values())  # type: ignore[operator, attr-defined]
        if row["run"] == run:
            for reason, count in row["reasons"].items():  # type: ignore[attr-defined]
                reasons[reason] = reasons.get(reason, 0) + count
    return reasons


def test_records_of_both_sides_are_on_both_sides_once(pair: Pair, there: Flow, orders: str) -> None:
    back = reverse_flow(there)
    write(pair.primary, orders, "a0", "a1")
    write(pair.backup, orders, "b0")
    assert copy(there, "1-there") == {}
    assert copy(back, "1-back") == {"returned": 2, "control": 1}
    write(pair.primary, orders, "a2")
    write(pair.backup, orders, "b1", "b2")
    assert copy(there, "2-there") == {"returned": 1, "control": 1}
    assert copy(back, "2-back") == {"returned": 1, "control": 1}

    assert values(pair.primary, orders) == ["a0", "a1", "b0", "a2", "b1", "b2"]
    assert values(pair.backup, orders) == ["b0", "a0", "a1", "b1", "b2", "a2"]
    for flow in (there, back, there, back):
        copy(flow, "still")
    assert len(values(pair.primary, orders)) == len(values(pair.backup, orders)) == 6
    assert [row.lag for row in lag(there)] == [0]


@pytest.mark.long
def test_what_applications_wrote_after_the_log_was_cut_back_is_copied(
    pair: Pair, target: Broker, orders: str
) -> None:
    """The opposite flow's ledger still names the offsets at which its own records were."""
    create_topic(target.bootstrap, orders)
    there = _both_ways(replace(pair, backup=target), orders)
    back = reverse_flow(there)
    for run in ("1", "2"):
        write(pair.primary, orders, *(f"a{run}{number}" for number in range(10)))
        copy(there, f"{run}-there")
    with broker_down(target, orderly=True):
        cut_log(target, orders, 11)
    own = [f"b{number}" for number in range(20)]
    write(target, orders, *own[:10])
    write(target, orders, *own[10:])

    assert copy(back, "back") == {"returned": 10, "control": 1}
    assert values(pair.primary, orders)[-20:] == own


@pytest.mark.long
@pytest.mark.parametrize("is_recreated", [False, True])
def test_what_the_other_cluster_has_lost_since_is_copied_back(
    pair: Pair, target: Broker, orders: str, *, is_recreated: bool
) -> None:
    """It counted as returned, and was on neither log of that cluster."""
    create_topic(target.bootstrap, orders)
    there = _both_ways(replace(pair, primary=target), orders)
    there = there.model_copy(update={"on_source_divergence": "continue"})
    back = reverse_flow(there)
    for run in ("1", "2"):
        write(target, orders, *(f"a{run}{number}" for number in range(5)))
    copy(there, "there")
    if is_recreated:
        recreate_topic(target, orders)
    else:
        with broker_down(target, orderly=True):
            cut_log(target, orders, 5)
        write(target, orders, "z0", "z1")
    write(pair.backup, orders, "b0")

    assert copy(back, "back") == ({"control": 1} if is_recreated else {"returned": 5, "control": 1})
    both = sorted(values(pair.backup, orders) + ([] if is_recreated else ["z0", "z1"]))
    assert sorted(values(target, orders)) == both
    if not is_recreated:
        assert copy(there, "again") == {"returned": 6, "control": 1}
        copy(back, "still")
        assert sorted(values(pair.backup, orders)) == sorted(values(target, orders)) == both


@pytest.mark.long
def test_what_a_cluster_lacks_that_was_restored_is_copied_back(
    pair: Pair, target: Broker, orders: str
) -> None:
    """It counted as returned, since its leader epochs had begun again, and was on neither log of that cluster."""
    create_topic(target.bootstrap, orders)
    there = _both_ways(replace(pair, primary=target), orders)
    old = [f"a{number}" for number in range(10)]
    new = [f"z{number}" for number in range(7)]
    write(target, orders, *old[:5])
    with restored_from_backup(target):
        write(target, orders, *old[5:])
        copy(there, "there")
        reader = pair.unique("reader")
        commit(pair.backup, reader, {TopicPartition(orders, 0): 6})
    write(target, orders, *new)
    write(pair.backup, orders, "b0")
    back = reverse_flow(there)

    assert copy(back, "back") == {"returned": 5, "control": 1}
    assert values(target, orders) == [*old[:5], *new, *old[5:], "b0"]
    # It has not read what was written since.
    (group,) = fail_back(there, back, [reader], dry_run=True).groups
    assert group.state == "stuck" or (group.partitions[0].offset or 0) <= 5


@pytest.mark.long
def test_what_has_come_in_the_place_of_a_lost_branch_is_not_sent_back(
    pair: Pair, target: Broker, orders: str
) -> None:
    """It lies below the position, from where on the opposite flow's ledger was read."""
    create_topic(target.bootstrap, orders)
    there = _both_ways(replace(pair, primary=target), orders)
    there = there.model_copy(update={"on_source_divergence": "continue"})
    back = reverse_flow(there)
    for run in ("1", "2"):
        write(target, orders, *(f"a{run}{number}" for number in range(5)))
    copy(there, "there")
    with broker_down(target, orderly=True):
        cut_log(target, orders, 5)
    # The five that were lost are at offsets 5 to 9 again; the flow is at 10.
    assert copy(back, "back") == {"returned": 5, "control": 1}
    write(target, orders, "a30")

    assert copy(there, "again") == {"returned": 5, "control": 1}

    assert len(values(pair.backup, orders)) == 11
    assert sorted(values(pair.backup, orders)) == sorted(values(target, orders))


@pytest.mark.long
def test_a_task_that_finds_a_lost_branch_after_the_plan_sends_nothing_back(
    pair: Pair, target: Broker, orders: str
) -> None:
    """The plan has not read what the opposite flow has written below the position."""
    create_topic(target.bootstrap, orders)
    there = _both_ways(replace(pair, primary=target), orders)
    there = there.model_copy(update={"on_source_divergence": "continue"})
    back = reverse_flow(there)
    write(pair.backup, orders, "b0")
    copy(back, "1-back")
    write(target, orders, *(f"a{number}" for number in range(8)))
    copy(there, "1-there")
    write(target, orders, "a8")
    plan = plan_now(there, "2-there")
    with broker_down(target, orderly=True):
        cut_log(target, orders, 2)
    copy(back, "2-back")
    write(target, orders, "a9")

    (outcome,) = copy_planned(there, plan)

    assert outcome.failure and outcome.failure.transient
    assert copy(there, "3-there") == {"returned": 8, "control": 1}
    assert sorted(values(pair.backup, orders)) == sorted(values(target, orders))


@pytest.mark.long
def test_what_applications_wrote_after_another_mirrors_copies_were_cut_is_copied(
    pair: Pair, target: Broker, orders: str
) -> None:
    """The ledger has no producer of what was taken over."""
    create_topic(target.bootstrap, orders)
    there = _both_ways(replace(pair, backup=target), orders)
    first = now_ms()
    copies = [Record(value=b"a%d" % number, timestamp=first + number) for number in range(10)]
    for broker in (pair.primary, target):
        produce(broker.bootstrap, orders, copies[:5])
        produce(broker.bootstrap, orders, copies[5:])
    positions_of_mirrormaker_2(target, there, {orders: 10})
    (taken,) = Takeover(there, settle_s=0).from_mirrormaker2()
    assert taken.state == "taken over", taken.reason
    with broker_down(target, orderly=True):
        cut_log(target, orders, 5)
    own = [f"b{number}" for number in range(10)]
    for text in own:
        write(target, orders, text)

    assert copy(reverse_flow(there), "back") == {"returned": 5}
    assert values(pair.primary, orders)[-10:] == own


def test_what_another_mirror_may_have_copied_since_a_hand_back_is_not_copied_back(
    pair: Pair, there: Flow, orders: str
) -> None:
    write(pair.primary, orders, "a0")
    copy(there, "there")
    assert [it.state for it in hand_back(there)] == ["given back"]
    # As MirrorMaker 2 would, and an application on the target.
    write(pair.primary, orders, "a1")
    write(pair.backup, orders, "a1", "b0")

    plan = plan_now(reverse_flow(there), "back")
    assert (len(plan.ranges), len(plan.remarks.refused)) == (0, 1)
    assert f"to {orders} on {there.target.alias}, or may have" in str(plan.remarks.refused)


def test_what_another_mirror_has_copied_is_not_copied_back_before_it_is_taken_over(
    pair: Pair, there: Flow, orders: str
) -> None:
    """A failback of a flow that never ran copied all of it back, so that it was there twice."""
    write(pair.primary, orders, "a0", "a1")
    write(pair.backup, orders, "a0", "a1")
    positions_of_mirrormaker_2(pair.backup, there, {orders: 2})
    back = reverse_flow(there)

    plan = plan_now(back, "back")
    assert (len(plan.ranges), len(plan.remarks.refused)) == (0, 1)
    assert f"to {orders} on {there.target.alias}, or may have" in str(plan.remarks.refused)


@pytest.mark.long
def test_many_returned_records_are_passed_over_and_accounted_for(
    pair: Pair, there: Flow, orders: str
) -> None:
    there = there.model_copy(update={"fetch_max_bytes": 20_000, "join_batches_below": 0})
    write(pair.primary, orders, *(f"a{number:0100}" for number in range(5_000)))
    copy(there, "there")
    write(pair.backup, orders, "b0")
    write(pair.primary, orders, "later")
    copy(there, "again")
    write(pair.backup, orders, "b1")

    assert copy(reverse_flow(there), "back") == {"returned": 5_001, "control": 2}
    assert values(pair.primary, orders)[-3:] == ["later", "b0", "b1"]


@pytest.mark.long
def test_what_the_opposite_flow_aborted_is_no_reason_to_leave_anything_out(
    pair: Pair, there: Flow, orders: str
) -> None:
    write(pair.primary, orders, "a0")
    copy(there, "there")
    producer = Producer({"bootstrap.servers": pair.backup.bootstrap, "transactional.id": orders})
    producer.init_transactions()
    for text, ending in (("void", producer.abort_transaction), ("b0", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(orders, value=text.encode())
        producer.flush()
        ending()

    assert copy(reverse_flow(there), "back") == {"returned": 1, "aborted": 1, "control": 3}
    assert values(pair.primary, orders) == ["a0", "b0"]


def test_a_topic_stays_left_out_whole_unless_the_flow_says_otherwise(
    pair: Pair, there: Flow, orders: str
) -> None:
    write(pair.primary, orders, "a0")
    copy_now(there)
    back = reverse_flow(there).model_copy(update={"on_returned_records": "skip"})
    reasons = {skip.topic: skip.reason for skip in plan_now(back).remarks.skipped}
    assert "itself are copied to it" in reasons[orders]
    uncommitted = reverse_flow(there).model_copy(update={"isolation_level": "read_uncommitted"})
    (refused,) = plan_now(uncommitted, "uncommitted").remarks.refused
    assert f"cannot be told from those of {back.source.alias}" in refused.reason


def test_a_topic_into_which_the_opposite_flow_has_copied_nothing_is_no_copy(
    pair: Pair, there: Flow, orders: str
) -> None:
    """As after a failback where no application has written on the other cluster."""
    plain = there.model_copy(update={"on_returned_records": "skip"})
    back = reverse_flow(there)
    for run, texts in (("empty", ()), ("first", ("a0",))):
        write(pair.primary, orders, *texts)
        copy_now(plain, run)
        copy_now(back, f"{run}-back")
        remarks = plan_now(plain, f"{run}-again").remarks
        assert orders not in {it.topic for it in (*remarks.refused, *remarks.skipped)}
        assert [row.topic for row in lag(plain)] == [orders]

    write(pair.backup, orders, "b0")
    copy_now(back, "second-back")
    (refused,) = plan_now(plain, "second").remarks.refused
    assert "itself are copied to it" in refused.reason
    with pytest.raises(InputError, match=f"{orders}: .*itself are copied to it"):
        lag(plain)


def test_a_topic_that_a_third_flow_brought_back_is_refused(
    pair: Pair, there: Flow, orders: str
) -> None:
    write(pair.primary, orders, "a0")
    copy_now(there)
    more = pair.topic("more", [Record(value=b"a1")])
    into = {"topics_rename": {more: orders}, "on_foreign_records": "adopt"}
    flow = pair.flow([more], into=there.target.alias, **into)
    other = flow.model_copy(
        update={"source": flow.source.model_copy(update={"alias": f"{pair.folder.name}-too"})}
    )
    assert failures(copy_now(other)) == []
    assert orders in {refused.topic for refused in plan_now(reverse_flow(there)).remarks.refused}


def test_a_recreated_topic_is_no_copy_any_more(pair: Pair, there: Flow, orders: str) -> None:
    write(pair.primary, orders, "a0")
    copy_now(there)
    recreate_topic(pair.backup, orders)
    write(pair.backup, orders, "b0")
    assert copy(reverse_flow(there), "back") == {}
    assert values(pair.primary, orders) == ["a0", "b0"]


def test_without_a_ledger_that_can_be_read_the_topic_is_refused(
    pair: Pair, there: Flow, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object) -> None:
        raise AccessDenied("No right.")

    write(pair.primary, orders, "a0")
    copy_now(there)
    monkeypatch.setattr(opposite_flow, "wait_until_settled", deny)
    plan = plan_now(reverse_flow(there))
    assert "are not copied: No right." in str(plan.remarks.notes[0])
    assert orders in {refused.topic for refused in plan.remarks.refused}


def test_where_positions_may_not_be_seen_the_ledger_says_what_came_from_the_target(
    pair: Pair, there: Flow, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object) -> None:
        raise AccessDenied("No right.")

    write(pair.primary, orders, "a0")
    write(pair.backup, orders, "b0")
    copy_now(there)
    back = reverse_flow(there).model_copy(update={"on_returned_records": "skip"})
    monkeypatch.setattr(upstream_flows, "read_positions", deny)
    reasons = {skip.topic: skip.reason for skip in plan_now(back).remarks.skipped}
    assert "itself are copied to it" in reasons[orders]
    # Where it may not be read either, nothing says that there are none.
    monkeypatch.setattr(upstream_flows, "_in_ledger_alone", lambda *_: None)
    assert [refused.topic for refused in plan_now(back).remarks.refused] == [orders]
    monkeypatch.setattr(upstream_flows, "ledger_topic", lambda alias: f"there-is-no-{alias}")
    assert not plan_now(back).remarks.refused


def test_a_position_after_many_returned_records_has_their_leader_epoch(pair: Pair) -> None:
    """By nothing else would the next run know that the log was truncated below it, and has grown again."""
    topic = pair.topic("preserved", named("first", 10))
    pair.produce(topic, named("more", 1_490))
    there = pair.flow(
        [topic], into=pair.unique("backup"), offsets="preserved", replication_policy_class=IDENTITY
    ).model_copy(update={"join_batches_below": 0})
    assert failures(copy_now(there)) == []
    back = reverse_flow(there).model_copy(update={"fetch_max_bytes": 1_000})

    assert failures(copy_now(back)) == []

    (row,) = ledger_rows(back)
    assert (row["end"], row["reasons"]) == (1_500, {"returned": 1_500})
    (position,) = read_positions(back.target, back.name).values()
    assert position.leader_epoch >= 0


def test_what_a_killed_run_has_written_with_its_offsets_came_from_there_too(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("preserved")
    there = pair.flow(
        [topic], into=pair.unique("backup"), offsets="preserved", replication_policy_class=IDENTITY
    )
    write(pair.primary, topic, "a0", "a1")
    copy(there, "there")
    write(pair.primary, topic, "a2", "a3")
    plan = plan_now(there, "killed")
    with fated(monkeypatch, Fate(after="ProduceRequest")), pytest.raises(Killed):
        copy_planned(there, plan)
    write(pair.backup, topic, "b0")
    assert values(pair.backup, topic) == ["a0", "a1", "a2", "a3", "b0"]

    assert copy(reverse_flow(there), "back") == {"returned": 4}
    assert values(pair.primary, topic) == ["a0", "a1", "a2", "a3", "b0"]
