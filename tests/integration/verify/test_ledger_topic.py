"""What is appended to the ledger's topic is there once; what is no entry is named, with topic and offset."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_ferry.ledger import RunEntry, append_entry, ledger_topic
from kafka_ferry.ledger.record import LedgerError
from kafka_ferry.ledger.topic import read_ledger
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import copy_now, ledger_of
from tests.support.runs.pair import Pair

FOREIGN = [
    Record(b"another client's", b"not json"),
    Record(b"a key and nothing else", None),
    Record(None, b"\xff\xfe"),
    Record(None, b""),
    Record(b"deep", b"[" * 100_000),
    Record(b"large", b'{"version":1,"type":"run","writers":' + b"9" * 5000 + b"}"),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda record: str(record.key))
def test_a_record_of_another_client_is_named(pair: Pair, foreign: Record) -> None:
    topic = pair.topic("orders", [Record(b"k", b"v")])
    flow = pair.flow([topic])
    copy_now(flow)
    ledger = ledger_topic(flow.source.alias)
    types = [entry.type for _, entry in read_ledger(flow.target, ledger, 0)]
    assert types == ["applied", "ownership", "applied", "transaction"]

    produce(pair.backup.bootstrap, ledger, [foreign])

    with pytest.raises(LedgerError) as caught:
        list(read_ledger(flow.target, ledger, 0))
    assert caught.value.message.startswith(
        f"{ledger} offset {_end(pair.backup, ledger) - 1}: not a ledger record"
    )
    with pytest.raises(LedgerError):
        ledger_of(flow)


def test_runs_that_append_at_the_same_time_all_come_to_it(pair: Pair) -> None:
    """As a backfill's run does beside one of the timetable; each fences the other."""
    flow = pair.flow([pair.unique("orders")])
    create_topic(pair.backup.bootstrap, ledger_topic(flow.source.alias))
    runs = [f"run-{number}" for number in range(12)]

    def append(run: str) -> None:
        append_entry(flow, RunEntry(flow=flow.name, run=run, at=1, writers=1))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, runs))

    entries = read_ledger(flow.target, ledger_topic(flow.source.alias), 0)
    assert {entry.run for _, entry in entries} == set(runs)


def _end(broker: KafkaCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.close()
    return int(end)
