"""Configs of tiered storage (KIP-405), between clusters that have it and clusters that have not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import Plan
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.tiered import TieredBroker
from tests.support.records.builders import create_topic, produce, set_config
from tests.support.records.histories import named
from tests.support.runs.flows import assert_same, copy_planned, failures, make_flow, remote
from tests.support.runs.pair import Unique

pytestmark = pytest.mark.long
RETENTION = {"retention.ms": "1000000"}
TIERS = {
    "remote.storage.enable": "true",
    "local.retention.ms": "100000",
    "local.retention.bytes": "200000",
    "remote.log.delete.on.disable": "false",
}
READ_ONLY = {
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "true",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
}


@contextmanager
def started(broker: TieredBroker) -> Iterator[TieredBroker]:
    broker.start()
    try:
        yield broker.wait_ready()
    finally:
        broker.wipe()


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredBroker]:
    with started(TieredBroker(tmp_path_factory.mktemp("tiered"))) as broker:
        yield broker


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredBroker]:
    with started(TieredBroker(tmp_path_factory.mktemp("other"))) as broker:
        yield broker


def a_topic(broker: KafkaCluster, name: str, configs: Mapping[str, str]) -> str:
    options = {key.replace(".", "_"): value for key, value in configs.items()}
    create_topic(broker.bootstrap, name, **options)
    produce(broker.bootstrap, name, named(name, 10))
    return name


def configs_of(flow: Flow, topic: str) -> dict[str, str]:
    name = remote(flow, topic)
    there = ClusterControl(flow.target).topics([name])[name]
    return {key: there.configs[key] for key in there.overrides}


def run_now(flow: Flow, run: str) -> tuple[Plan, Plan]:
    """A run's plan, and what came of it; nothing may be refused, and nothing left unapplied."""
    this = Run(flow, run)
    plan = this.plan()
    synced = this.sync_topics()
    assert (synced.remarks.refused, synced.remarks.unapplied) == ((), ())
    assert failures(copy_planned(flow, synced)) == []
    return plan, synced


def notes(plan: Plan) -> list[str]:
    return [note.message for note in plan.remarks.notes]


def is_quiet(plan: Plan) -> bool:
    changes = plan.topics
    return not (changes.config_changes or changes.set_configs or changes.drifts)


@pytest.mark.parametrize("tiers", [TIERS, READ_ONLY], ids=["tiers", "read-only"])
def test_a_target_without_tiered_storage_gets_the_topic_without_its_configs(
    tiered: TieredBroker, backup: KafkaCluster, folder: Path, unique: Unique, tiers: dict[str, str]
) -> None:
    topic = a_topic(tiered, unique("tiered"), RETENTION | tiers)
    late = a_topic(tiered, unique("late"), RETENTION)
    flow = make_flow(folder, tiered, backup, [topic, late])
    plan, synced = run_now(flow, "run-1")
    (note,) = notes(plan)
    assert "backup has no tiered storage" in note
    assert notes(synced) == [note]
    assert_same(tiered, topic, backup, remote(flow, topic))
    # A topic that exists may become tiered later.
    set_config(tiered, late, "remote.storage.enable", "true")
    plan, _ = run_now(flow, "run-2")
    assert is_quiet(plan)
    assert notes(plan) == [note]
    set_config(tiered, topic, "retention.ms", "3000000")
    (change,) = run_now(flow, "run-3")[0].topics.config_changes
    assert change.name == "retention.ms"
    assert configs_of(flow, topic) == {"retention.ms": "3000000"}
    assert configs_of(flow, late) == RETENTION
    assert is_quiet(run_now(flow, "run-4")[0])


def test_a_target_with_tiered_storage_follows_the_source(
    tiered: TieredBroker, other: TieredBroker, folder: Path, unique: Unique
) -> None:
    topic = a_topic(tiered, unique("tiered"), RETENTION | TIERS)
    late = a_topic(tiered, unique("late"), RETENTION)
    flow = make_flow(folder, tiered, other, [topic, late])
    assert notes(run_now(flow, "run-1")[0]) == []
    assert configs_of(flow, topic) == RETENTION | TIERS
    assert is_quiet(run_now(flow, "run-2")[0])
    set_config(tiered, late, "remote.storage.enable", "true")
    set_config(tiered, topic, "local.retention.ms", "-2")
    set_config(tiered, topic, "local.retention.bytes", "-2")
    set_config(tiered, topic, "remote.log.copy.disable", "true")
    run_now(flow, "run-3")
    assert configs_of(flow, topic) == RETENTION | TIERS | READ_ONLY
    assert configs_of(flow, late) == RETENTION | {"remote.storage.enable": "true"}
    assert is_quiet(run_now(flow, "run-4")[0])


def test_a_shorter_retention_of_the_copy_comes_without_the_source_s_local_one(
    tiered: TieredBroker, other: TieredBroker, folder: Path, unique: Unique
) -> None:
    topic = a_topic(tiered, unique("tiered"), RETENTION | TIERS)
    shorter = {"retention.ms": "50000"}
    flow = make_flow(folder, tiered, other, [topic], topics_configs={topic: shorter})
    run_now(flow, "run-1")
    wanted = TIERS | shorter
    del wanted["local.retention.ms"]
    assert configs_of(flow, topic) == wanted
    assert is_quiet(run_now(flow, "run-2")[0])


@pytest.mark.parametrize("on_drift", ["keep", "overwrite"])
def test_a_copy_that_the_target_s_operator_has_made_tiered_stays_so(
    backup: KafkaCluster, tiered: TieredBroker, folder: Path, unique: Unique, on_drift: str
) -> None:
    topic = a_topic(backup, unique("plain"), RETENTION)
    flow = make_flow(folder, backup, tiered, [topic], on_config_drift=on_drift)
    run_now(flow, "run-1")
    set_config(tiered, remote(flow, topic), "remote.storage.enable", "true")
    plan, synced = run_now(flow, "run-2")
    assert is_quiet(plan)
    assert notes(synced) == []
    assert configs_of(flow, topic) == RETENTION | {"remote.storage.enable": "true"}
