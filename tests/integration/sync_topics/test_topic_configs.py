"""What becomes of topic configs: taken over at once, kept the same later, and never wiped without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import Creation, Plan
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.plan import Growth
from kafka_ferry.runs import Run
from kafka_ferry.runs.sync_topics import apply, topic_configs
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.everywhere import wait_for_config
from tests.support.brokers.old_brokers import broker_of
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    delete_topic,
    overrides,
    produce,
    recreate_topic,
    set_config,
)
from tests.support.records.histories import named
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.killing import Killed
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until


def change(broker: KafkaCluster, resource: ConfigResource, name: str, value: str | None) -> None:
    """Sets a config, or unsets it; returns when each broker has heard of it."""
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=kind))
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.incremental_alter_configs([resource])[resource].result()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG

    def heard() -> bool:
        entry = client.describe_configs([resource])[resource].result()[name]
        is_set = entry.source in {source.value for source in own}
        return (entry.value if is_set else None) == value

    wait_until(heard)
    if resource.restype == ResourceType.TOPIC:
        wait_for_config(broker.bootstrap, resource.name, name, value)


def unset_config(broker: KafkaCluster, topic: str, name: str) -> None:
    """Unsets a config of a topic."""
    change(broker, ConfigResource(ResourceType.TOPIC, topic), name, None)


@contextmanager
def set_on_the_brokers(broker: Brokers, name: str, value: str) -> Iterator[None]:
    """Within, each of the cluster's brokers has a config that it was given while it ran."""

    def change_all(value: str | None) -> None:
        for node in broker.brokers:
            change(broker, ConfigResource(ResourceType.BROKER, str(node)), name, value)

    change_all(value)
    try:
        yield
    finally:
        change_all(None)


def entries_of(flow: Flow) -> int:
    """How many entries the ledger has on what the flow has applied."""
    return sum(row["type"] == "applied" for row in ledger_of(flow).read().to_pylist())


def unchanged(plan: Plan) -> bool:
    """Whether the plan leaves all configs as they are, and has nothing to say of them."""
    return (
        plan.topics.config_changes,
        plan.topics.drifts,
        plan.topics.set_configs,
        plan.remarks.unapplied,
    ) == ((), (), (), ())


# New remote topics


def test_a_new_remote_topic_has_the_sources_configs_at_once(pair: Pair) -> None:
    topic = pair.topic(
        "new",
        retention_ms="86400000",
        cleanup_policy="compact,delete",
        compression_type="lz4",
        message_timestamp_type="LogAppendTime",
        min_insync_replicas="1",
    )
    flow = pair.flow([topic])

    with set_on_the_brokers(pair.primary, "log.index.interval.bytes", "8192"):
        plan = plan_now(flow)

    assert overrides(pair.backup, remote(flow, topic)) == {
        "retention.ms": "86400000",
        "cleanup.policy": "compact,delete",
        "index.interval.bytes": "8192",
    }
    assert unchanged(plan)
    assert unchanged(plan_now(flow, "run-2")) is False  # the brokers' own config is unset again
    assert "index.interval.bytes" not in overrides(pair.backup, remote(flow, topic))
    assert unchanged(plan_now(flow, "run-3"))


def test_what_copying_needs_is_not_taken_over_whatever_the_options_say(pair: Pair) -> None:
    topic = pair.topic(
        "needed",
        compression_type="lz4",
        message_timestamp_type="LogAppendTime",
        min_insync_replicas="1",
    )
    flow = pair.flow([topic], config_properties_exclude=[])

    plan_now(flow)

    assert overrides(pair.backup, remote(flow, topic)) == {"min.insync.replicas": "1"}


def test_a_target_whose_default_replaces_times_gets_topics_that_keep_them(pair: Pair) -> None:
    topic = pair.topic("old-times")
    # Older than its arrival, and younger than what the brokers' own retention deletes.
    pair.produce(topic, [Record(value=b"old", timestamp=now_ms() - 3_600_000)])
    flow = pair.flow([topic])

    with set_on_the_brokers(pair.backup, "log.message.timestamp.type", "LogAppendTime"):
        assert not failures(copy_now(flow))
        pair.assert_same(flow, topic)
        assert copy_now(flow, "run-2") == []

    assert overrides(pair.backup, remote(flow, topic)) == {"message.timestamp.type": "CreateTime"}


def test_a_copy_that_would_be_deleted_sooner_than_its_source_is_named_from_the_first_run_on(
    pair: Pair,
) -> None:
    """The target's default shows once the topic is there."""
    topic = pair.topic("for-ever", (), retention_ms="-1")
    flow = pair.flow([topic], config_properties_exclude=["retention.ms"])
    said = (
        f"{topic}: {remote(flow, topic)} deletes records that the source keeps, copied and proved or not: it "
        "keeps 7 d 0 h (retention.ms=604800000), the source all. Set retention.ms in topics.configs, or name its "
        "present value there if that is meant."
    )
    for run in ("run-1", "run-2"):
        assert said in map(str, plan_now(flow, run).remarks.notes)
    chosen = pair.flow([topic], topics_configs={".*": {"retention.ms": "604800000"}})
    assert plan_now(chosen, "run-3").remarks.notes == ()


def test_the_sources_defaults_are_set_where_the_flow_says_so(pair: Pair) -> None:
    topic = pair.topic("defaults", retention_ms="1000000")
    flow = pair.flow(
        [topic],
        use_defaults_from="source",
        config_properties_exclude=["(?!retention|segment.ms).*"],
    )

    plan_now(flow)

    have = overrides(pair.backup, remote(flow, topic))
    assert (have["retention.ms"], have["segment.ms"]) == ("1000000", "604800000")
    assert all(name.startswith(("retention", "segment.ms")) for name in have)
    assert unchanged(plan_now(flow, "run-2"))


# Later changes


def test_what_changes_on_the_source_is_changed_on_the_target_and_nothing_else_is_sent(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, quiet = pair.unique("changing"), pair.unique("quiet")
    create_topic(pair.primary.bootstrap, topic, retention_ms="1000000", segment_ms="700000")
    create_topic(pair.primary.bootstrap, quiet, retention_ms="1000000")
    flow = pair.flow([topic, quiet])
    plan_now(flow)
    set_config(pair.primary, topic, "retention.ms", "2000000")
    set_config(pair.primary, topic, "max.message.bytes", "2000000")
    set_config(pair.primary, topic, "min.insync.replicas", "1")
    unset_config(pair.primary, topic, "segment.ms")
    sent: list[Any] = []
    alter = ClusterControl.alter_configs
    monkeypatch.setattr(
        ClusterControl,
        "alter_configs",
        lambda self, changes: [sent.append(changes), alter(self, changes)][1],
    )

    plan = plan_now(flow, "run-2")

    name = remote(flow, topic)
    assert sent == [
        {
            name: [
                ConfigChange(topic, name, "max.message.bytes", "2000000", None),
                ConfigChange(topic, name, "retention.ms", "2000000", "1000000"),
                ConfigChange(topic, name, "segment.ms", None, "700000"),
            ]
        }
    ]
    assert (plan.topics.drifts, plan.remarks.unapplied) == ((), ())
    assert overrides(pair.backup, name) == {
        "retention.ms": "2000000",
        "max.message.bytes": "2000000",
    }
    written = entries_of(flow)
    assert unchanged(plan_now(flow, "run-3"))
    assert (len(sent), entries_of(flow)) == (1, written)


# Drift


@pytest.mark.parametrize("policy", ["keep", "overwrite"])
def test_what_another_client_set_on_the_target_is_named_and_kept_or_overwritten(
    policy: str, pair: Pair
) -> None:
    """MirrorMaker 2 wipes such an override within ten minutes, and says nothing."""
    topic = pair.topic("drift", retention_ms="1000000", segment_ms="700000")
    flow = pair.flow([topic], on_config_drift=policy)
    name = remote(flow, topic)
    plan_now(flow)
    set_config(pair.backup, name, "retention.ms", "9000000")
    set_config(pair.backup, name, "flush.ms", "5000")
    unset_config(pair.backup, name, "segment.ms")
    theirs = overrides(pair.backup, name)

    for number in (2, 3):
        plan = plan_now(flow, f"run-{number}")
        if policy == "overwrite" and number == 3:
            assert unchanged(plan)
            continue
        found = [(it.name, it.wanted, it.found, it.overwritten) for it in plan.topics.drifts]
        over = policy == "overwrite"
        assert found == [
            ("flush.ms", None, "5000", over),
            ("retention.ms", "1000000", "9000000", over),
            ("segment.ms", "700000", None, over),
        ]
        assert plan.remarks.unapplied == ()
    ours = {"retention.ms": "1000000", "segment.ms": "700000"}
    assert overrides(pair.backup, name) == (theirs if policy == "keep" else ours)

    # Once both sides agree again, the value is the flow's, and follows the source.
    set_config(pair.backup, name, "retention.ms", "1000000")
    plan_now(flow, "run-4")
    set_config(pair.primary, topic, "retention.ms", "3000000")
    plan_now(flow, "run-5")
    assert overrides(pair.backup, name)["retention.ms"] == "3000000"


def test_two_flows_into_one_topic_do_not_overwrite_each_other(tmp_path: Path, pair: Pair) -> None:
    topic = pair.topic("shared", retention_ms="1000000")
    flows = []
    for _ in range(2):
        home = tmp_path / pair.unique("src")
        options = {"replication_policy_class": "IdentityReplicationPolicy"}
        flows.append(make_flow(home, pair.primary, pair.backup, [topic], **options))
    plan_now(flows[0])
    set_config(pair.primary, topic, "retention.ms", "2000000")
    plan = plan_now(flows[1])

    assert [(it.wanted, it.found) for it in plan.topics.drifts] == [("2000000", "1000000")]
    assert overrides(pair.backup, topic) == {"retention.ms": "1000000"}


def test_what_another_client_changes_while_a_plan_waits_is_left_alone_and_named(pair: Pair) -> None:
    topic, lost = (pair.topic(it, retention_ms="1000000") for it in ("approved", "lost"))
    flow = pair.flow([topic, lost])
    plan_now(flow)
    for name in (topic, lost):
        set_config(pair.primary, name, "retention.ms", "2000000")
    run = Run(flow, "run-2")
    run.plan()
    set_config(pair.backup, remote(flow, topic), "retention.ms", "9000000")
    recreate_topic(pair.backup, remote(flow, lost), retention_ms="5000000")

    unapplied = run.sync_topics().remarks.unapplied

    assert len(unapplied) == 2
    assert any("another client has changed it since the run was planned" in it for it in unapplied)
    assert any("the topic was deleted since the run was planned" in it for it in unapplied)
    assert overrides(pair.backup, remote(flow, topic)) == {"retention.ms": "9000000"}
    assert overrides(pair.backup, remote(flow, lost)) == {"retention.ms": "5000000"}
    (drift, *_) = [it for it in plan_now(flow, "run-3").topics.drifts if it.topic == topic]
    assert (drift.wanted, drift.found, drift.overwritten) == ("2000000", "9000000", False)


def test_a_step_that_is_repeated_after_newer_runs_leaves_what_they_did(pair: Pair) -> None:
    topic = pair.topic("cleared", retention_ms="1000000")
    flow = pair.flow([topic])
    name = remote(flow, topic)
    for number in (1, 2, 3):
        set_config(pair.primary, topic, "retention.ms", f"{number}000000")
        plan_now(flow, f"run-{number}")

    for number in (1, 2):
        assert Run(flow, f"run-{number}").sync_topics().remarks.refused == ()

    assert overrides(pair.backup, name) == {"retention.ms": "3000000"}
    assert unchanged(plan_now(flow, "run-4"))
    set_config(pair.primary, topic, "retention.ms", "4000000")
    assert plan_now(flow, "run-5").topics.drifts == ()
    assert overrides(pair.backup, name) == {"retention.ms": "4000000"}


def test_a_step_that_is_repeated_after_its_topic_has_gone_gives_no_other_one_its_partitions(
    pair: Pair,
) -> None:
    topic = pair.topic("gone")
    flow = pair.flow([topic])
    name = remote(flow, topic)
    plan_now(flow)
    add_partitions(pair.primary, topic, 3)
    assert plan_now(flow, "run-2").topics.growths == (Growth(name, 3),)
    delete_topic(pair.backup, name)

    (refusal,) = Run(flow, "run-1").sync_topics().remarks.refused
    assert "was created since the run was planned, and deleted again" in refusal.reason
    assert not ClusterControl(flow.target).topic_ids([name])
    create_topic(pair.backup.bootstrap, name)
    (refusal,) = Run(flow, "run-2").sync_topics().remarks.refused
    assert "was deleted since the run was planned" in refusal.reason
    assert ClusterControl(flow.target).topics([name])[name].partitions == 1


# What the target does not take


def with_configs(plan: Plan, **configs: str) -> Plan:
    """The plan of a source that has configs which no broker of this version knows, or takes."""
    names = {name.replace("_", "."): value for name, value in configs.items()}
    changes = replace(
        plan.topics,
        creations=tuple(
            replace(it, configs={**it.configs, **names}) for it in plan.topics.creations
        ),
        config_changes=plan.topics.config_changes
        + tuple(
            ConfigChange(it.remote_topic, it.remote_topic, name, value, None)
            for it in plan.topics.set_configs
            for name, value in names.items()
        ),
        set_configs=tuple(
            replace(it, configs={**it.configs, **names}) for it in plan.topics.set_configs
        ),
    )
    return replace(plan, topics=changes)


UNTAKEN = [
    {"compression_lz5_level": "1", "segment_bytes": "1"},
    {"no_such_config": "1"},
    {"retention_bytes": "plenty"},
    {"no_such_config": "1", "segment_bytes": "1"},
]


@pytest.mark.short("create-compression_lz5_level,segment_bytes", "alter-retention_bytes")
@pytest.mark.parametrize("untaken", UNTAKEN, ids=",".join)
@pytest.mark.parametrize("how", ["create", "alter"])
def test_a_config_that_the_target_does_not_take_is_named_and_left_out(
    how: str, untaken: dict[str, str], pair: Pair
) -> None:
    topic = pair.topic("untaken", named("kept", 10), retention_ms="1000000")
    flow = pair.flow([topic])
    if how == "alter":
        plan_now(flow)
        set_config(pair.primary, topic, "retention.ms", "2000000")
    run = Run(flow, "run-2")
    run._folder.save_plan(with_configs(run.plan(), **untaken))

    plan = run.sync_topics()

    assert plan.remarks.refused == ()
    named_ = sorted(name.replace("_", ".") for name in untaken)
    assert len(plan.remarks.unapplied) == len(named_)
    for name, sentence in zip(named_, plan.remarks.unapplied, strict=True):
        assert f"{remote(flow, topic)}: {name} could not be set." in sentence
        assert "config.properties.exclude" in sentence
    kept = {"retention.ms": "1000000" if how == "create" else "2000000"}
    assert overrides(pair.backup, remote(flow, topic)) == kept
    assert copy_planned(flow, plan)[0].failure is None
    pair.assert_same(flow, topic)
    # The ledger says nothing of what was left out.
    (sets,) = ledger_of(flow).applied().configs.values()
    assert sets == kept
    if how == "alter":  # a step that is repeated comes to the same
        assert run.sync_topics().remarks.unapplied == plan.remarks.unapplied


def test_a_refusal_that_names_no_config_refuses_the_topic(pair: Pair) -> None:
    topic = pair.topic("refused")
    flow = pair.flow([topic])
    run = Run(flow, "run-1")
    plan = run.plan()
    (creation,) = plan.topics.creations
    many = replace(plan.topics, creations=(replace(creation, replication_factor=4),))
    run._folder.save_plan(replace(plan, topics=many))

    (refusal,) = run.sync_topics().remarks.refused

    assert refusal.topic == topic
    assert "INVALID_REPLICATION_FACTOR" in refusal.reason


# Crashes


@dataclass
class Death:
    """When the process dies.

    Attributes:
        at: in which of the calls that change something, counted from 0.
        before: whether before it, or after it.
    """

    at: int
    before: bool
    calls: int = 0


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, death: Death) -> Iterator[None]:
    """Within, the process dies as ``death`` says."""

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            number, death.calls = death.calls, death.calls + 1
            if number == death.at and death.before:
                raise Killed
            result = function(*args, **more)
            if number == death.at:
                raise Killed
            return result

        return call

    with monkeypatch.context() as patch:
        for owner, name in (
            (topic_configs, "append_entry"),
            (apply, "mark_topics"),
            (ClusterControl, "create_topics"),
            (ClusterControl, "alter_configs"),
        ):
            patch.setattr(owner, name, mortal(getattr(owner, name)))
        yield


# After the creation of its own topics.
CALLS_TO_CREATE = ["announced", "created", "marked", "confirmed"]
CALLS_TO_ALTER = ["announced", "marked", "altered", "confirmed"]
BEFORE_AND_AFTER = pytest.mark.parametrize("before", [True, False], ids=["before", "after"])


@pytest.mark.short("created-after", "confirmed-before")
@BEFORE_AND_AFTER
@pytest.mark.parametrize("call", CALLS_TO_CREATE)
def test_what_a_run_created_before_it_died_is_the_flows_own(
    call: str, before: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("dying", retention_ms="1000000", segment_ms="700000")
    flow = pair.flow([topic])
    death = Death(CALLS_TO_CREATE.index(call) + 1, before)
    with dying(monkeypatch, death), pytest.raises(Killed):
        plan_now(flow)
    set_config(pair.primary, topic, "retention.ms", "2000000")
    unset_config(pair.primary, topic, "segment.ms")

    plan = plan_now(flow, "run-2")

    assert (plan.topics.drifts, plan.remarks.unapplied) == ((), ())
    assert overrides(pair.backup, remote(flow, topic)) == {"retention.ms": "2000000"}
    ledger = ledger_of(flow)
    assert [mark.created for mark in ledger.marks().values()] == [True]
    assert (ledger.applied().creations, ledger.applied().pending) == ({}, {})
    assert unchanged(plan_now(flow, "run-3"))


@pytest.mark.short("tried-again")
@pytest.mark.parametrize("again", [True, False], ids=["tried-again", "next-run"])
def test_what_another_client_has_created_and_filled_after_a_run_died_is_not_the_flows_own(
    again: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("dying")
    flow = pair.flow([topic], on_foreign_records="adopt")
    with dying(monkeypatch, Death(1, before=False)), pytest.raises(Killed):
        plan_now(flow)
    create_topic(pair.backup.bootstrap, remote(flow, topic))
    produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"of another client")])

    if again:
        Run(flow, "run-1").sync_topics()
    else:
        plan_now(flow, "run-2")

    assert [mark.created for mark in ledger_of(flow).marks().values()] == [False]


@pytest.mark.short("announced-before", "altered-after")
@pytest.mark.parametrize(
    ("before", "then"),
    [(True, "another client changes it"), (False, "the source changes again")],
    ids=["before", "after"],
)
@pytest.mark.parametrize("call", CALLS_TO_ALTER)
def test_what_a_run_changed_before_it_died_is_the_flows_own(
    then: str, call: str, before: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("dying", retention_ms="1000000", segment_ms="700000")
    flow = pair.flow([topic])
    name = remote(flow, topic)
    plan_now(flow)
    set_config(pair.primary, topic, "retention.ms", "2000000")
    unset_config(pair.primary, topic, "segment.ms")
    death = Death(CALLS_TO_ALTER.index(call) + 1, before)
    with dying(monkeypatch, death), pytest.raises(Killed):
        plan_now(flow, "run-2")
    if then == "the source changes again":
        set_config(pair.primary, topic, "retention.ms", "3000000")
        want = {"retention.ms": "3000000"}
    else:
        set_config(pair.backup, name, "retention.ms", "9000000")
        want = {"retention.ms": "9000000"}

    plan = plan_now(flow, "run-3")

    drifted = ["retention.ms"] if then == "another client changes it" else []
    assert [it.name for it in plan.topics.drifts] == drifted
    assert plan.remarks.unapplied == ()
    assert overrides(pair.backup, name) == want
    assert ledger_of(flow).applied().pending == {}
    if not drifted:
        assert unchanged(plan_now(flow, "run-4"))


# Preserved offsets, old brokers


def test_a_topic_with_preserved_offsets_follows_its_sources_configs_too(pair: Pair) -> None:
    topic = pair.topic("preserved", named("first", 20), retention_ms="1000000")
    flow = pair.flow([topic], offsets="preserved")
    copy_now(flow)
    set_config(pair.primary, topic, "cleanup.policy", "compact")
    pair.produce(topic, named("second", 20))

    copy_now(flow, "run-2")

    pair.assert_same(flow, topic)
    want = {"retention.ms": "1000000", "cleanup.policy": "compact"}
    assert overrides(pair.backup, remote(flow, topic)) == want


@pytest.mark.long
def test_a_broker_that_changes_no_single_config_is_told_of_once(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, primary: KafkaCluster, unique: Unique
) -> None:
    topics = [unique("old"), unique("older")]
    for topic in topics:
        create_topic(primary.bootstrap, topic, retention_ms="1000000")
    with broker_of("0.11.0.3", tmp_path_factory.mktemp("old")) as old:
        # Another note says that such a broker cannot be asked about ACLs either.
        # It has no default that a client could ask for (KIP-464).
        flow = make_flow(
            folder, primary, old, topics, sync_topic_acls_enabled=False, replication_factor=1
        )
        assert plan_now(flow).remarks.notes == ()
        for topic in topics:
            set_config(primary, topic, "retention.ms", "2000000")
        for number in (2, 3):
            plan = plan_now(flow, f"run-{number}")
            assert len(plan.topics.config_changes) == 2
            # The copies keep their records shorter by now, which is said of each.
            (note,) = [note for note in plan.remarks.notes if not note.topic]
            assert "cannot change single configs of a topic" in str(note)
            assert (plan.remarks.unapplied, plan.topics.drifts, plan.remarks.refused) == (
                (),
                (),
                (),
            )


def test_a_topic_that_another_client_has_created_since_the_plan_is_left_to_the_next_run(
    pair: Pair,
) -> None:
    """The topic is its own, and so are what it has set and what may be in it."""
    topic = pair.topic("faster", retention_ms="1000000")
    flow = pair.flow([topic])
    run = Run(flow, "run-1")
    assert [type(it) for it in run.plan().topics.creations] == [Creation]
    create_topic(pair.backup.bootstrap, remote(flow, topic), retention_ms="9000000")

    (refusal,) = run.sync_topics().remarks.refused
    assert refusal.reason.endswith("another client has created it since the run was planned.")
    (drift,) = plan_now(flow, "run-2").topics.drifts
    assert (drift.wanted, drift.found) == ("1000000", "9000000")
    delete_topic(pair.backup, remote(flow, topic))


def test_a_topic_that_another_run_of_the_flow_has_created_since_the_plan_is_its_own(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a backfill beside a scheduled run."""
    topics = [pair.topic(it, [Record(b"k", b"v")]) for it in ("first", "second")]
    flow = pair.flow(topics)
    hasty = flow.model_copy(update={"admin_timeout_ms": 1_000})
    runs = [Run(flow, "run-1"), Run(hasty, "run-2"), Run(flow, "run-3")]
    plans = [run.plan() for run in runs]
    assert {len(plan.topics.creations) for plan in plans} == {2}

    with dying(monkeypatch, Death(3, before=True)), pytest.raises(Killed):
        runs[0].sync_topics()
    # No flow has said yet whose they are.
    assert len(runs[1].sync_topics().remarks.refused) == 2
    # What has created them goes on, and the others wait for it.
    with ThreadPoolExecutor() as pool:
        later = pool.submit(runs[2].sync_topics)
        first = runs[0].sync_topics()
    for plan in (first, later.result()):
        assert (plan.remarks.refused, plan.remarks.unapplied) == ((), ())
        assert not failures(copy_planned(flow, plan))
    for topic in topics:
        pair.assert_same(flow, topic)
