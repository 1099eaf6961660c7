"""Whatever is killed, cut, stalled or deleted, and however often: the copy is exact in the end."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_sandbox.broker import Broker, start_all
from tests.faults.evidence import differences
from tests.faults.faults import COPIER, SPARK
from tests.faults.generator import Generator
from tests.faults.runs import Runs
from tests.faults.storm import Storm, Victim
from tests.support.builders import create_topic, read_all
from tests.support.flows import assert_same, ledger_rows, make_flow, remote
from tests.support.proxy import ProxiedBroker
from tests.support.spark_cluster import SparkCluster

PARTITIONS = (1, 3, 4)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--storm-seed")
    return random.SystemRandom().randrange(1 << 32) if given is None else int(given)


@pytest.fixture
def brokers(folder: Path) -> Iterator[dict[str, ProxiedBroker]]:
    brokers = {side: ProxiedBroker(folder / side) for side in ("source", "target")}
    try:
        start_all(brokers.values())
        yield brokers
    finally:
        for broker in brokers.values():
            broker.wipe()


@pytest.fixture
def topics(brokers: dict[str, ProxiedBroker], unique: Callable[[str], str]) -> dict[str, int]:
    """Topics of the source with their numbers of partitions."""
    topics = {unique("storm"): partitions for partitions in PARTITIONS}
    for name, partitions in topics.items():
        # Old timestamps would make the log old, and its segments be deleted.
        create_topic(brokers["source"].bootstrap, name, partitions, retention_ms="-1")
    return topics


@pytest.fixture
def flow(folder: Path, brokers: dict[str, ProxiedBroker], topics: dict[str, int]) -> Flow:
    """A flow in small steps, so that faults hit it between any two of them."""
    return make_flow(
        folder,
        brokers["source"].proxied,
        brokers["target"].proxied,
        topics,
        transaction_max_bytes=20_000,
        fetch_max_bytes=10_000,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_copier_storm(
    folder: Path,
    flow: Flow,
    brokers: dict[str, ProxiedBroker],
    topics: dict[str, int],
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    storm = make_storm(folder, flow, brokers, seed, "threads")
    with told(storm, f"copier-{seed}", folder):
        with Generator(brokers["source"].bootstrap, topics, seed, most=300_000, pause=0.4):
            storm.rage(COPIER, request.config.getoption("--storm-faults") or 160, 0.6)
            storm.calm_brokers()
        storm.calm()
        assert_exact(storm, topics)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_spark_storm(
    folder: Path,
    flow: Flow,
    brokers: dict[str, ProxiedBroker],
    topics: dict[str, int],
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    with SparkCluster(folder / "spark") as spark:
        storm = make_storm(folder, flow, brokers, seed, "spark", spark)
        with told(storm, f"spark-{seed}", folder):
            with Generator(brokers["source"].bootstrap, topics, seed, most=300_000, pause=0.8):
                storm.rage(SPARK, request.config.getoption("--storm-faults") or 45, 4.0)
                storm.calm_brokers()
            storm.calm()
            assert_exact(storm, topics)


def make_storm(
    folder: Path,
    flow: Flow,
    brokers: dict[str, ProxiedBroker],
    seed: int,
    engine: str,
    spark: SparkCluster | None = None,
) -> Storm:
    logs = folder / "runs"
    logs.mkdir()
    runs = Runs(flow, logs, engine, spark.environment if spark else {})
    victims = {side: Victim(broker) for side, broker in brokers.items()}
    return Storm(flow, runs, victims, random.Random(seed), spark)


@contextmanager
def told(storm: Storm, name: str, folder: Path) -> Iterator[None]:
    """Print the storm's seed before, and what happened after; all of it beside a failure."""
    print(f"storm {name}")
    try:
        yield
        assert not storm.runs.complaints, "\n\n".join(storm.runs.complaints)
    except BaseException as error:
        error.add_note("\n".join([f"storm {name}", *storm.log]))
        raise
    finally:
        storm.runs.kill_all()
        storm.calm_brokers()
        table = f"storm {name}\n{storm.table()}\n"
        print(table)
        file = folder.parent / f"storm-{name}.txt"
        file.write_text(table + "\n".join(storm.log) + "\n")


def assert_exact(storm: Storm, topics: dict[str, int]) -> None:
    """The target has the source's records, the ledger has all of them, and so has its projection."""
    source, target = (storm.brokers[side].broker for side in ("source", "target"))
    projected = ledger_rows(storm.flow)
    shutil.rmtree(Path(storm.flow.state_path) / storm.flow.slug / "ledger")
    rows = ledger_rows(storm.flow)
    for topic in topics:
        remote_topic = remote(storm.flow, topic)
        try:
            assert_same(source, topic, target, remote_topic)
        except AssertionError as error:
            for line in differences(source, topic, target, remote_topic, rows):
                error.add_note(line)
            raise
    assert_joined(rows)
    assert projected == rows, "the projection differs from the ledger that it was made from"
    storm.compared = count_records(target, storm.flow, topics)


def assert_joined(rows: list[dict[str, object]]) -> None:
    """The ranges of each partition join, from offset 0 on, without gap or overlap."""
    place = itemgetter("topic", "partition")
    ordered = sorted(rows, key=itemgetter("topic", "partition", "start", "end"))
    for (topic, partition), group in itertools.groupby(ordered, place):
        at = 0
        for row in group:
            assert row["start"] == at, f"{topic}-{partition}: {row} does not begin at {at}"
            at = row["end"]


def count_records(target: Broker, flow: Flow, topics: dict[str, int]) -> int:
    return sum(
        len(records)
        for topic in topics
        for records in read_all(target.bootstrap, remote(flow, topic)).values()
    )
