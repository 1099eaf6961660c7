"""What a plan finds out about real topics before it lets a flow go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafka_ferry.batches import Reason
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow, kafka_python_config
from kafka_ferry.control import read_positions
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs import Run
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.runs.publish.lag import lag
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.epochs import epoch_ends
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import deny
from tests.support.brokers.segments import cut_log
from tests.support.records.builders import (
    Record,
    begin_transaction,
    create_topic,
    delete_before,
    produce,
    recreate_topic,
)
from tests.support.records.histories import named, told, values
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair, Unique

# Whose records a remote topic holds


def test_a_remote_topic_with_aborted_records_alone_is_not_foreign(pair: Pair) -> None:
    """So a first run leaves it that was killed before it had committed anything."""
    topic = pair.topic("aborted", named("first", 10))
    flow = pair.flow([topic])
    create_topic(pair.backup.bootstrap, remote(flow, topic))
    produce(
        pair.backup.bootstrap,
        remote(flow, topic),
        named("aborted", 5),
        transactional_id=topic,
        abort=True,
    )

    plan = plan_now(flow)

    assert (plan.remarks.refused, plan.remarks.notes) == ((), ())
    assert len(plan.ranges) == 1


def test_one_committed_record_after_aborted_ones_makes_it_foreign(pair: Pair) -> None:
    topic = pair.topic("mixed")
    flow = pair.flow([topic])
    create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=3)
    for abort in (True, False):
        records = named("theirs", 5)
        produce(
            pair.backup.bootstrap, remote(flow, topic), records, transactional_id=topic, abort=abort
        )

    (refusal,) = plan_now(flow).remarks.refused

    assert (refusal.topic, refusal.partition) == (topic, None)
    assert f"{remote(flow, topic)} on backup holds records" in refusal.reason
    assert "on.foreign.records: adopt" in refusal.advice


def test_records_in_a_remote_topic_that_others_recreated_are_foreign(pair: Pair) -> None:
    """Its name is in the ledger; the topic is another one."""
    topic = pair.topic("taken", named("first", 10))
    flow = pair.flow([topic], on_target_topic_lost="recopy")
    assert failures(copy_now(flow)) == []
    recreate_topic(pair.backup, remote(flow, topic))
    assert plan_now(flow, "run-2").remarks.refused == ()
    produce(pair.backup.bootstrap, remote(flow, topic), named("theirs", 5))

    (refusal,) = plan_now(flow, "run-3").remarks.refused

    assert "holds records that this flow has not copied" in refusal.reason


@pytest.mark.long
def test_foreign_records_are_seen_where_both_topics_were_recreated_too(pair: Pair) -> None:
    """The positions of the old pair say nothing of the new one."""
    topic = pair.topic("recreated", named("old", 30))
    flow = pair.flow([topic])
    assert failures(copy_now(flow)) == []
    recreate_topic(pair.primary, topic)
    pair.produce(topic, named("new", 5))
    recreate_topic(pair.backup, remote(flow, topic))
    produce(pair.backup.bootstrap, remote(flow, topic), named("theirs", 5))

    (refusal,) = plan_now(flow, "run-2").remarks.refused
    assert "holds records that this flow has not copied" in refusal.reason

    flow = pair.flow([topic], on_foreign_records="adopt")
    assert failures(copy_now(flow, "run-3")) == []
    assert values(pair.backup, remote(flow, topic)) == told("theirs", 5) + told("new", 5)
    assert copy_now(flow, "run-4") == []


@pytest.fixture
def strict(folder: Path) -> Iterator[KafkaCluster]:
    """A target on which a client without a login is bound by ACLs."""
    broker = Broker(folder / "strict", config={"super.users": "User:nobody"})
    with broker:
        yield broker
    broker.wipe()


def test_records_that_may_not_be_read_are_not_written_after(
    folder: Path, primary: KafkaCluster, strict: KafkaCluster, unique: Unique
) -> None:
    topic, other = unique("unread"), unique("other")
    for name in (topic, other):
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("first", 10))
    flow = make_flow(folder, primary, strict, [topic, other])
    create_topic(strict.bootstrap, remote(flow, topic))
    produce(strict.bootstrap, remote(flow, topic), named("whose", 5))
    deny(strict, f"topic {remote(flow, topic)}", "READ")

    plan = plan_now(flow)

    (refusal,) = plan.remarks.refused
    assert refusal.topic == topic
    assert "whose records they are is unknown" in refusal.reason
    assert "TOPIC_AUTHORIZATION_FAILED" in refusal.reason
    assert "Otherwise repair the topic. Or set on.foreign.records: adopt." in refusal.advice
    assert [range_.topic for range_ in plan.ranges] == [other]


# How far a plan may go


def test_a_plan_ends_before_open_transactions_unless_uncommitted_records_are_wanted(
    pair: Pair,
) -> None:
    topic = pair.topic("open", named("first", 10))
    hour_old = Record(value=b"open", timestamp=now_ms() - 3_600_000)
    producer = begin_transaction(pair.primary.bootstrap, topic, topic, hour_old)
    pair.produce(topic, named("hidden", 5))
    ends, notes, held = [], [], []
    for level in ("read_committed", "read_uncommitted"):
        flow = pair.flow([topic], isolation_level=level)
        plan = plan_now(flow)
        ends += [range_.end for range_ in plan.ranges]
        notes += [str(note) for note in plan.remarks.notes]
        held += [row.held_back for row in lag(flow)]
    producer.abort_transaction()
    assert ends == [10, 16]
    (note,) = notes
    assert f"{topic}-0: an open transaction of producer " in note
    assert "begun 1 h 0 min ago, holds back 6 offsets" in note
    assert held == [6, 0]
    flow = pair.flow([topic])
    assert not plan_now(flow).remarks.notes
    assert [row.held_back for row in lag(flow)] == [0]


def test_where_all_that_was_to_be_copied_is_deleted_the_loss_alone_is_recorded(pair: Pair) -> None:
    topic = pair.topic("emptied", named("first", 30))
    flow = pair.flow([topic], on_source_truncation="continue")
    assert failures(copy_now(flow)) == []
    pair.produce(topic, named("second", 30))
    delete_before(pair.primary, topic, 60)

    plan = plan_now(flow, "run-2")
    assert [(range_.start, range_.end) for range_ in plan.ranges] == [(30, 60)]
    assert failures(copy_planned(flow, plan)) == []

    lost = [(row["start"], row["end"], row["reasons"]) for row in ledger_rows(flow)]
    assert lost == [(0, 30, {}), (30, 60, {Reason.LOST: 30})]
    assert copy_now(flow, "run-3") == []


# Where a log parts from the one that was copied


@pytest.mark.long
def test_the_end_of_the_positions_leader_epoch_is_where_the_log_was_cut(
    folder: Path, backup: KafkaCluster
) -> None:
    source = Broker(folder / "source")
    with source:
        for topic in ("cut", "whole"):
            create_topic(source.bootstrap, topic)
            for part in range(3):
                produce(source.bootstrap, topic, named(f"old {part}", 10))
        flow = make_flow(folder, source, backup, ["cut", "whole"])
        assert failures(copy_now(flow)) == []
        before = ends_of_positions(flow)
        source.stop()
        cut_log(source, "cut", 20)
        source.start().wait_ready()
        for topic in ("cut", "whole"):
            produce(source.bootstrap, topic, named("new", 40))

        assert before == {"cut": 30, "whole": 30}
        assert ends_of_positions(flow) == {"cut": 20, "whole": 30}
        assert [refusal.topic for refusal in plan_now(flow, "run-2").remarks.refused] == ["cut"]
        assert ends_of(flow, {"cut": 1_000_000}) == {}
    source.wipe()


def ends_of_positions(flow: Flow) -> dict[str, int]:
    """Where the source ends the leader epoch of each topic's position."""
    positions = read_positions(flow.target, flow.name)
    epochs = {
        tp.topic.removeprefix(f"{flow.source.alias}."): position.leader_epoch
        for tp, position in positions.items()
    }
    return ends_of(flow, epochs)


def ends_of(flow: Flow, epochs: dict[str, int]) -> dict[str, int]:
    settings = kafka_python_config(flow.source.client_properties("consumer"))
    with WireCluster(flow.source.alias, settings) as cluster:
        ends = epoch_ends(
            cluster, {TopicPartition(topic, 0): epoch for topic, epoch in epochs.items()}
        )
    return {tp.topic: found.end for tp, found in ends.items()}


@pytest.mark.long
def test_a_log_that_was_cut_back_and_has_nothing_new_yet_is_followed_once_it_has(
    folder: Path, backup: KafkaCluster
) -> None:
    source = Broker(folder / "source")
    with source:
        create_topic(source.bootstrap, "cut")
        for part in range(3):
            produce(source.bootstrap, "cut", named(f"old {part}", 10))
        flow = make_flow(folder, source, backup, ["cut"], on_source_divergence="continue")
        assert failures(copy_now(flow)) == []
        source.stop()
        cut_log(source, "cut", 20)
        source.start().wait_ready()

        plan = plan_now(flow, "run-2")
        assert [(range_.start, range_.end) for range_ in plan.ranges] == [(20, 20)]
        assert [
            "[20, 30) were copied from a branch" in note.message for note in plan.remarks.notes
        ] == [True]
        assert failures(copy_planned(flow, plan)) == []
        produce(source.bootstrap, "cut", named("new", 40))
        assert failures(copy_now(flow, "run-3")) == []

        old = [text for part in range(3) for text in told(f"old {part}", 10)]
        assert values(backup, remote(flow, "cut")) == old + told("new", 40)
        rows = [(row["start"], row["end"], row["rewound_from"]) for row in ledger_rows(flow)]
        assert rows == [(0, 30, -1), (20, 60, 30)]
        assert copy_now(flow, "run-4") == []
    source.wipe()


def test_addresses_that_were_exchanged_are_told_by_the_ledger_on_the_source(pair: Pair) -> None:
    flow = pair.flow([pair.topic("mine", named("first", 1))])
    assert not [note for note in plan_now(flow).remarks.notes if "exchanged?" in str(note)]
    create_topic(pair.primary.bootstrap, ledger_topic(flow.source.alias))

    (note,) = plan_now(flow).remarks.notes

    assert "are the addresses of" in str(note)


def test_a_topic_that_the_file_leaves_out_by_now_leaves_its_copy_behind_and_says_so_once(
    pair: Pair,
) -> None:
    kept, dropped = (pair.topic(name, named("first", 1)) for name in ("kept", "dropped"))

    def copy(flow: Flow, run: str) -> Sequence[str]:
        this = Run(flow, run)
        notes = this.plan().remarks.notes
        plan = this.sync_topics()
        Copying(this._context).begin(plan)
        assert failures(copy_planned(flow, plan)) == []
        return [*map(str, notes)]

    assert copy(pair.flow([kept, dropped]), "run-1") == []
    flow = pair.flow([kept])
    for run, said in (
        ("run-2", [f"before to {remote(flow, dropped)}: what is there"]),
        ("run-3", []),
    ):
        pair.produce(kept, named(run, 1))
        notes = copy(flow, run)
        assert len(notes) == len(said)
        assert all(text in note for text, note in zip(said, notes, strict=True))


# What the state folder holds


def test_a_table_that_cannot_be_read_is_made_anew_by_the_next_run(pair: Pair) -> None:
    topic = pair.topic("damaged", named("first", 10))
    flow = pair.flow([topic])
    assert failures(copy_now(flow)) == []
    for file in Path(flow.state_path, flow.slug, "ledger").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:100])
    pair.produce(topic, named("second", 5))

    assert failures(copy_now(flow, "run-2")) == []

    pair.assert_same(flow, topic)
    assert sum(row["records"] for row in ledger_rows(flow)) == 15
