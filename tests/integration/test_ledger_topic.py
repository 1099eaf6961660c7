"""What lies in the ledger's topic and is no entry is named, with topic and offset."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_ferry.ledger import ledger_topic
from kafka_ferry.ledger.record import LedgerError
from kafka_ferry.ledger.topic import read_ledger
from kafka_sandbox.broker import Broker
from tests.support.builders import Record, create_topic, produce
from tests.support.flows import copy_now, ledger_of, make_flow

FOREIGN = [
    Record(b"somebody else's", b"not json"),
    Record(b"a key and nothing else", None),
    Record(None, b"\xff\xfe"),
    Record(None, b""),
    Record(b"deep", b"[" * 100_000),
    Record(b"large", b'{"version":1,"type":"run","writers":' + b"9" * 5000 + b"}"),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda record: str(record.key))
def test_a_record_of_somebody_else_is_named(
    primary: Broker, backup: Broker, folder: Path, unique: Callable[[str], str], foreign: Record
) -> None:
    topic = unique("orders")
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, [Record(b"k", b"v")])
    flow = make_flow(folder, primary, backup, [topic])
    copy_now(flow)
    ledger = ledger_topic(flow.source.alias)
    types = [entry.type for _, entry in read_ledger(flow.target, ledger, 0)]
    assert types == ["applied", "ownership", "applied", "transaction"]

    produce(backup.bootstrap, ledger, [foreign])

    with pytest.raises(LedgerError) as caught:
        list(read_ledger(flow.target, ledger, 0))
    assert caught.value.message.startswith(
        f"{ledger} offset {_end(backup, ledger) - 1}: no ledger record"
    )
    with pytest.raises(LedgerError):
        ledger_of(flow)


def _end(broker: Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.close()
    return int(end)
