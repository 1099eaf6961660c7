"""How exactly groups' offsets are translated: by ``ferry run``, and by a real MirrorMaker 2, on the same data.

A topic is copied by each of the two from one broker to another, both on this machine, and groups that
stand at some share of it are given their offsets on the target. Each of these is read from there: the
record that comes first says how many records are read again, or skipped.

    python -m benchmarks.accuracy --records 1000000 --partitions 1
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from benchmarks.copies.clusters import Clusters, two_clusters
from benchmarks.copies.copiers import Ferry, Job
from benchmarks.copies.topics import BenchmarkTopic, produce
from kafka_sandbox.cluster import KafkaCluster
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
    BenchmarkTopic(TOPIC, partitions).create(bootstrap)
    config: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 20,
    }
    produce(
        config, TOPIC, ((n % partitions, None, b"%d" % (n // partitions)) for n in range(records))
    )


def commit(bootstrap: str, ends: Offsets) -> None:
    """Let each group stand at its share of each partition."""
    for share in SHARES:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_of(share)})
        offsets = [TopicPartition(TOPIC, p, round(end * share)) for p, end in ends.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def copy_with_ferry(clusters: Clusters, records: int) -> float:
    """One ``ferry run``, which commits the groups' offsets too; seconds."""
    options = {"sync.group.offsets.enabled": True}
    job = Job(TOPIC, OURS.alias, records, records, options)
    figures, _ = Ferry("this", sys.executable, clusters).copy(job)
    return figures["wall_s"]


def copy_with_mirror_maker(clusters: Clusters, records: int) -> float:
    """MirrorMaker 2, until the groups' offsets on the target stay as they are; seconds."""
    source, target = clusters.source, clusters.target
    properties = one_way(MM2.alias, source.bootstrap, "target", target.bootstrap, [TOPIC])
    properties |= {f"{MM2.alias}->target.sync.group.offsets.enabled": "true"}
    began = time.monotonic()
    admin = admin_of(target)
    with MirrorMaker2(clusters.folder / "mirrormaker2", properties) as mirror:
        mirror.wait_until_copied(target.bootstrap, {MM2.topic: records}, timeout=600)
        last: Mapping[str, Offsets] = {}
        since = time.monotonic()
        while not last or time.monotonic() - since < SETTLED_S:
            found = {group_of(s): committed(admin, group_of(s), MM2.topic) for s in SHARES}
            if found != last:
                last, since = found, time.monotonic()
            time.sleep(1)
    return since - began


def admin_of(broker: KafkaCluster) -> AdminClient:
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


def ends_of(broker: KafkaCluster, topic: str, partitions: int) -> Offsets:
    """Where the partitions' logs end."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    try:
        return {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p))[1]
            for p in range(partitions)
        }
    finally:
        consumer.close()


def first_unread(broker: KafkaCluster, topic: str, partition: int, offset: int, end: int) -> int:
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


def read_again(
    target: KafkaCluster, mirror: Mirror, share: float, ends: Offsets
) -> tuple[str, str]:
    """What a group's offset is on the target (of partition 0), and what is read again or skipped."""
    offsets = committed(admin_of(target), group_of(share), mirror.topic)
    if offsets.keys() != ends.keys():
        return "none", "-"
    again = 0
    for partition, end in ends.items():
        first = first_unread(target, mirror.topic, partition, offsets[partition], end)
        again += round(end * share) - first
    return f"{offsets[0]:,}", f"{again:,}" if again >= 0 else f"skipped {-again:,}"


def rows_of(target: KafkaCluster, ends: Offsets) -> list[dict[str, Any]]:
    """What each group's offset is at each of the two, and what it reads again."""
    rows = []
    for share in SHARES:
        row: dict[str, Any] = {"group at": f"{share:.1%}"}
        for mirror in (OURS, MM2):
            offset, again = read_again(target, mirror, share, ends)
            row[mirror.name] = {"offset": offset, "read again": again}
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]], title: str) -> None:
    """Print them."""
    table = Table("group at", title=title)
    for mirror in (OURS, MM2):
        table.add_column(f"{mirror.name}: offset", justify="right")
        table.add_column("read again", justify="right")
    for row in rows:
        cells = [cell for mirror in (OURS, MM2) for cell in row[mirror.name].values()]
        table.add_row(row["group at"], *cells)
    console.print(table)


def measure(records: int, partitions: int) -> list[dict[str, Any]]:
    """Let both copy, on clusters of their own; the table's rows."""
    with two_clusters() as clusters:
        console.print(f"Writing {records:,} records ...")
        source = clusters.source
        fill(source.bootstrap, records, partitions)
        ends = ends_of(source, TOPIC, partitions)
        commit(source.bootstrap, ends)
        console.print("ferry run ...")
        ours = copy_with_ferry(clusters, records)
        console.print("MirrorMaker 2 ...")
        theirs = copy_with_mirror_maker(clusters, records)
        rows = rows_of(clusters.target, ends)
    show(rows, f"{records:,} records, {partitions} partition(s)")
    console.print(
        f"From the start until groups had their offsets: {OURS.name} {ours:.0f} s, "
        f"{MM2.name} {theirs:.0f} s."
    )
    return rows


def main(
    records: Annotated[int, typer.Option(help="Records in the topic.")] = 1_000_000,
    partitions: Annotated[int, typer.Option(help="Its partitions.")] = 1,
) -> None:
    """Measure what groups read again after a failover."""
    measure(records, partitions)


if __name__ == "__main__":
    typer.run(main)
