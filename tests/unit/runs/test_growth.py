"""What plans and copying tasks ask of clusters of several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_ferry.copy import copy_for_flow
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.runs import Run
from kafka_sandbox.scripted.cluster import Asked, ScriptedCluster
from kafka_sandbox.scripted.content import ScriptedTopic
from tests.support.runs.flows import failures, make_flow

FETCH_BYTES = 32 * 1024
# A client may look for leaders once more than another time.
SLACK = 5


class Size(NamedTuple):
    brokers: int
    partitions: int


class Sides(NamedTuple):
    source: Asked
    target: Asked


FEW, MANY, WIDE = Size(3, 20), Size(3, 200), Size(6, 200)
Steps = Mapping[str, Sides]


def topics_of(size: Size) -> list[ScriptedTopic]:
    names = ("orders", "payments")
    return [ScriptedTopic(name, size.partitions // len(names), batches=2) for name in names]


@contextmanager
def clusters(size: Size, alias: str) -> Iterator[tuple[ScriptedCluster, ScriptedCluster]]:
    topics = topics_of(size)
    remote = [ScriptedTopic(f"{alias}.{topic.name}", topic.partitions) for topic in topics]
    ledger = ScriptedTopic(ledger_topic(alias), 1, stored=True)
    with (
        ScriptedCluster(topics, brokers=size.brokers, cluster_id="source") as source,
        ScriptedCluster([*remote, ledger], brokers=size.brokers, cluster_id="target") as target,
    ):
        yield source, target


def steps_of(folder: Path, size: Size) -> Steps:
    """What was asked by a first plan, by a task that copies all of it, and by the plan after that."""
    with clusters(size, folder.name) as (source, target):

        def asked() -> Sides:
            found = Sides(source.asked, target.asked)
            source.forget()
            target.forget()
            return found

        topics = [topic.name for topic in topics_of(size)]
        options = {"writers": 1, "fetch_max_bytes": FETCH_BYTES}
        flow = make_flow(folder, source, target, topics, **options)
        plan = Run(flow, "run-1").plan(save=False)
        planned = asked()
        outcomes = copy_for_flow(flow, "run-1", plan.ranges)
        copied = asked()
        again = Run(flow, "run-2").plan(save=False)
        assert (failures(outcomes), len(outcomes)) == ([], size.partitions)
        assert not any(range_.is_work for range_ in again.ranges)
        return {"plan": planned, "task": copied, "next plan": asked()}


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Size, Steps]:
    return {
        size: steps_of(tmp_path_factory.mktemp(f"of-{size.brokers}-{size.partitions}-"), size)
        for size in (FEW, MANY, WIDE)
    }


@pytest.mark.parametrize(("there", "copied"), [(11, 1), (1, 11)])
def test_more_partitions_than_partitions_max_are_named_on_either_cluster(
    tmp_path: Path, there: int, copied: int
) -> None:
    remote = ScriptedTopic(f"{tmp_path.name}.orders", copied)
    with (
        ScriptedCluster([ScriptedTopic("orders", there)], brokers=1, cluster_id="source") as source,
        ScriptedCluster([remote], brokers=1, cluster_id="target") as target,
    ):
        flow = make_flow(tmp_path, source, target, ["orders"], partitions_max=10)
        with pytest.raises(ConfigError, match=r"partitions\.max: is 10, .* alone has 11"):
            Run(flow, "run-1").plan(save=False)


def test_a_cluster_id_that_no_position_has_room_for_is_named(tmp_path: Path) -> None:
    topics = [ScriptedTopic("orders", 1)]
    with (
        ScriptedCluster(topics, brokers=1, cluster_id="s" * 101) as source,
        ScriptedCluster([], brokers=1, cluster_id="target") as target,
    ):
        flow = make_flow(tmp_path, source, target, ["orders"])
        with pytest.raises(FerryError, match="its cluster id has 101 characters"):
            Run(flow, "run-1").plan(save=False)


@pytest.mark.parametrize("step", ["plan", "next plan"])
def test_a_plan_asks_no_more_where_there_are_more_partitions(
    steps: Mapping[Size, Steps], step: str
) -> None:
    for few, many in zip(steps[FEW][step], steps[MANY][step], strict=True):
        assert 0 < many.total <= few.total + SLACK


@pytest.mark.parametrize("step", ["plan", "next plan"])
def test_a_plan_asks_at_most_twice_as_much_of_twice_as_many_brokers(
    steps: Mapping[Size, Steps], step: str
) -> None:
    for three, six in zip(steps[MANY][step], steps[WIDE][step], strict=True):
        assert 0 < six.total <= 2 * three.total + SLACK


@pytest.mark.parametrize("size", [FEW, MANY, WIDE], ids=str)
def test_a_task_has_a_bounded_number_of_connections_to_each_broker(
    steps: Mapping[Size, Steps], size: Size
) -> None:
    source, target = steps[size]["task"]
    # To read and to see topics; to write, to coordinate and to see topics. Each also finds the brokers first.
    assert 0 < source.most_open <= 2 * size.brokers + 2
    assert 0 < target.most_open <= 3 * size.brokers + 3


@pytest.mark.parametrize("size", [FEW, MANY, WIDE], ids=str)
def test_a_task_fetches_as_often_as_its_bytes_require(
    steps: Mapping[Size, Steps], size: Size
) -> None:
    held = sum(topic.partitions * len(topic.fetch(0, 1 << 20)) for topic in topics_of(size))
    # An answer ends with a batch that is cut, and each broker's last one is not full.
    most = 2 * ceil(held / FETCH_BYTES) + size.brokers
    assert 0 < steps[size]["task"].source.requests["Fetch"] <= most


def test_a_task_writes_no_more_often_to_more_partitions_than_it_has_answers(
    steps: Mapping[Size, Steps],
) -> None:
    source, target = steps[MANY]["task"]
    # Each answer's partitions join the transaction at once, and are written with a request to each broker.
    assert target.requests["AddPartitionsToTxn"] <= source.requests["Fetch"] + 2
    assert target.requests["Produce"] <= MANY.brokers * (2 * source.requests["Fetch"] + 2)
