"""How much is on its way to a target with many brokers."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from kafka_ferry.batches import Batch, ConvertedBatch, for_producer, split_batches
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.produce.pipeline import Answer, Pipeline, in_flight_bytes
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_sandbox.scripted.cluster import ScriptedCluster
from kafka_sandbox.scripted.content import ScriptedTopic

BROKERS, BATCHES = 8, 5
TOPIC = ScriptedTopic("orders", BROKERS, batches=1)
SIZE = len(TOPIC.fetch(0, 1))
PLACES = [TopicPartition(TOPIC.name, number) for number in range(BROKERS)]


def encoded(queue: PartitionQueue, batch: Batch) -> bytes:
    return for_producer(batch, producer_id=-1, epoch=-1, sequence=queue.sequence)


def outgoing() -> Outgoing:
    (batch,) = split_batches(TOPIC.fetch(0, 1))
    return Outgoing(ConvertedBatch(0, TOPIC.records, batch))


def test_no_more_is_on_its_way_to_many_brokers_than_is_allowed_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_all = 3
    monkeypatch.setattr(f"{Pipeline.__module__}._ALL_IN_FLIGHT_BYTES", of_all * SIZE)
    answered: Counter[int] = Counter()
    sent, most = 0, 0

    def judge(queue: PartitionQueue, out: Outgoing, answer: Answer) -> None:
        assert answer.code == 0
        answered[queue.node] += 1

    with (
        ScriptedCluster([ScriptedTopic(TOPIC.name, BROKERS)], brokers=BROKERS) as target,
        WireCluster("backup", {"bootstrap_servers": target.bootstrap.split(",")}) as cluster,
    ):
        pipeline = Pipeline(cluster, encoded, judge)
        leaders = cluster.leaders(PLACES)
        for _ in range(BATCHES):
            for place in PLACES:
                queue = PartitionQueue(leaders[place].node, None, "")
                queue.waiting.append(outgoing())
                assert pipeline.send_round({place: queue})
                sent += 1
                most = max(most, sent - answered.total())
        pipeline.receive_all()

    # Answers that have come already are taken before.
    assert 0 < most <= of_all
    assert set(answered.values()) == {BATCHES}
    assert len(answered) == BROKERS


@pytest.mark.parametrize(
    ("round_trip_s", "mib"),
    [(0.0, 20), (0.019, 20), (0.02, 40), (0.1, 40), (0.2, 76), (0.3, 80), (math.inf, 20)],
)
def test_what_is_on_its_way_to_a_broker_grows_with_its_distance(
    round_trip_s: float, mib: int
) -> None:
    assert in_flight_bytes(round_trip_s) // 1024**2 == mib


def test_no_answer_that_lets_a_batch_go_comes_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition with preserved offsets has one batch on its way: the next follows whenever its answer came."""
    comes = iter([False])
    monkeypatch.setattr(Connection, "has_answer", property(lambda _: next(comes, True)))
    with (
        ScriptedCluster([ScriptedTopic(TOPIC.name, 1)], brokers=1) as target,
        WireCluster("backup", {"bootstrap_servers": target.bootstrap.split(",")}) as cluster,
    ):
        queue = OneAtATime(cluster.leaders(PLACES[:1])[PLACES[0]].node, None, "")
        queue.waiting.extend([outgoing(), outgoing()])

        def judge(_: PartitionQueue, __: Outgoing, answer: Answer) -> None:
            assert answer.code == 0
            queue.is_sending = False

        pipeline = Pipeline(cluster, encoded, judge)
        while pipeline.send_round({PLACES[0]: queue}) or not pipeline.is_idle:
            if queue.is_sending and len(queue.waiting) == 0:
                pipeline.receive_all()
        assert not queue.waiting


class OneAtATime(PartitionQueue):
    """Sends its next batch only after the answer to the last one."""

    is_sending = False

    def next_to_send(self) -> Outgoing | None:
        if self.is_sending or not self.waiting:
            return None
        self.is_sending = True
        return self.waiting.popleft()
