"""Whatever is killed, cut, stalled or deleted, and however often: the copy is exact in the end."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.cluster import KafkaCluster, start_all
from kafka_sandbox.network.proxied import ProxiedBrokers
from tests.faults.evidence import assert_copied, assert_ledger_tells, present_rows
from tests.faults.faults import CHECKPOINTS, COPIER, SPARK
from tests.faults.generator import Generator
from tests.faults.runs import Runs
from tests.faults.sides import Side
from tests.faults.storm import Storm
from tests.faults.topics import KINDS, RULED_KINDS, StormTopic
from tests.support.records.builders import Record, create_topic, delete_before, produce, read_all
from tests.support.runs.flows import ledger_rows, make_flow, remote
from tests.support.spark.cluster import SparkCluster

Clusters = dict[str, ProxiedBrokers]
DIVERGENCE = ("fail", "continue")


@pytest.fixture
def clusters(folder: Path) -> Iterator[Clusters]:
    """Three brokers a side, which lead and coordinate a part each."""
    clusters = {
        "source": ProxiedBrokers(folder / "source", config=QUICK_CLEANER | CHECKPOINTS),
        "target": ProxiedBrokers(folder / "target", config=QUICK_CLEANER),
    }
    try:
        start_all(clusters.values())
        for cluster in clusters.values():
            cluster.assert_spread()
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.wipe()


@pytest.fixture
def kinds() -> tuple[StormTopic, ...]:
    """The kinds of topics that are mirrored."""
    return KINDS


@pytest.fixture
def topics(
    clusters: Clusters, kinds: tuple[StormTopic, ...], unique: Callable[[str], str]
) -> tuple[StormTopic, ...]:
    """Topics of the source, one of each kind."""
    source = clusters["source"]
    topics = tuple(replace(kind, name=unique(kind.name)) for kind in kinds)
    for topic in topics:
        # Old timestamps would make the log old, and its segments be deleted.
        configs = {"retention_ms": "-1", **topic.configs}
        create_topic(source.bootstrap, topic.name, topic.partitions, **configs)
        if topic.begins_at:
            produce(source.bootstrap, topic.name, [Record(partition=0)] * topic.begins_at)
            delete_before(source, topic.name, topic.begins_at)
    return topics


@pytest.fixture
def flow(folder: Path, clusters: Clusters, topics: tuple[StormTopic, ...], seed: int) -> Flow:
    """A flow in small steps, so that faults hit it between any two of them.

    It fills gaps by markers: transactions are not safe from leaders that move (test_moving_leaders.py).
    """
    return make_flow(
        folder,
        clusters["source"].proxied,
        clusters["target"].proxied,
        [topic.name for topic in topics],
        offsets={t.name: "preserved" if t.preserved else "translated" for t in topics},
        on_source_truncation="continue",
        on_source_divergence=DIVERGENCE[seed % 2],
        transform=[{"topics": [topic.name], **topic.rule} for topic in topics if topic.rule],
        transaction_max_bytes=20_000,
        fetch_max_bytes=10_000,
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_copier_storm(
    folder: Path,
    flow: Flow,
    clusters: Clusters,
    topics: tuple[StormTopic, ...],
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    storm = make_storm(folder, flow, topics, clusters, seed, "threads")
    with told(storm, f"copier-{seed}", folder):
        with Generator(clusters["source"].bootstrap, topics, seed, most=300_000, pause=0.4):
            storm.rage(COPIER, request.config.getoption("--storm-faults") or 6, 0.6)
            storm.calm_brokers()
        storm.calm()
        assert_exact(storm)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kinds", [(*KINDS, *RULED_KINDS)], ids=["with-rules"])
def test_spark_storm(
    folder: Path,
    flow: Flow,
    clusters: Clusters,
    topics: tuple[StormTopic, ...],
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    with SparkCluster(folder / "spark") as spark:
        storm = make_storm(folder, flow, topics, clusters, seed, "spark", spark)
        with told(storm, f"spark-{seed}", folder):
            with Generator(clusters["source"].bootstrap, topics, seed, most=300_000, pause=0.8):
                storm.rage(SPARK, request.config.getoption("--storm-faults") or 4, 4.0)
                storm.calm_brokers()
            storm.calm()
            assert_exact(storm)


def make_storm(
    folder: Path,
    flow: Flow,
    topics: Sequence[StormTopic],
    clusters: Clusters,
    seed: int,
    engine: str,
    spark: SparkCluster | None = None,
) -> Storm:
    logs = folder / "runs"
    logs.mkdir()
    runs = Runs(flow, logs, engine, spark.environment if spark else {})
    sides = {name: Side(cluster) for name, cluster in clusters.items()}
    follows = flow.on_source_divergence == "continue"
    return Storm(flow, topics, runs, sides, random.Random(seed), spark, follows=follows)


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


def assert_exact(storm: Storm) -> None:
    """The target has the source's records, the ledger has all of them, and so has its projection."""
    source, target = (storm.sides[name].cluster for name in ("source", "target"))
    projected = ledger_rows(storm.flow)
    shutil.rmtree(Path(storm.flow.state_path) / storm.flow.slug / "ledger")
    rows = ledger_rows(storm.flow)
    for topic in storm.topics:
        present = present_rows(storm.flow, topic, rows)
        remote_topic = remote(storm.flow, topic.name)
        assert_copied(source, topic, target, remote_topic, present, storm.branches)
        assert_ledger_tells(source, topic, present)
    assert not (unproved := storm.verify()), unproved
    assert projected == rows, "the projection differs from the ledger that it was made from"
    storm.compared = count_records(target, storm.flow, storm.topics)


def count_records(target: KafkaCluster, flow: Flow, topics: Sequence[StormTopic]) -> int:
    return sum(
        len(records)
        for topic in topics
        for records in read_all(target.bootstrap, remote(flow, topic.name)).values()
    )
