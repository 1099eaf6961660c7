"""The sandbox keeps what it promises to the demo, the tests and the benchmarks."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_sandbox import clusters
from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.demo.data import COMPRESSIONS, fill
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import KAFKA
from tests.support.records.builders import ConsumedRecord, Record, create_topic, produce, read_all
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that may be killed, and holds topics that other tests must not see."""
    with Broker(tmp_path_factory.mktemp("own")) as broker:
        yield broker


def flat(partitions: dict[int, list[ConsumedRecord]]) -> list[ConsumedRecord]:
    return list(itertools.chain(*partitions.values()))


def test_the_two_clusters_answer_and_are_not_the_same(pair: Pair) -> None:
    ids = {
        AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).cluster_id
        for broker in (pair.primary, pair.backup)
    }

    assert len(ids) == 2


def test_a_client_that_does_not_log_in_may_write_acls_and_is_bound_by_none(
    primary: KafkaCluster, unique: Unique
) -> None:
    topic = unique("closed")
    create_topic(primary.bootstrap, topic)
    acl = AclBinding(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(AclOperation.ALL, AclPermissionType.DENY),
    )
    client = AdminClient({"bootstrap.servers": primary.bootstrap})
    client.create_acls([acl])[acl].result()

    of_topic = AclBindingFilter(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    wait_until(lambda: client.describe_acls(of_topic).result() == [acl])
    produce(primary.bootstrap, topic, [Record(value=b"in spite of it")])
    assert len(read_all(primary.bootstrap, topic)[0]) == 1


def test_a_killed_broker_comes_back_with_its_data(own: KafkaCluster) -> None:
    create_topic(own.bootstrap, "kept")
    produce(own.bootstrap, "kept", [Record(b"k", b"v")])
    first = own.pid

    own.kill()
    assert own.pid is None
    own.restart()

    assert own.pid not in (None, first)
    assert [record.value for record in read_all(own.bootstrap, "kept")[0]] == [b"v"]


def test_a_wiped_broker_is_gone_with_all_of_its_files(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "wiped").start()
    process = psutil.Process(broker.pid)

    broker.wipe()

    assert not process.is_running()
    assert not broker.directory.exists()


@pytest.mark.long
def test_an_orderly_stop_leaves_a_class_archive_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "broker.jsa"
    monkeypatch.setattr(jvm, "_archive", lambda jars: archive)
    broker = Broker(tmp_path / "first").start().wait_ready()

    broker.wipe()

    assert jvm.archive_fits(KAFKA)
    with Broker(tmp_path / "second") as second:
        assert f"-XX:SharedArchiveFile={archive}" in psutil.Process(second.pid).cmdline()


@pytest.mark.long
def test_where_one_broker_of_three_dies_the_others_lead(tmp_path: Path) -> None:
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    with Brokers(tmp_path / "three", config=quick) as three:
        three.assert_spread()
        create_topic(three.bootstrap, "orders", 3)
        three.brokers[2].kill()

        produce(three.bootstrap, "orders", [Record(value=b"%d" % p, partition=p) for p in range(3)])
        assert [len(read) for read in read_all(three.bootstrap, "orders").values()] == [1, 1, 1]

        three.start().wait_ready()
        client = AdminClient({"bootstrap.servers": three.bootstrap})
        wait_until(
            lambda: all(
                {*partition.isrs} == {1, 2, 3}
                for partition in client.list_topics("orders").topics["orders"].partitions.values()
            )
        )


def test_data_of_one_broker_are_not_taken_for_those_of_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "SANDBOX", tmp_path)
    (tmp_path / "clusters" / "primary" / "broker-1").mkdir(parents=True)

    assert len(clusters.clusters()["primary"].brokers) == 1
    with pytest.raises(SandboxError, match="primary has data of 1 broker"):
        clusters.clusters(brokers=3)


def test_a_broker_that_cannot_start_says_why(own: Broker, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=f"Port {own.port} .* in use"):
        Broker(tmp_path, port=own.port).start()

    with pytest.raises(SandboxError, match=r"log\.cleaner\.threads"):
        Broker(tmp_path, config={"log.cleaner.threads": "many"}).start().wait_ready()


def test_what_was_written_is_read_back(primary: KafkaCluster, unique: Unique) -> None:
    topic = unique("everything")
    create_topic(primary.bootstrap, topic, partitions=3)
    records = [
        Record(b"key", b"value", (("a", b"1"), ("a", None), ("b", b"")), 1_700_000_000_000, 2),
        Record(None, b"", (), 1_700_000_000_001, 2),
        Record(b"", None, (), 1_700_000_000_002, 2),
    ]
    for compression in COMPRESSIONS:
        produce(primary.bootstrap, topic, records, compression=compression)

    read = read_all(primary.bootstrap, topic)

    assert (read[0], read[1]) == ([], [])
    assert [record.offset for record in read[2]] == list(range(15))
    assert {record.timestamp_type for record in read[2]} == {"CreateTime"}
    assert [
        Record(record.key, record.value, record.headers, record.timestamp, 2) for record in read[2]
    ] == records * len(COMPRESSIONS)


def test_committed_records_can_be_read_at_once_and_aborted_ones_only_by_who_asks(
    primary: KafkaCluster, unique: Unique
) -> None:
    topic, writer = unique("transactions"), unique("writer")
    create_topic(primary.bootstrap, topic)
    for value, abort in [(b"1", False), (b"2", True), (b"3", False), (b"4", True)]:
        records = [Record(value=value)]
        produce(primary.bootstrap, topic, records, transactional_id=writer, abort=abort)

    committed = read_all(primary.bootstrap, topic)[0]
    everything = read_all(primary.bootstrap, topic, isolation="read_uncommitted")[0]

    assert [(record.offset, record.value) for record in committed] == [(0, b"1"), (4, b"3")]
    assert [record.value for record in everything] == [b"1", b"2", b"3", b"4"]


def test_the_cleaner_is_quick(primary: KafkaCluster, unique: Unique) -> None:
    topic = unique("compacted")
    create_topic(
        *(primary.bootstrap, topic),
        cleanup_policy="compact",
        segment_ms="1",
        min_cleanable_dirty_ratio="0.01",
    )
    for value in (b"old", b"new", b"newest"):
        produce(primary.bootstrap, topic, [Record(b"key", value)])

    def values() -> list[bytes | None]:
        return [record.value for record in read_all(primary.bootstrap, topic)[0]]

    wait_until(lambda: values() == [b"new", b"newest"])


@pytest.mark.long
def test_the_demo_data_is_what_its_summary_says(own: KafkaCluster) -> None:
    rounds = [fill(own.bootstrap, records=2_000, round_=round_) for round_ in (0, 1)]

    for topic, partitions in {"orders": 6, "customers": 3, "payments": 4}.items():
        committed = read_all(own.bootstrap, topic)
        everything = flat(read_all(own.bootstrap, topic, isolation="read_uncommitted"))
        records = flat(committed)
        wrote = [summary.topics[topic] for summary in rounds]
        assert len(committed) == partitions
        assert len(records) == sum(part.committed for part in wrote)
        assert len(everything) - len(records) == sum(part.aborted for part in wrote)
        sizes = (len(record.key or b"") + len(record.value or b"") for record in records)
        assert sum(sizes) == sum(part.bytes for part in wrote)


def test_the_demo_data_has_what_is_hard_to_copy(own: KafkaCluster) -> None:
    payments = fill(own.bootstrap, records=2_000, round_=2).topics["payments"]

    headers = [order.headers for order in flat(read_all(own.bootstrap, "orders"))]
    customers = flat(read_all(own.bootstrap, "customers"))

    assert any(("coupon", None) in of_order for of_order in headers)
    assert any([name for name, _ in of_order].count("tag") > 1 for of_order in headers)
    assert any(customer.value is None for customer in customers)
    assert payments.aborted / (payments.aborted + payments.committed) == pytest.approx(1 / 8)


@pytest.mark.parametrize("sign", [1, -1], ids=["process", "group"])
def test_a_guarded_process_ends_with_the_process_that_holds_it(sign: int) -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    program = "import os, sys; from kafka_sandbox.processes import OrphanGuard; "
    program += "guard = OrphanGuard(int(sys.argv[1])); os.kill(os.getpid(), 9)"
    try:
        subprocess.run([sys.executable, "-c", program, str(sign * child.pid)], check=False)

        assert child.wait(timeout=10) == -signal.SIGKILL
    finally:
        child.kill()
