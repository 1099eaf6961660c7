"""``topics.start``: each topic's first copy begins where it says, and so does a copy that is made again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire.partitions import times
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    set_config,
)
from tests.support.records.groups import commit_alone
from tests.support.runs.flows import copy_now, failures, ledger_rows, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import recount_here, verified

HOUR = 3_600_000
NOW = int(time.time() * 1000)
# Each record's age in hours is its value.
AGES = (300, 200, 100, 50, 1)


@pytest.fixture
def topic(primary: KafkaCluster, unique: Unique) -> str:
    """A topic of two partitions with a record of each age in the first one, and nothing in the other."""
    name = unique("old")
    create_topic(primary.bootstrap, name, 2, retention_ms="-1")
    add(primary, name, *AGES)
    return name


@pytest.fixture
def flow(pair: Pair, topic: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Flow]:
    """Makes a flow of the topic, with ``topics.start``."""
    recount_here(monkeypatch)

    def make(start: object, **options: object) -> Flow:
        return pair.flow([topic], topics_start=start, **options)

    return make


def add(cluster: KafkaCluster, topic: str, *ages: int, partition: int = 0) -> None:
    records = (Record(b"k", str(age).encode(), (), NOW - age * HOUR, partition) for age in ages)
    produce(cluster.bootstrap, topic, list(records))


def ages(cluster: KafkaCluster, topic: str) -> list[int]:
    """The ages of the records in the first partition."""
    return [int(record.value or b"") for record in read_all(cluster.bootstrap, topic).get(0, [])]


def moment(age: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((NOW - age * HOUR) / 1000))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("-7d", (100, 50, 1)),
        (moment(150), (100, 50, 1)),
        ("-25000d", AGES),
        ("10 minutes", ()),
    ],
    ids=["a time ago", "a moment", "before 1970", "after all records"],
)
def test_a_first_copy_begins_where_it_is_to(
    pair: Pair, flow: Callable[..., Flow], topic: str, start: str, expected: tuple[int, ...]
) -> None:
    made = flow(start)
    assert failures(copy_now(made)) == []
    assert ages(pair.backup, remote(made, topic)) == list(expected)

    # Each of them is followed by whatever comes later, also where it has an older time.
    add(pair.primary, topic, 400)
    add(pair.primary, topic, 2, partition=1)
    assert failures(copy_now(made, "run-2")) == []
    assert ages(pair.backup, remote(made, topic)) == [*expected, 400]
    assert verified(made, "run-2").state == "verified"


def test_a_time_is_not_after_all_records_because_a_broker_looks_at_deleted_ones(
    flow: Callable[..., Flow],
    primary: KafkaCluster,
    backup: KafkaCluster,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which it does until their segment is deleted: the first one that had a record as new."""
    set_config(primary, topic, "segment.ms", "1000")
    # The last one is a segment of its own.
    for age in (30, 40, 20):
        add(primary, topic, age, partition=1)
    delete_before(primary, topic, 1, partition=1)
    # Nothing is newer, whatever was deleted.
    assert plan_now(flow("10 minutes")).ranges[1].start == 3
    made = flow(moment(35))
    with monkeypatch.context() as patch:
        patch.setattr(times, "_MOST_BYTES", 0)
        (refusal,) = plan_now(made).remarks.refused
        assert f"finds no record of {topic}-1 at or after" in refusal.reason
    assert failures(copy_now(made)) == []
    copied = read_all(backup.bootstrap, remote(made, topic))[1]
    assert [int(record.value or b"") for record in copied] == [20]


def test_it_begins_where_a_group_stands(flow: Callable[..., Flow], pair: Pair, topic: str) -> None:
    group = pair.unique("billing")
    refused = flow(f"group={group}")
    assert [refusal.topic for refusal in plan_now(refused).remarks.refused] == [topic]

    commit_alone(pair.primary, group, {TopicPartition(topic, 0): 3})
    assert failures(copy_now(refused, "run-2")) == []
    assert ages(pair.backup, remote(refused, topic)) == [50, 1]


def test_it_begins_where_a_file_says(
    flow: Callable[..., Flow], backup: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "starts.json"
    made = flow(f"file={file}")
    file.write_text(json.dumps({topic: {"0": 4}}))
    assert failures(copy_now(made)) == []
    assert ages(backup, remote(made, topic)) == [1]


def test_a_preserved_copy_begins_at_that_offset_too(
    flow: Callable[..., Flow], backup: KafkaCluster, topic: str
) -> None:
    made = flow("-7d", offsets="preserved")
    assert failures(copy_now(made)) == []
    assert [record.offset for record in read_all(backup.bootstrap, remote(made, topic))[0]] == [
        2,
        3,
        4,
    ]


def test_the_ledger_has_the_option_where_it_began_and_a_change_is_refused(
    flow: Callable[..., Flow], primary: KafkaCluster, topic: str
) -> None:
    made = flow("-7d")
    assert failures(copy_now(made)) == []
    add(primary, topic, 0)
    assert failures(copy_now(made, "run-2")) == []
    assert [(row["start"], row["begin"]) for row in ledger_rows(made)] == [(2, "-7d"), (5, "")]

    (refusal,) = plan_now(flow("-30d"), "run-3").remarks.refused
    assert "topics.start is -30d, but its copy was begun with -7d" in refusal.reason
    assert plan_now(made, "run-4").remarks.refused == ()


def test_a_copy_that_was_lost_begins_where_it_began(
    pair: Pair, flow: Callable[..., Flow], topic: str
) -> None:
    """Also where that is longer ago by now."""
    made = flow("101 hours", on_target_topic_lost="recopy")
    assert failures(copy_now(made)) == []
    delete_topic(pair.backup, remote(made, topic))
    made = made.model_copy(update={"topics_start": flow("-51h").topics_start})
    assert failures(copy_now(made, "run-2")) == []
    assert ages(pair.backup, remote(made, topic)) == [100, 50, 1]
