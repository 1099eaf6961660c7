"""How exactly groups' offsets are translated: by ``ferry run``, and by a real MirrorMaker 2, on the same data.

A topic is copied by each of the two from one broker to another, both on this machine, and groups that
stand at some share of it are given their offsets on the target. Each of these is read from there: the
record that comes first says how many records are read again, or skipped.

    python -m benchmarks.accuracy --records 1000000 --partitions 1
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from kafka_sandbox.broker import Broker, start_all
from kafka_sandbox.mirrormaker2 import MirrorMaker2, one_way

TOPIC = "orders"
SHARES = (1.0, 0.999, 0.99, 0.9, 0.5, 0.1)
SETTLED_S = 15
"""How long MirrorMaker 2's offsets must stay as they are: it writes them once a second here."""

console = Console()
Offsets = dict[int, int]


@dataclass(frozen=True)
class Mirror:
    """One of the two: its name here, and the alias that it gives the source."""

    name: str
    alias: str

    @property
    def topic(self) -> str:
        """The remote topic."""
        return f"{self.alias}.{TOPIC}"


OURS = Mirror("Kafka Ferry", "ferry-source")
MM2 = Mirror("MirrorMaker 2", "mm2-source")


def group_of(share: float) -> str:
    """The group that stands at a share of the topic."""
    return f"at-{share:.1%}"


def fill(bootstrap: str, records: int, partitions: int) -> None:
    """Write records whose value is their own offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for number in range(records):
        while True:
            try:
                producer.produce(
                    TOPIC, b"%d" % (number // partitions), partition=number % partitions
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush()


def commit(bootstrap: str, ends: Offsets) -> None:
    """Let each group stand at its share of each partition."""
    for share in SHARES:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_of(share)})
        offsets = [TopicPartition(TOPIC, p, round(end * share)) for p, end in ends.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def copy_with_ferry(folder: Path, source: Broker, target: Broker) -> float:
    """One ``ferry run``, which commits the groups' offsets too; seconds."""
    content: dict[str, Any] = {
        "source": {"alias": OURS.alias, "bootstrap.servers": source.bootstrap},
        "target": {"alias": "target", "bootstrap.servers": target.bootstrap},
        "topics": [TOPIC],
        "replication.factor": 1,
        "sync.group.offsets.enabled": True,
        "state.dir": str(folder / "state"),
    }
    flow = folder / "flow.yaml"
    flow.write_text(json.dumps(content))
    began = time.monotonic()
    command = [sys.executable, "-m", "kafka_ferry", "run", "--config", str(flow)]
    subprocess.run(command, check=True)
    return time.monotonic() - began


def copy_with_mirror_maker(folder: Path, source: Broker, target: Broker, records: int) -> float:
    """MirrorMaker 2, until the groups' offsets on the target stay as they are; seconds."""
    properties = one_way(MM2.alias, source.bootstrap, "target", target.bootstrap, [TOPIC])
    properties |= {f"{MM2.alias}->target.sync.group.offsets.enabled": "true"}
    began = time.monotonic()
    admin = admin_of(target)
    with MirrorMaker2(folder / "mirrormaker2", properties) as mirror:
        mirror.wait_until_copied(target.bootstrap, {MM2.topic: records}, timeout=600)
        last: Mapping[str, Offsets] = {}
        since = time.monotonic()
        while not last or time.monotonic() - since < SETTLED_S:
            found = {group_of(s): committed(admin, group_of(s), MM2.topic) for s in SHARES}
            if found != last:
                last, since = found, time.monotonic()
            time.sleep(1)
    return since - began


def admin_of(broker: Broker) -> AdminClient:
    """A client for the groups of a broker."""
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})


def committed(admin: AdminClient, group: str, topic: str) -> Offsets:
    """What a group has committed for a topic, by partition."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    try:
        found = asked[group].result().topic_partitions or ()
    except KafkaException:
        return {}
    return {tp.partition: tp.offset for tp in found if tp.topic == topic and tp.offset >= 0}


def ends_of(broker: Broker, topic: str, partitions: int) -> Offsets:
    """Where the partitions' logs end."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    try:
        return {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p))[1]
            for p in range(partitions)
        }
    finally:
        consumer.close()


def first_unread(broker: Broker, topic: str, partition: int, offset: int, end: int) -> int:
    """The source offset of the record that a consumer sees first which begins at ``offset``."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, offset)])
    try:
        while True:
            message = consumer.poll(10)
            if message is None:
                raise SystemExit(f"{topic}-{partition} cannot be read from {offset}.")
            if message.error() is None:
                return int(message.value() or b"")
            # Nothing is left: all was read.
            return end
    finally:
        consumer.close()


def read_again(target: Broker, mirror: Mirror, share: float, ends: Offsets) -> tuple[str, str]:
    """What a group's offset is on the target (of partition 0), and what is read again or skipped."""
    offsets = committed(admin_of(target), group_of(share), mirror.topic)
    if offsets.keys() != ends.keys():
        return "none", "-"
    again = 0
    for partition, end in ends.items():
        first = first_unread(target, mirror.topic, partition, offsets[partition], end)
        again += round(end * share) - first
    return f"{offsets[0]:,}", f"{again:,}" if again >= 0 else f"skipped {-again:,}"


def main(
    records: Annotated[int, typer.Option(help="Records in the topic.")] = 1_000_000,
    partitions: Annotated[int, typer.Option(help="Its partitions.")] = 1,
) -> None:
    """Measure what groups read again after a failover."""
    with tempfile.TemporaryDirectory(prefix="ferry-bench-") as temporary:
        folder = Path(temporary)
        source, target = (Broker(folder / alias) for alias in ("source", "target"))
        start_all([source, target])
        try:
            console.print(f"Writing {records:,} records ...")
            fill(source.bootstrap, records, partitions)
            ends = ends_of(source, TOPIC, partitions)
            commit(source.bootstrap, ends)
            console.print("ferry run ...")
            ours = copy_with_ferry(folder, source, target)
            console.print("MirrorMaker 2 ...")
            theirs = copy_with_mirror_maker(folder, source, target, records)
            table = Table(title=f"{records:,} records, {partitions} partition(s)")
            table.add_column("group at")
            for mirror in (OURS, MM2):
                table.add_column(f"{mirror.name}: offset", justify="right")
                table.add_column("read again", justify="right")
            for share in SHARES:
                cells = [
                    cell
                    for mirror in (OURS, MM2)
                    for cell in read_again(target, mirror, share, ends)
                ]
                table.add_row(f"{share:.1%}", *cells)
        finally:
            source.stop()
            target.stop()
    console.print(table)
    console.print(
        f"From the start until groups had their offsets: {OURS.name} {ours:.0f} s, "
        f"{MM2.name} {theirs:.0f} s."
    )


if __name__ == "__main__":
    typer.run(main)
