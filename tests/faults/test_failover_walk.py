"""Applications move between two clusters at random: none loses a record, none reads one again without need."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.config.reverse_flow import reverse_flow
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.faults.failover_walk import PARTITIONS, App, Cluster, Logs, Walk
from tests.support.records.builders import Record, create_topic, delete_before, produce
from tests.support.runs.flows import copy_now, failures
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, recount_here

IDENTITY, DEFAULT = "IdentityReplicationPolicy", "DefaultReplicationPolicy"


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "offsets", "rounds"),
    [
        pytest.param(DEFAULT, "translated", 5, id="by-alias"),
        pytest.param(IDENTITY, "translated", 7, id="with-kept-names"),
        pytest.param(DEFAULT, "preserved", 4, id="preserved"),
    ],
)
@pytest.mark.timeout(1800)
def test_no_application_that_moves_loses_a_record(
    pair: Pair,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    offsets: str,
    rounds: int,
    request: pytest.FixtureRequest,
) -> None:
    recount_here(monkeypatch)
    chance = random.Random(seed)
    with told(seed, a_walk(pair, policy, offsets, chance)) as walk:
        walk.begin()
        for number in range(request.config.getoption("--storm-faults") or rounds):
            walk.round(number)


@contextmanager
def told(seed: int, walk: Walk) -> Iterator[Walk]:
    """Print the seed; with a failure, tell all that happened before."""
    print(f"walk {seed}")
    try:
        yield walk
    except BaseException as error:
        error.add_note("\n".join([f"walk {seed} (--storm-seed)", *walk.story]))
        raise
    finally:
        walk.end()


def a_walk(pair: Pair, policy: str, offsets: str, chance: random.Random) -> Walk:
    orders, alias = pair.unique("orders"), pair.unique("B")
    names = [pair.unique(name) for name in ("all", "more", "own", "other")]
    is_mixed = policy == IDENTITY
    there = pair.flow(
        [orders],
        into=alias,
        replication_policy_class=policy,
        on_foreign_records="adopt",
        on_returned_records="leave-out",
        sync_group_offsets_enabled=chance.random() < 0.5,
        offsets=offsets,
        groups=names,
    )
    a, b = (orders, orders) if is_mixed else (f"{alias}.{orders}", f"{pair.folder.name}.{orders}")
    create(pair.primary, orders)
    create(pair.backup, orders)
    sides = {}
    for name, broker, topics, out in (
        ("A", pair.primary, {"A": orders, "B": a}, there),
        ("B", pair.backup, {"A": b, "B": orders}, reverse_flow(there)),
    ):
        logs = Logs(broker, sorted(set(topics.values())))
        sides[name] = Cluster(name, broker, topics, out, logs)
    reads = [("A", "B"), ("A", "B"), ("A",), ("B",)]
    apps = [
        App(name, ("A", "B") if is_mixed else origins, sides["A"])
        for name, origins in zip(names, reads, strict=True)
    ]
    return Walk(sides, apps, run, chance)


def create(broker: KafkaCluster, topic: str) -> None:
    """A topic of which one partition's first records have expired."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    produce(broker.bootstrap, topic, [Record(value=b"expired", partition=0)] * 4)
    delete_before(broker, topic, 4)


def run(flow: Flow, name: str) -> None:
    assert failures(copy_now(flow, name)) == []
    this = Run(flow, name)
    this.verify(NO_SPARK)
    this.sync_groups()
