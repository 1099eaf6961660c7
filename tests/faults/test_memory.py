"""The memory of a copying task stays under a bound that its configuration sets.

    bound = 5 * R + (5 * N + 4) * (4 MiB + B) + 32 MiB

where B is the largest batch, R is ``fetch.max.bytes``, at most 4 MiB of one next door, or B if that is
more, and N is how many brokers the target has, at most four, three or six here, and each counts twice that
is far away (docs/sizing.md): a response waits, one is read (twice in memory while it is decoded) and one written;
five requests are on their way to each broker, and one is being encoded. Each copy runs in a process of
its own, whose peak is measured from the moment when it begins to copy.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_ferry.config import load_flow
from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from kafka_sandbox.network.proxied import ProxiedBrokers, ProxyAddress
from tests.support.brokers.leaders import leaders
from tests.support.records.builders import create_topic
from tests.support.runs.flows import copy_planned, failures, plan_now, write_flow
from tests.support.runs.pair import Unique

pytestmark = pytest.mark.long

KIB = 1024
MIB = 1024 * KIB
BROKERS = 3
"""Of the target, where a test does not say otherwise."""


def bound(fetch_max_bytes: int, largest_batch: int, brokers: int = BROKERS) -> int:
    """The most memory that copying takes, in bytes."""
    response = max(min(fetch_max_bytes, 4 * MIB), largest_batch)
    return 5 * response + (5 * min(brokers, 4) + 4) * (4 * MIB + largest_batch) + 32 * MIB


def fill(
    broker: KafkaCluster,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    batch_bytes: int,
    partitions: int = 4,
) -> None:
    """Write records that nothing can compress, to the partitions in turn."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "batch.size": batch_bytes,
            "linger.ms": 200,
            "message.max.bytes": 64 * MIB,
            "queue.buffering.max.kbytes": 256 * KIB,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = os.urandom(record_bytes + 4 * KIB)
    for number in range(records):
        at = number * 7 % (4 * KIB)
        while True:
            try:
                partition = number % partitions
                producer.produce(topic, value[at : at + record_bytes], partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def peak_of_copying(
    folder: Path,
    source: KafkaCluster,
    target: KafkaCluster | ProxyAddress,
    topic: str,
    **options: object,
) -> int:
    """Copy a topic in a process of its own; how far its memory grows while it does, in bytes."""
    file = write_flow(folder, source, target, [topic], **options)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.test_memory", str(file)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert not result["failures"], result["failures"]
    assert result["copied"] > 0
    return int(result["peak"])


def show(what: str, peak: int, limit: int) -> None:
    print(f"{what}: peak {peak / MIB:.0f} MiB, bound {limit / MIB:.0f} MiB")


def test_the_peak_follows_the_size_of_a_fetch(
    primary: KafkaCluster, backup: KafkaCluster, folder: Path, unique: Unique
) -> None:
    topic = unique("orders")
    create_topic(primary.bootstrap, topic, 4)
    fill(primary, topic, records=250_000, record_bytes=KIB, batch_bytes=1_000_000)
    peaks = {}
    for size in (1, 2, 4):
        peak = peak_of_copying(
            folder / unique("src"), primary, backup, topic, fetch_max_bytes=size * MIB, writers=1
        )
        limit = bound(size * MIB, MIB)
        show(f"1 MB batches, fetch.max.bytes {size} MiB", peak, limit)
        assert peak < limit
        peaks[size] = peak
    assert peaks[1] < peaks[4]


def test_records_of_ten_mebibytes_set_the_bound_where_a_fetch_is_smaller(
    primary: KafkaCluster, backup: KafkaCluster, folder: Path, unique: Unique
) -> None:
    topic = unique("films")
    largest = 12 * MIB
    create_topic(primary.bootstrap, topic, 4, max_message_bytes=str(largest))
    fill(primary, topic, records=32, record_bytes=10 * MIB, batch_bytes=11 * MIB)
    peak = peak_of_copying(
        folder / unique("src"), primary, backup, topic, fetch_max_bytes=MIB, writers=1
    )
    limit = bound(MIB, 10 * MIB + KIB)
    show("10 MiB records, fetch.max.bytes 1 MiB", peak, limit)
    assert peak < limit


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Clusters of their own, since thousands of partitions keep a broker busy to the end."""
    clusters = Broker(tmp_path / "from"), Brokers(tmp_path / "to", count=BROKERS)
    try:
        start_all(clusters)
        yield clusters
    finally:
        for cluster in clusters:
            cluster.wipe()


def test_a_thousand_partitions_take_no_more(
    pair: tuple[KafkaCluster, KafkaCluster], folder: Path
) -> None:
    """All of them with one writer."""
    source, target = pair
    create_topic(source.bootstrap, "many", 1000)
    fill(source, "many", records=60_000, record_bytes=KIB, batch_bytes=MIB, partitions=1000)
    peak = peak_of_copying(folder, source, target, "many", fetch_max_bytes=4 * MIB, writers=1)
    limit = bound(4 * MIB, MIB)
    show("1,000 partitions, 1 writer, fetch.max.bytes 4 MiB", peak, limit)
    assert peak < limit


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, ProxiedBrokers]]:
    """A source, and a target of six brokers, each of which leads partitions of any topic of twelve."""
    home = tmp_path_factory.mktemp("six")
    clusters = Broker(home / "from"), ProxiedBrokers(home / "to", count=6)
    try:
        start_all(clusters)
        yield clusters
    finally:
        for cluster in clusters:
            cluster.wipe()


@pytest.mark.parametrize(
    ("record_bytes", "records", "delay_s"),
    [(1_000_000, 300, 0.1), (KIB, 300_000, 0.0)],
    ids=["large-and-far", "small-and-near"],
)
def test_six_brokers_take_no_more_than_was_computed(
    six: tuple[KafkaCluster, ProxiedBrokers],
    folder: Path,
    unique: Unique,
    record_bytes: int,
    records: int,
    delay_s: float,
) -> None:
    source, target = six
    topic = unique("wide")
    partitions = 12
    create_topic(source.bootstrap, topic, partitions, max_message_bytes=str(2 * MIB))
    fill(
        source,
        topic,
        records=records,
        record_bytes=record_bytes,
        batch_bytes=MIB,
        partitions=partitions,
    )
    for broker in target.brokers.values():
        broker.proxy.link.delay_s = delay_s
    peak = peak_of_copying(folder, source, target.proxied, topic, writers=1)
    assert {leader for leader, _ in leaders(target, f"{folder.name}.{topic}").values()} == {
        *target.brokers
    }
    limit = bound(8 * MIB, MIB + KIB, 12 if delay_s else 6)
    show(f"{record_bytes} B records, 6 brokers {2000 * delay_s:.0f} ms away", peak, limit)
    assert peak < limit


@pytest.mark.parametrize(("record_bytes", "records"), [(KIB, 100_000), (20, 600_000)])
def test_joining_small_batches_takes_no_more(
    primary: KafkaCluster,
    backup: KafkaCluster,
    folder: Path,
    unique: Unique,
    record_bytes: int,
    records: int,
) -> None:
    """The records of one joined batch are objects, of some 200 bytes each beside their own."""
    topic = unique("drops")
    create_topic(primary.bootstrap, topic, 4)
    fill(primary, topic, records=records, record_bytes=record_bytes, batch_bytes=16 * KIB)
    peak = peak_of_copying(
        folder / unique("src"), primary, backup, topic, fetch_max_bytes=4 * MIB, writers=1
    )
    limit = bound(4 * MIB, MIB)
    show(f"16 KiB batches of {record_bytes} B records, fetch.max.bytes 4 MiB", peak, limit)
    assert peak < limit


def copy_and_measure(file: str) -> None:
    """What the child process does: plan, copy, and print what it took."""
    flow = load_flow(file)
    plan = plan_now(flow)
    before = _memory("VmRSS")
    # From here on the kernel notes the peak again.
    Path("/proc/self/clear_refs").write_text("5")
    outcomes = copy_planned(flow, plan)
    peak = _memory("VmHWM") - before
    copied = sum(outcome.position for outcome in outcomes)
    print()
    print(json.dumps({"peak": peak, "failures": failures(outcomes), "copied": copied}))


def _memory(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * KIB


if __name__ == "__main__":
    copy_and_measure(sys.argv[1])
