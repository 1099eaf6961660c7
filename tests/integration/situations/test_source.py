"""What can happen to a source's topic before, between and during runs: named, and by policy survived."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_ferry.batches import Reason
from kafka_ferry.config import Flow, load_flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.copy.target.transactional_writer import TransactionalWriter
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.model import Plan, TopicPartition
from kafka_ferry.model.waits import Waits
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failover import copied_ends
from kafka_ferry.runs.provenance.branches import Branches
from kafka_ferry.runs.publish.lag import readable_lag
from kafka_ferry.runs.sync_groups.translate import Translator
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import set_quota
from tests.support.brokers.segments import (
    base_offset,
    broker_down,
    cut_log,
    forget_log_starts,
    keep_before,
    read_batches,
    write_log,
)
from tests.support.records.batches import a_batch
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.histories import named, told, values
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, recount_here


def intervals(flow: Flow) -> list[tuple[int, int]]:
    return [(row["start"], row["end"]) for row in ledger_rows(flow)]


def lost(flow: Flow) -> list[tuple[int, int]]:
    return [(it["start"], it["end"]) for row in ledger_rows(flow) for it in row["lost"]]


# Retention and DeleteRecords


def test_records_deleted_before_a_first_copy_are_no_loss(pair: Pair) -> None:
    topic = pair.topic("expired", named("old", 30))
    delete_before(pair.primary, topic, 10)
    flow = pair.flow([topic])

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert lost(flow) == []


@pytest.mark.parametrize(
    ("policy", "when"), [("fail", "before the plan"), ("continue", "between plan and copy")]
)
def test_records_deleted_before_they_were_copied_are_named_as_lost(
    policy: str, when: str, pair: Pair
) -> None:
    """MirrorMaker 2 situation 1: retention passes the position, and the gap goes unnoticed."""
    topic, other = (pair.topic(it, named("first", 30)) for it in ("truncated", "other"))
    flow = pair.flow([topic, other], on_source_truncation=policy, writers=1)
    copy_now(flow)
    for name in (topic, other):
        pair.produce(name, named("second", 30))

    if when == "before the plan":
        delete_before(pair.primary, topic, 45)
    plan = plan_now(flow, "run-2")
    if when == "between plan and copy":
        delete_before(pair.primary, topic, 45)
    said = [*map(str, plan.remarks.refused), *failures(copy_planned(flow, plan))]

    have = values(pair.backup, remote(flow, topic))
    pair.assert_same(flow, other)
    if policy == "fail":
        (problem,) = said
        assert topic in problem
        assert "offsets [30, 45) were deleted on the source before they were copied" in problem
        assert have == told("first", 30)
        assert lost(flow) == []
    else:
        assert said == []
        assert have == told("first", 30) + told("second", 30, since=15)
        assert lost(flow) == [(30, 45)]
        assert [row["reasons"] for row in ledger_rows(flow) if row["lost"]] == [{Reason.LOST: 15}]
        assert copy_now(flow, "run-3") == []


@pytest.mark.parametrize("offsets", ["translated", "preserved"])
@pytest.mark.parametrize("policy", ["fail", "continue"])
def test_records_deleted_between_a_first_plan_and_its_copy_are_named_as_lost(
    policy: str, offsets: str, pair: Pair
) -> None:
    topic = pair.topic("truncated", named("first", 30))
    flow = pair.flow([topic], on_source_truncation=policy, offsets=offsets)
    plan = plan_now(flow)
    delete_before(pair.primary, topic, 10)

    said = failures(copy_planned(flow, plan))

    if policy == "fail":
        assert "offsets [0, 10) were deleted on the source before they were copied" in said[0]
        assert values(pair.backup, remote(flow, topic)) == []
        # What was planned and lost is named until somebody decides to go on.
        (refused,) = plan_now(flow, "run-2").remarks.refused
        assert "offsets [0, 10) were deleted on the source before they were copied" in str(refused)
        going_on = pair.flow([topic], on_source_truncation="continue", offsets=offsets)
        assert failures(copy_now(going_on, "run-3")) == []
    else:
        assert said == []
    assert lost(flow) == [(0, 10)]
    assert values(pair.backup, remote(flow, topic)) == told("first", 30, since=10)


@pytest.mark.parametrize("policy", ["fail", "continue"])
def test_records_deleted_in_mid_copy_are_named_as_lost(
    policy: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("truncated")
    for number in range(30):
        pair.produce(topic, [Record(value=b"%d " % (number * 10 + i)) for i in range(10)])
    before = read_all(pair.primary.bootstrap, topic)[0]
    flow = pair.flow(
        [topic], on_source_truncation=policy, fetch_max_bytes=1, transaction_max_bytes=1
    )
    commit = TransactionalWriter.commit

    def delete_then_commit(writer: TransactionalWriter, waits: Waits) -> object:
        monkeypatch.undo()
        delete_before(pair.primary, topic, 250)
        return commit(writer, waits)

    monkeypatch.setattr(TransactionalWriter, "commit", delete_then_commit)

    said = failures(copy_now(flow))

    have = [record.value for record in pair.copied(flow, topic)[0]]
    if policy == "fail":
        (problem,) = said
        reached = len(have)
        assert f"offsets [{reached}, 250) were deleted on the source" in problem
        assert 0 < reached < 250
        assert have == [record.value for record in before[:reached]]
    else:
        assert said == []
        ((start, end),) = lost(flow)
        assert end == 250
        assert 0 < start < 250
        kept = before[:start] + before[250:]
        assert have == [record.value for record in kept]
        ends = [end for _, end in intervals(flow)]
        assert [start for start, _ in intervals(flow)] == [0, *ends[:-1]]
        assert ends[-1] == 300


# Topics that go and come


@pytest.mark.parametrize("policy", ["keep", "fail"])
def test_a_topic_deleted_on_the_source_stays_on_the_target_and_is_named(
    policy: str, pair: Pair
) -> None:
    """MirrorMaker 2 situation 2: a deleted topic's copy stays, with a line in a log."""
    topic, other = (pair.topic(it, named("first", 10)) for it in ("deleted", "other"))
    flow = pair.flow([topic, other], on_source_topic_deleted=policy)
    copy_now(flow)
    delete_topic(pair.primary, topic)
    pair.produce(other, named("second", 10))

    plan = plan_now(flow, "run-2")

    assert failures(copy_planned(flow, plan)) == []
    assert values(pair.backup, remote(flow, topic)) == told("first", 10)
    pair.assert_same(flow, other)
    noted, refused = (
        (plan.remarks.notes, plan.remarks.refused)
        if policy == "keep"
        else (plan.remarks.refused, plan.remarks.notes)
    )
    assert [note.topic for note in noted] == [topic]
    assert "deleted on the source" in str(noted[0])
    assert refused == ()


@pytest.mark.parametrize("count", [10, 50], ids=["shorter", "longer"])
@pytest.mark.short("shorter")
def test_a_topic_recreated_goes_whole_after_the_old_one_or_nowhere(count: int, pair: Pair) -> None:
    """MirrorMaker 2 situations 3 and 4: the new topic is taken for the old one.

    Shorter than the position, its records are appended without a word (3); longer, those before
    the position are never copied (4).
    """
    topic = pair.topic("recreated", named("old", 30))
    failing = pair.flow([topic])
    copy_now(failing)
    recreate_topic(pair.primary, topic)
    pair.produce(topic, named("new", count))

    (refusal,) = plan_now(failing, "run-2").remarks.refused
    assert "deleted and recreated" in refusal.reason

    flow = pair.flow([topic], on_source_topic_recreated="append")
    assert failures(copy_now(flow, "run-3")) == []
    assert copy_now(flow, "run-4") == []
    have = told("old", 30) + told("new", count)
    assert values(pair.backup, remote(flow, topic)) == have
    first, second = ledger_rows(flow)
    assert (second["start"], second["end"], second["records"]) == (0, count, count)
    assert first["topic_id"] != second["topic_id"]
    assert second["rewound_from"] == -1

    pair.produce(topic, named("newer", 5))
    assert failures(copy_now(flow, "run-5")) == []
    assert values(pair.backup, remote(flow, topic)) == have + told("newer", 5)


@pytest.mark.parametrize(
    ("policy", "old"),
    [pytest.param("append", 0, id="first run"), pytest.param("fail", 30, id="later run")],
)
def test_a_topic_recreated_between_plan_and_copy_is_not_taken_for_the_old_one(
    policy: str, old: int, pair: Pair
) -> None:
    """MirrorMaker 2 situation 4, in the worst moment."""
    topic, other = (pair.topic(it, named("old", 30)) for it in ("recreated", "other"))
    flow = pair.flow([topic, other], on_source_topic_recreated=policy, writers=1)
    if old:
        copy_now(flow)
        for name in (topic, other):
            pair.produce(name, named("more", 10))
    plan = plan_now(flow, "run-2")
    recreate_topic(pair.primary, topic)
    pair.produce(topic, named("new", 60))

    (problem,) = failures(copy_planned(flow, plan))

    assert problem.startswith(f"{topic}-0 ")
    assert "deleted and recreated since it was planned" in problem
    assert values(pair.backup, remote(flow, topic)) == told("old", old)
    pair.assert_same(flow, other)
    if policy == "append":
        assert failures(copy_now(flow, "run-3")) == []
        assert values(pair.backup, remote(flow, topic)) == told("new", 60)


def test_a_topic_of_that_name_on_another_cluster_is_not_taken_for_the_planned_one(
    pair: Pair,
) -> None:
    topic = pair.topic("orders", named("a", 10))
    flow = pair.flow([topic])
    plan = plan_now(flow)
    # The source's alias leads elsewhere by now. Brokers before 2.8 give topics no ids, which would tell.
    create_topic(pair.backup.bootstrap, topic)
    produce(pair.backup.bootstrap, topic, named("b", 10))
    elsewhere = flow.target.model_copy(update={"alias": flow.source.alias})
    moved = flow.model_copy(update={"source": elsewhere})

    (said,) = failures(copy_planned(moved, plan))

    assert "is the cluster " in said
    assert "was another one when the run was planned" in said
    assert intervals(moved) == []


def test_a_topic_that_vanishes_after_the_plan_is_named_and_a_new_one_waits_for_the_next_run(
    pair: Pair,
) -> None:
    """MirrorMaker 2 situation 13: a new topic is found by the next run, and copied from its start."""
    prefix = pair.unique("family")
    vanishing, staying, appearing = f"{prefix}.a", f"{prefix}.b", f"{prefix}.c"
    for name in (vanishing, staying):
        create_topic(pair.primary.bootstrap, name)
        pair.produce(name, named("first", 10))
    flow = pair.flow([f"{prefix}[.].*"], writers=1)
    plan = plan_now(flow)
    delete_topic(pair.primary, vanishing)
    create_topic(pair.primary.bootstrap, appearing)
    pair.produce(appearing, named("first", 10))

    (problem,) = failures(copy_planned(flow, plan))

    assert problem.startswith(f"{vanishing}-0 ")
    assert "was deleted since it was planned" in problem
    pair.assert_same(flow, staying)
    assert failures(copy_now(flow, "run-2")) == []
    pair.assert_same(flow, appearing)


def test_partitions_added_after_the_plan_are_copied_whole_by_the_next_run(pair: Pair) -> None:
    """MirrorMaker 2 situations 13 and 17: growth is found by the next run, nothing is restarted."""
    topic = pair.topic("grown", named("first", 10))
    flow = pair.flow([topic])
    plan = plan_now(flow)
    add_partitions(pair.primary, topic, 4)
    pair.produce(topic, named("second", 40))

    assert failures(copy_planned(flow, plan)) == []
    assert failures(copy_now(flow, "run-2")) == []

    pair.assert_same(flow, topic)
    assert len(pair.copied(flow, topic)) == 4


@pytest.mark.parametrize("offsets", ["translated", "preserved"])
def test_an_empty_topic_is_created_and_stays_empty(pair: Pair, offsets: str) -> None:
    topic = pair.topic("empty", partitions=3)
    flow = pair.flow([topic], offsets=offsets)

    assert failures(copy_now(flow)) == []
    assert copy_now(flow, "run-2") == []

    assert pair.copied(flow, topic) == {0: [], 1: [], 2: []}


@pytest.mark.parametrize(("offsets", "side"), [("translated", "target"), ("preserved", "source")])
def test_an_empty_topic_that_is_recreated_is_copied_on(pair: Pair, offsets: str, side: str) -> None:
    topic = pair.topic("empty")
    flow = pair.flow([topic], offsets=offsets)
    assert failures(copy_now(flow)) == []

    if side == "source":
        recreate_topic(pair.primary, topic)
    else:
        delete_topic(pair.backup, remote(flow, topic))
    assert failures(copy_now(flow, "run-2")) == []
    pair.produce(topic, named("new", 10))
    assert failures(copy_now(flow, "run-3")) == []

    pair.assert_same(flow, topic)
    assert copy_now(flow, "run-4") == []


# Logs that are truncated


@dataclass(frozen=True)
class Cut:
    """A topic of 30 records whose log was truncated to 20 and then given ``new`` others."""

    flow: Flow
    topic: str
    new: int
    plan: Plan | None = None


POLICIES = ("fail", "continue")
LENGTHS = {"shorter": 5, "longer": 40}
BEGUN = {"translated": "continue", "preserved": "fail"}
UNREAD = ("gap", "lost")
WHENS = ("before the plan", "between plan and copy")
CUTS = [
    ("fail", "shorter", WHENS[0]),
    ("fail", "longer", WHENS[0]),
    ("continue", "longer", WHENS[1]),
    ("continue", "shorter", WHENS[0]),
]


def copied_up_to_nothing(
    kind: str, policy: str, home: Path, source: Broker, backup: KafkaCluster
) -> Cut:
    """A topic of which the last that was copied before the position 30 is no batch.

    Args:
        kind: "gap" where the log has none before an open transaction, "lost" where retention was faster.
        policy: of the flow, on diverged logs.
        home: for the flow's folder.
        source: the broker; in the gap's case its topic is there (``with_gaps``).
        backup: the target.
    """
    topic, folder = f"{kind}-{policy}", home / f"{home.name}-{kind}-{policy}"
    folder.mkdir()
    options = {"on_source_divergence": policy, "on_source_truncation": "continue"}
    flow = make_flow(folder, source, backup, [topic], **options)
    if kind == "lost":
        create_topic(source.bootstrap, topic)
        produce(source.bootstrap, topic, named("old 0", 10))
        assert failures(copy_now(flow, "run-0")) == []
        for part in range(1, 3):
            produce(source.bootstrap, topic, named(f"old {part}", 10))
        delete_before(source, topic, 30)
    assert failures(copy_now(flow)) == []
    assert intervals(flow)[-1][1] == 30
    return Cut(flow, topic, LENGTHS["longer"])


def with_gaps(source: Broker, topics: Sequence[str]) -> None:
    """Topics of 20 records and, from 30 on, an open transaction."""
    open_one = a_batch(
        1,
        at=30,
        producer_id=7,
        transactional=True,
        producer_epoch=0,
        base_sequence=0,
        leader_epoch=0,
    )
    for topic in topics:
        create_topic(source.bootstrap, topic)
        for part in range(2):
            produce(source.bootstrap, topic, named(f"old {part}", 10))
    with broker_down(source, orderly=True):
        for topic in topics:
            write_log(source, topic, [*read_batches(source, topic), open_one])


@pytest.fixture(scope="module")
def cuts(
    tmp_path_factory: pytest.TempPathFactory, backup: KafkaCluster
) -> Iterator[dict[tuple[str, str, str], Cut]]:
    """One broker's topics, all of them truncated at once as no replica could be, and a flow of each."""
    home = tmp_path_factory.mktemp("cut")
    source = Broker(home / "source")
    made = {}

    def a_flow(name: str, **options: object) -> Flow:
        """A flow of a topic of 30 records, in three batches."""
        create_topic(source.bootstrap, name)
        for part in range(3):
            produce(source.bootstrap, name, named(f"old {part}", 10))
        return make_flow(home / f"{home.name}-{name}", source, backup, [name], **options)

    with source:
        with_gaps(source, [f"gap-{policy}" for policy in POLICIES])
        for number, key in enumerate(CUTS):
            policy, length, when = key
            # Where the new log ends before the planned end, the copy waits for more.
            flow = a_flow(f"cut-{number}", on_source_divergence=policy, partition_wait_ms=2_000)
            assert failures(copy_now(flow)) == []
            plan = None
            if when == "between plan and copy":
                produce(source.bootstrap, flow.topics[0], named("never seen", 5))
                plan = plan_now(flow, "run-2")
            made[key] = Cut(flow, flow.topics[0], LENGTHS[length], plan)
        for offsets, policy in BEGUN.items():
            options = {"topics_start": "latest", "on_source_divergence": policy}
            flow = a_flow(f"begun-{offsets}", offsets=offsets, **options)
            assert failures(copy_now(flow)) == []
            made["begun", offsets, ""] = Cut(flow, flow.topics[0], LENGTHS["longer"])
        for policy in POLICIES:
            flow = a_flow(f"emptied-{policy}", on_source_divergence=policy)
            delete_before(source, flow.topics[0], 30)
            assert failures(copy_now(flow)) == []
            made["emptied", policy, ""] = Cut(flow, flow.topics[0], LENGTHS["longer"])
            made |= {
                (kind, policy, ""): copied_up_to_nothing(kind, policy, home, source, backup)
                for kind in UNREAD
            }
        source.stop()
        for cut in made.values():
            cut_log(source, cut.topic, 20)
        forget_log_starts(source)
        source.start().wait_ready()
        for cut in made.values():
            produce(source.bootstrap, cut.topic, named("new", cut.new))
        yield made
    source.wipe()


@pytest.mark.long
@pytest.mark.parametrize("length", LENGTHS)
def test_a_log_that_was_cut_back_after_it_was_copied_is_not_proved(
    length: str, cuts: dict[tuple[str, str, str], Cut], monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    flow = cuts["fail", length, "before the plan"].flow
    with pytest.raises(VerificationFailed, match="lost or replaced 10 offsets before 30"):
        Run(flow, "run-1").verify(NO_SPARK)


@pytest.mark.parametrize("offsets", BEGUN)
def test_a_log_that_was_cut_back_below_its_begin_is_noticed_though_nothing_was_copied_yet(
    offsets: str, cuts: dict[tuple[str, str, str], Cut], backup: KafkaCluster
) -> None:
    """It began at the end, 30, and is longer again: nothing but its leader epoch differs."""
    cut = cuts["begun", offsets, ""]
    plan = plan_now(cut.flow, "run-2")

    said = [*map(str, plan.remarks.refused), *failures(copy_planned(cut.flow, plan))]

    if BEGUN[offsets] == "fail":
        (problem,) = said
        assert "[20, 30)" in problem
    else:
        assert said == []
        assert values(backup, remote(cut.flow, cut.topic)) == told("new", cut.new)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_log_that_was_emptied_and_has_lost_its_start_and_its_end_is_noticed_though_nothing_was_copied(
    policy: str, cuts: dict[tuple[str, str, str], Cut], backup: KafkaCluster
) -> None:
    """No epoch had a record when the copy began at 30; what the log shows again was deleted by then."""
    cut = cuts["emptied", policy, ""]
    plan = plan_now(cut.flow, "run-2")

    said = [*map(str, plan.remarks.refused), *failures(copy_planned(cut.flow, plan))]

    if policy == "fail":
        (problem,) = said
        assert ", 30)" in problem
    else:
        assert said == []
        have = values(backup, remote(cut.flow, cut.topic))
        assert have[-cut.new :] == told("new", cut.new)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", UNREAD)
def test_a_log_that_was_cut_back_below_what_had_no_batch_is_noticed(
    kind: str, policy: str, cuts: dict[tuple[str, str, str], Cut], backup: KafkaCluster
) -> None:
    """The last record that was copied is still there, and what came in the place of the rest was never read."""
    cut = cuts[kind, policy, ""]
    plan = plan_now(cut.flow, "run-2")

    said = [*map(str, plan.remarks.refused), *failures(copy_planned(cut.flow, plan))]

    have = values(backup, remote(cut.flow, cut.topic))
    if policy == "fail":
        (problem,) = said
        assert ", 30)" in problem
        assert have[-1].startswith("old")
    else:
        assert said == []
        assert have[-cut.new :] == told("new", cut.new)


@pytest.mark.parametrize(("policy", "length", "when"), CUTS)
def test_a_log_that_was_cut_back_is_noticed_and_by_policy_followed(
    policy: str, length: str, when: str, cuts: dict[tuple[str, str, str], Cut], backup: KafkaCluster
) -> None:
    """MirrorMaker 2 situation 5: after an unclean leader election it follows without a word, or,
    where the new log is longer already, goes on in its middle."""
    cut = cuts[policy, length, when]
    flow = cut.flow
    plan = cut.plan or plan_now(flow, "run-2")

    said = [*map(str, plan.remarks.refused), *failures(copy_planned(flow, plan))]

    old = [text for part in range(3) for text in told(f"old {part}", 10)]
    have = values(backup, remote(flow, cut.topic))
    if policy == "fail":
        (problem,) = said
        assert cut.topic in problem
        assert "[20, 30)" in problem
        assert have == old
        return
    if cut.plan:
        # The plan's end was the old log's; the next run's is the new one's.
        plan = plan_now(flow, "run-3")
        assert [*plan.remarks.refused, *failures(copy_planned(flow, plan))] == []
        have = values(backup, remote(flow, cut.topic))
    else:
        assert said == []
    assert have == old + told("new", cut.new)
    rewound = [row for row in ledger_rows(flow) if row["rewound_from"] >= 0]
    assert [(row["start"], row["rewound_from"]) for row in rewound] == [(20, 30)]
    assert copy_now(flow, "run-4") == []


@pytest.mark.long
def test_other_records_at_the_copied_offsets_are_noticed_where_the_leader_epochs_are_the_same(
    tmp_path: Path, backup: KafkaCluster
) -> None:
    """A source that was restored from a backup counts its epochs again, and grows past the positions."""
    with Broker(tmp_path / "source") as source:
        flows = {}
        kinds = (
            {},
            {"offsets": "preserved"},
            {"spared": True},
            {"aborted": True},
            {"followed": True},
        )
        for number, options in enumerate(kinds):
            topic, folder = f"restored-{number}", tmp_path / f"restored-{tmp_path.name}-{number}"
            is_spared, is_aborted, is_followed = (
                options.pop(it, False) for it in ("spared", "aborted", "followed")
            )
            later = [f"{topic}-later"] if is_followed else []
            for name in (topic, *later):
                create_topic(source.bootstrap, name)
            flow = make_flow(folder, source, backup, [topic, *later], **options)
            for part in range(2):
                produce(source.bootstrap, topic, named(f"old {part}", 10))
            # What was copied last may be no record: the last one of all is then as it was.
            ends = named("old 2", 9 if is_aborted else 10)
            id_ = "app" if is_aborted else None
            produce(source.bootstrap, topic, ends, transactional_id=id_, abort=is_aborted)
            assert failures(copy_now(flow)) == []
            for name in later:
                # What was copied last of all is as it was.
                produce(source.bootstrap, name, named("kept", 1))
                assert failures(copy_now(flow, "run-1a")) == []
            flows[topic] = flow, is_spared, 2 if is_aborted else 3
        create_topic(source.bootstrap, "others")
        for part in range(3):
            produce(source.bootstrap, "others", named(f"new {part}", 10))
        source.stop()
        new = [batch for batch in read_batches(source, "others") if base_offset(batch) >= 20]
        for topic, (_, is_spared, _) in flows.items():
            if not is_spared:
                keep_before(source, topic, 20)
                write_log(source, topic, [*read_batches(source, topic), *new])
        source.start().wait_ready()
        for topic, (flow, is_spared, parts) in flows.items():
            # It has grown up to the position, so that there is nothing new.
            gone = [it.gone for it in readable_lag(flow).rows if it.topic == topic]
            assert gone == ["" if is_spared else "source replaced"]
            partition = TopicPartition(topic, 0)
            assert (partition in copied_ends(flow, ledger_of(flow))[0]) == is_spared
            (answer,) = Translator(flow).offsets([(partition, 25)])
            assert ("restored from a backup" in answer.reason) != is_spared
            ids = ClusterControl(flow.source).topic_ids([topic])
            branches = Branches.of(flow, ledger_of(flow), ids, by_records=True)
            kept = branches.kept((ids[topic], 0), (0, 10), 0)
            assert (kept, branches.unknown) == ((0, 10) if is_spared else None, ())
            assert bool(plan_now(flow, "run-1b").remarks.refused) != is_spared
            produce(source.bootstrap, topic, named("more", 10))
            plan = plan_now(flow, "run-2")
            said = [*map(str, plan.remarks.refused), *failures(copy_planned(flow, plan))]
            old = [text for part in range(parts) for text in told(f"old {part}", 10)]
            if is_spared:
                assert said == []
                old += told("more", 10)
            else:
                (problem,) = said
                assert "are not the same up to the position 30" in problem
                assert "restored from a backup" in problem
            assert values(backup, remote(flow, topic)) == old
    source.wipe()


# Slow sources


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.long
def test_a_quota_slows_a_copy_down_and_fails_nothing(side: str, pair: Pair) -> None:
    topic, client = pair.unique("throttled"), pair.unique("client")
    # Each broker counts what comes to itself.
    create_topic(pair.primary.bootstrap, topic)
    for _ in range(24):
        pair.produce(topic, [Record(value=bytes(range(256)) * 4 * 50)])
    flow = with_client_id(pair.flow([topic], fetch_max_bytes=200_000), side, client)
    # Brokers average over ten seconds: what is above this in that time is to be waited for.
    broker = pair.primary if side == "source" else pair.backup
    rate = "consumer_byte_rate" if side == "source" else "producer_byte_rate"
    set_quota(broker, (("client-id", client),), rate, 100_000)
    try:
        began = time.monotonic()
        assert failures(copy_now(flow)) == []
        assert time.monotonic() - began > 1.5
    finally:
        set_quota(broker, (("client-id", client),), rate, None)
    pair.assert_same(flow, topic)


def with_client_id(flow: Flow, side: str, client: str) -> Flow:
    file = Path(flow.file)
    options = json.loads(file.read_text())
    options[side]["consumer" if side == "source" else "producer"] = {"client.id": client}
    file.write_text(json.dumps(options))
    return load_flow(file)
