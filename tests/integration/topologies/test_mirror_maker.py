"""`ferry mirror-maker`: two sources into one target, by the files and options of MirrorMaker 1."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.runs import Run
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import ConsumedRecord, Record, create_topic, produce, read_all
from tests.support.runs.command_line import Called, ferry, ferry_process
from tests.support.runs.flows import copy_now, failures
from tests.support.runs.pair import Pair, Unique

SECRET = "not-for-anybodys-eyes"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
EARLIEST = "auto.offset.reset=earliest\n"


@pytest.fixture(scope="module")
def east(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A third cluster: the second source."""
    broker = Broker(tmp_path_factory.mktemp("east") / "east")
    try:
        broker.start().wait_ready()
        yield broker
    finally:
        broker.wipe()


class MirrorMaker:
    """Calls the command line in a folder of its own, with files that name clusters.

    Attributes:
        folder: holds the files; state and temporary files go below it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._temporary = folder / "tmp"
        self._temporary.mkdir()

    def file(self, name: str, cluster: KafkaCluster, more: str = "") -> Path:
        """A consumer's or producer's property file."""
        file = self.folder / name
        file.write_text(f"bootstrap.servers={cluster.bootstrap}\n{more}")
        return file

    def __call__(self, *arguments: object, sources: list[Path], target: Path) -> Called:
        """A call that runs no flow."""
        return ferry("mirror-maker", *_named(sources, target), *arguments)

    def run(self, *arguments: object, sources: list[Path], target: Path) -> Called:
        """A call that runs the flows, in a process of its own."""
        home = {"FERRY_HOME": str(self.folder), "TMPDIR": str(self._temporary)}
        files = _named(sources, target)
        return ferry_process("mirror-maker", *files, *arguments, environment=home)

    def flows(self, *arguments: object, sources: list[Path], target: Path) -> tuple[Flow, ...]:
        """The flows that a call writes instead of running them."""
        file = self.folder / f"flows-{len(list(self.folder.iterdir()))}.properties"
        done = self(*arguments, "--write-config", file, sources=sources, target=target)
        assert done.returncode == 0, done.stderr
        with file.open("a") as opened:
            opened.write(f"\nstate.dir={self.folder / 'state'}\n")
        return load_flows(file)

    @property
    def leftovers(self) -> bytes:
        """The content of all files that calls have made beside those that they were asked to write."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files if path.suffix != ".properties")


def _named(sources: list[Path], target: Path) -> list[str]:
    return [*(f"--consumer.config={file}" for file in sources), f"--producer.config={target}"]


@pytest.fixture
def mirror_maker(folder: Path) -> MirrorMaker:
    return MirrorMaker(folder)


def records(mark: str, count: int, partitions: int) -> list[Record]:
    return [
        Record(key=b"%d" % i, value=f"{mark}-{i}".encode(), partition=i % partitions)
        for i in range(count)
    ]


def values(found: Mapping[int, list[ConsumedRecord]], mark: str = "") -> dict[int, list[bytes]]:
    """What each partition holds, of one source or of all."""
    return {
        number: [r.value or b"" for r in there if (r.value or b"").startswith(mark.encode())]
        for number, there in found.items()
    }


@pytest.mark.long
def test_two_sources_share_a_topic_of_the_target_and_the_next_call_copies_what_is_new(
    mirror_maker: MirrorMaker, pair: Pair, east: KafkaCluster
) -> None:
    shared, alone, other = (
        pair.unique("orders"),
        pair.unique("device-heartbeats"),
        pair.unique("other"),
    )
    for cluster, mark, partitions in ((pair.primary, "west", 2), (east, "east", 3)):
        create_topic(cluster.bootstrap, shared, partitions=partitions)
        produce(cluster.bootstrap, shared, records(mark, 60, partitions))
    create_topic(east.bootstrap, alone, partitions=1)
    produce(east.bootstrap, alone, records("alone", 5, 1))
    create_topic(pair.primary.bootstrap, other, partitions=1)
    login = f'security.protocol=PLAINTEXT\nsasl.jaas.config={LOGIN} username="ferry" password="{SECRET}";\n'
    sources = [
        mirror_maker.file("west.properties", pair.primary, EARLIEST + login),
        mirror_maker.file("east.properties", east, EARLIEST),
    ]
    target = mirror_maker.file("target.properties", pair.backup)
    topics = f"--whitelist='{shared}, {alone}'"

    done = mirror_maker.run(
        topics, "--num.streams=2", "--queue.size=9", "--json", sources=sources, target=target
    )

    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert [report["records"] for report in reports] == [60, 65]
    assert all(report["verdict"]["success"] for report in reports)
    assert "NOTE --queue.size: " in done.stderr
    assert f"NOTE {sources[0]}: isolation.level: " in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert SECRET.encode() not in mirror_maker.leftovers

    for cluster, mark, partitions in ((pair.primary, "west", 2), (east, "east", 3)):
        produce(cluster.bootstrap, shared, records(f"{mark} again", 10, partitions))
    renamed = [sources[1], sources[0].rename(sources[0].with_name("phoenix.properties"))]
    for flow in mirror_maker.flows(topics, "--num.streams=2", sources=renamed, target=target):
        assert failures(copy_now(flow, "run-2")) == []

    on_target = read_all(pair.backup.bootstrap, shared)
    for cluster, mark, partitions in ((pair.primary, "west", 2), (east, "east", 3)):
        want = values(read_all(cluster.bootstrap, shared))
        have = values(on_target, mark)
        assert {n: have[n] for n in range(partitions)} == want, "each record once, and in order"
    assert sum(map(len, on_target.values())) == 140
    assert values(read_all(pair.backup.bootstrap, alone)) == values(read_all(east.bootstrap, alone))
    assert other not in read_topics(pair.backup)


def read_topics(cluster: KafkaCluster) -> set[str]:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    return set(AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics)


def test_a_blacklist_copies_all_others_but_kafkas_own_topics(
    mirror_maker: MirrorMaker, east: KafkaCluster, primary: KafkaCluster, unique: Unique
) -> None:
    prefix = unique("b")
    for name in ("a", "b.c", "__canary"):
        create_topic(east.bootstrap, f"{prefix}-{name}", partitions=1)
        produce(east.bootstrap, f"{prefix}-{name}", [Record(value=b"x")])
    produce(east.bootstrap, f"{prefix}-a", [Record(value=b"x")], transactional_id=prefix)
    sources = [mirror_maker.file("east.properties", east, EARLIEST)]
    # Other tests copy other topics from this source to the other target.
    target = mirror_maker.file("target.properties", primary)

    (flow,) = mirror_maker.flows(
        f"--blacklist=(?!{prefix}).*, {prefix}-b.*", sources=sources, target=target
    )
    plan = Run(flow, "plan").plan(save=False)

    assert [(r.topic, r.remote_topic) for r in plan.ranges] == [
        (f"{prefix}-{name}", f"{prefix}-{name}") for name in ("__canary", "a")
    ]
    skipped = {skipped.topic: skipped.reason for skipped in plan.remarks.skipped}
    assert "__transaction_state" in skipped
    assert "excluded by" in skipped[f"{prefix}-b.c"]


def test_without_a_word_on_it_copying_begins_at_the_end_as_it_did(
    mirror_maker: MirrorMaker, east: KafkaCluster, primary: KafkaCluster, unique: Unique
) -> None:
    topic = unique("orders")
    create_topic(east.bootstrap, topic, partitions=1)
    produce(east.bootstrap, topic, [Record(value=b"before")])
    # No other test copies from this source to this target.
    sources = [mirror_maker.file("east.properties", east)]
    target = mirror_maker.file("target.properties", primary)

    (flow,) = mirror_maker.flows(f"--whitelist={topic}", sources=sources, target=target)
    copy_now(flow, "run-1")
    produce(east.bootstrap, topic, [Record(value=b"after")])
    copy_now(flow, "run-2")

    assert values(read_all(primary.bootstrap, topic)) == {0: [b"after"]}


def test_a_written_file_is_for_its_owner_alone_and_never_written_over(
    pair: Pair, mirror_maker: MirrorMaker
) -> None:
    files = {
        "sources": [mirror_maker.file("west.properties", pair.primary, EARLIEST)],
        "target": mirror_maker.file("target.properties", pair.backup),
    }
    written = mirror_maker.folder / "flows.properties"
    arguments = ("--whitelist=orders", "--write-config", written)

    first, second = mirror_maker(*arguments, **files), mirror_maker(*arguments, **files)

    assert (first.returncode, second.returncode) == (0, 9), first.stderr
    assert written.stat().st_mode & 0o777 == 0o600
    assert f"ferry run --config {written}" in first.stderr
    assert f"{written}: file: cannot be written: File exists" in second.stderr


@pytest.mark.parametrize("twice", ["two sources", "source and target"])
def test_each_file_names_a_cluster_of_its_own(
    pair: Pair, mirror_maker: MirrorMaker, twice: str
) -> None:
    sources = [mirror_maker.file("west.properties", pair.primary)]
    target = mirror_maker.file("target.properties", pair.backup)
    again = mirror_maker.file("again.properties", pair.primary)
    again.write_text(again.read_text().replace("127.0.0.1", "localhost"))
    if twice == "two sources":
        sources.append(again)
    else:
        target = again

    done = mirror_maker("--whitelist=orders", sources=sources, target=target)

    assert done.returncode == 9
    assert f"{sources[0]} and {again} are one cluster (" in done.stderr
    assert "Traceback" not in done.stderr
