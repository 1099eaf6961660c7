"""``ferry translate``: offsets and groups, there and back, and what it says where there is no answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_ferry.cli import main
from kafka_ferry.config import Flow
from kafka_sandbox.broker import free_port
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, recreate_topic
from tests.support.runs.flows import copy_now, failures, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import prove, verified

pytestmark = pytest.mark.usefixtures("without_spark")


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    def offsets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.out)["offsets"]
        return found

    def places(self) -> list[tuple[str, int, str]]:
        return [(one["to_topic"], one["to_offset"], one["kind"]) for one in self.offsets()]

    def partition(self) -> dict[str, Any]:
        """The only one of the only group."""
        (move,) = json.loads(self.out)["groups"]
        (partition,) = move["partitions"]
        found: dict[str, Any] = partition
        return found

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()]


Translate = Callable[..., Result]


@pytest.fixture
def translate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Translate:
    """Runs the command in this process."""

    def run(flow: Flow, *arguments: object) -> Result:
        command = ["ferry", "translate", "--config", flow.file, *map(str, arguments)]
        monkeypatch.setattr("sys.argv", command)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        status = ended.value.code
        assert isinstance(status, int)
        return Result(status, *capsys.readouterr())

    return run


def commit(broker: KafkaCluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


class Copied:
    """A topic of 20 records of which 10 were copied and verified, and then 8 more, of 5 offsets less."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.topic, self.group = pair, pair.topic("orders"), pair.unique("shop")
        self.write(10)
        self.flow = pair.flow([self.topic], groups=[self.group])
        self.remote = remote(self.flow, self.topic)
        prove(self.flow)
        self.write(4, transactional_id=pair.unique("tx"), abort=True)
        self.write(8)

    def write(self, count: int, **more: Any) -> None:
        records = [Record(value=b"%d" % number) for number in range(count)]
        self.pair.produce(self.topic, records, **more)


@pytest.fixture
def copied(pair: Pair) -> Copied:
    return Copied(pair)


def test_offsets_are_translated_there_and_back(copied: Copied, translate: Translate) -> None:
    flow, topic, there = copied.flow, copied.topic, copied.remote
    assert failures(copy_now(flow, "run-2")) == []
    # There are 10 records, a marker and 8 records; here are 4 aborted ones more, and their marker.
    asked = [f"--offset={topic}:0:{offset}" for offset in (3, 12, 15, 23, 99)]
    asked_back = [f"--offset={there}:0:{offset}" for offset in (3, 10, 11, 20)]

    answers = translate(flow, "--json", *asked)
    back = translate(flow, "--json", "--reverse", *asked_back)
    table = translate(flow, *asked)

    assert (answers.status, back.status, table.status) == (0, 0, 0)
    assert answers.places() == [
        (there, 3, "exact"),
        (there, 11, "gap"),
        (there, 11, "exact"),
        (there, 19, "exact"),
        (there, 19, "clamped"),
    ]
    assert [one["verified"] for one in answers.offsets()] == [True, False, False, False, False]
    assert back.places() == [
        (topic, 3, "exact"),
        (topic, 15, "gap"),
        (topic, 15, "exact"),
        (topic, 23, "clamped"),
    ]
    assert table.rows()[1:3] == [
        [topic, "0", "3", there, "3", "exact", "yes"],
        [topic, "0", "12", there, "11", "gap", "no"],
    ]


def test_groups_are_translated_as_far_as_is_verified_and_nothing_is_written(
    pair: Pair, copied: Copied, translate: Translate
) -> None:
    flow, topic, there, group = copied.flow, copied.topic, copied.remote, copied.group
    assert failures(copy_now(flow, "run-2")) == []
    commit(pair.primary, group, topic, 20)

    unverified = translate(flow, "--json", "--group", group).partition()
    verified(flow, "run-2")
    table = translate(flow, "--group", group)
    nothing_there = translate(flow, "--reverse", "--group", group)
    commit(pair.backup, group, there, 17)
    back = translate(flow, "--json", "--reverse", "--group", group).partition()

    assert unverified["target"] == {"topic": there, "partition": 0}
    assert (unverified["offset"], unverified["kind"]) == (10, "clamped")
    assert table.status == 0
    assert table.rows()[1] == [group, topic, "0", "20", "3", there, "16", "exact"]
    assert nothing_there.status == 10
    assert f"There is no group {group} on backup" in nothing_there.err
    assert back["target"] == {"topic": topic, "partition": 0}
    assert (back["offset"], back["kind"]) == (21, "exact")


def test_offsets_are_translated_while_the_source_is_down(
    copied: Copied, translate: Translate
) -> None:
    file = Path(copied.flow.file)
    text = file.read_text().replace(copied.pair.primary.bootstrap, f"127.0.0.1:{free_port()}")
    file.write_text(text.replace('"writers"', '"admin.timeout.ms": 2000, "writers"'))

    result = translate(copied.flow, "--json", "--offset", f"{copied.topic}:0:3")

    assert result.places() == [(copied.remote, 3, "exact")]
    assert "topics are assumed to be those that were copied last" in result.err


def test_what_has_no_answer_is_said_to_have_none(
    copied: Copied, translate: Translate, primary: KafkaCluster, folder: Path
) -> None:
    flow, topic = copied.flow, copied.topic
    nobody = translate(flow, "--group", "nobody-knows-me")
    unknown = translate(flow, "--offset", "payments:0:3", "--offset", f"{topic}:0:3")
    no_partition = translate(flow, "--json", "--offset", f"{topic}:7:3")
    recreate_topic(primary, topic)
    recreated = translate(flow, "--offset", f"{topic}:0:3")

    assert nobody.status == 10
    assert f"There is no group nobody-knows-me on {folder.name}. " in nobody.err
    assert "`kafka-consumer-groups.sh --list` shows its groups." in nobody.err
    assert unknown.status == 9
    assert f"has never copied payments from {folder.name}" in unknown.err
    assert no_partition.status == 2
    assert no_partition.offsets()[0]["to_offset"] is None
    assert "nothing was copied" in no_partition.offsets()[0]["reason"]
    assert recreated.status == 2
    assert f"{topic}-0 at 3: nothing was copied" in recreated.out


def test_a_flow_that_was_never_run_has_nothing_to_translate_by(
    pair: Pair, translate: Translate
) -> None:
    result = translate(pair.flow(["orders"]), "--offset", "orders:0:1")

    assert result.status == 1
    assert "has never been run" in result.err
