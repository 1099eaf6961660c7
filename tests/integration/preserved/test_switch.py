"""From translated to preserved offsets without a stop, as docs/preserved-offsets.md says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_sandbox.cluster import KafkaCluster
from tests import PROJECT
from tests.support.records.builders import Record, create_topic, read_all
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import copy_now, failures, make_flow, remote
from tests.support.runs.pair import Pair

SCRIPT = PROJECT / "docs/examples/source_offsets.py"


def consume(broker: KafkaCluster, topic: str, group: str, count: int) -> tuple[list[bytes], str]:
    """The values of the group's next records, and where it stands after them, as lines of CSV."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(10)
        assert message is not None and not message.error(), f"{len(values)} of {count} records"
        values.append(message.value() or b"")
    consumer.commit(asynchronous=False)
    found = consumer.committed([TopicPartition(topic, number) for number in range(2)])
    consumer.close()
    lines = (f"{tp.topic},{tp.partition},{tp.offset}\n" for tp in found if tp.offset >= 0)
    return values, "".join(lines)


@pytest.mark.long
def test_a_group_moves_from_a_translated_topic_to_a_preserved_one_without_losing_its_place(
    pair: Pair,
) -> None:
    topic, group = pair.unique("switched"), pair.unique("billing")
    create_topic(pair.primary.bootstrap, topic, 2)

    def write(number: int) -> None:
        records = [Record(value=b"%d-%d" % (number, i), partition=i % 2) for i in range(10)]
        pair.produce(topic, records, transactional_id=topic, abort=number % 3 == 2)

    for number in range(6):
        write(number)
    translated = pair.flow([topic])
    assert not failures(copy_now(translated))
    before, offsets = consume(pair.backup, remote(translated, topic), group, 17)

    # The same cluster by another alias, while both are written to.
    other = pair.folder / pair.unique("kept")
    preserved = make_flow(other, pair.primary, pair.backup, [topic], offsets="preserved")
    for run, flow in enumerate((preserved, translated, preserved), 2):
        write(run * 3)
        assert not failures(copy_now(flow, f"run-{run}"))
    assert_same_offsets(pair.primary, topic, pair.backup, remote(preserved, topic))

    ledger = Path(translated.state_path) / translated.slug / "ledger"
    moved = subprocess.run(
        [sys.executable, str(SCRIPT), str(ledger), remote(preserved, topic)],
        input=offsets,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    consumer = Consumer({"bootstrap.servers": pair.backup.bootstrap, "group.id": group})
    lines = (line.split(",") for line in moved.splitlines())
    consumer.commit(
        offsets=[TopicPartition(name, int(n), int(at)) for name, n, at in lines], asynchronous=False
    )
    consumer.close()
    wanted = [
        r.value or b""
        for records in read_all(pair.primary.bootstrap, topic).values()
        for r in records
    ]
    after, _ = consume(pair.backup, remote(preserved, topic), group, len(wanted) - len(before))
    assert sorted(before + after) == sorted(wanted)
