from collections.abc import Callable

import pytest

from kafka_ferry.copy.source import read_replicas
from kafka_ferry.copy.source.read_replicas import ReadReplicas
from kafka_ferry.model import TopicPartition
from tests.unit.copy.fakes import Clock

P0 = TopicPartition("orders", 0)
LEADER, NEAR = 1, 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(read_replicas, "time", clock)
    return clock


@pytest.fixture
def replicas(clock: Clock) -> ReadReplicas:
    replicas = ReadReplicas("r2")
    replicas.note_leader(P0, LEADER)
    return replicas


def test_the_leader_is_asked_with_the_rack_until_it_names_a_replica(replicas: ReadReplicas) -> None:
    assert replicas.to_ask(P0) == (LEADER, "r2")
    replicas.note_replica(P0, NEAR)
    assert replicas.to_ask(P0) == (NEAR, "r2")


def test_the_leader_is_asked_again_after_five_minutes(replicas: ReadReplicas, clock: Clock) -> None:
    replicas.note_replica(P0, NEAR)
    clock.now += 299
    assert replicas.to_ask(P0) == (NEAR, "r2")
    clock.now += 1
    assert replicas.to_ask(P0) == (LEADER, "r2")


def test_a_replica_that_was_left_is_not_named_for_a_minute(
    replicas: ReadReplicas, clock: Clock
) -> None:
    replicas.note_replica(P0, NEAR)
    assert replicas.leave(P0)
    assert replicas.to_ask(P0) == (LEADER, "")
    clock.now += 60
    assert replicas.to_ask(P0) == (LEADER, "r2")


def test_a_leader_cannot_be_left(replicas: ReadReplicas) -> None:
    assert not replicas.leave(P0)
    assert replicas.to_ask(P0) == (LEADER, "r2")


@pytest.mark.parametrize("lose", [ReadReplicas.leave, ReadReplicas.forget])
def test_what_was_forgotten_has_its_leader_looked_up(
    replicas: ReadReplicas, lose: Callable[[ReadReplicas, TopicPartition], object]
) -> None:
    replicas.note_replica(P0, NEAR)
    lose(replicas, P0)
    assert (P0 in replicas) == (lose is ReadReplicas.leave)
    replicas.note_leader(P0, LEADER)
    assert replicas.to_ask(P0) == (LEADER, "")
