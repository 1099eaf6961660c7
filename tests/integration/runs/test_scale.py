"""Many partitions in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import assert_same, copy_now, failures, ledger_rows, make_flow, remote

pytestmark = pytest.mark.long

PARTITIONS = 1_000


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Brokers of their own: those of the other tests would have the partitions for the rest of the session."""
    brokers = Broker(tmp_path / "source"), Broker(tmp_path / "target")
    start_all(brokers)
    yield brokers
    for broker in brokers:
        broker.wipe()


def test_a_topic_of_a_thousand_partitions_is_copied_in_one_run(
    folder: Path, clusters: tuple[KafkaCluster, KafkaCluster], unique: Callable[[str], str]
) -> None:
    source, target = clusters
    topic = unique("wide")
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    records = [
        Record(key=b"%d" % i, value=b"%d" % i * 20, partition=i % PARTITIONS)
        for i in range(3 * PARTITIONS)
    ]
    # Leaders of that many partitions come and go: a plain producer would write some records twice.
    produce(source.bootstrap, topic, records, idempotent=True)
    flow = make_flow(folder, source, target, [topic])

    outcomes = copy_now(flow)

    assert failures(outcomes) == []
    assert len(outcomes) == PARTITIONS
    assert_same(source, topic, target, remote(flow, topic))
    rows = ledger_rows(flow)
    assert {row["partition"] for row in rows} == set(range(PARTITIONS))
    assert sum(row["records"] for row in rows) == len(records)
    assert copy_now(flow, "run-2") == []
