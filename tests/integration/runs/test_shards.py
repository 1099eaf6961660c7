"""A run whose copying is divided: each shard copies by itself, and all of them are one run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter
from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.control import read_positions
from kafka_ferry.copy import Outcome, RateLimit, copy_for_flow
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger import RunEntry, append_entry
from kafka_ferry.model import Plan, Range, TopicPartition
from kafka_ferry.model.rate import Rate
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.plan.schedule.sharding import Writers
from kafka_ferry.runs import Run
from kafka_ferry.spark.session import terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce, set_config
from tests.support.runs.flows import failures, ledger_of, ledger_rows, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until

NO_SPARK: Any = None


@pytest.fixture
def topics(primary: KafkaCluster, unique: Unique) -> list[str]:
    """Three topics of four partitions with 100 records each, and one of twelve."""
    names = [unique(f"sharded-{number}") for number in range(4)]
    for at, name in enumerate(names):
        create_topic(primary.bootstrap, name, partitions=12 if at == 0 else 4)
        fill(primary, name)
    return names


def fill(broker: KafkaCluster, topic: str, records: int = 100) -> None:
    """Records of which each is larger than 200 bytes."""
    values = [Record(b"%d" % i, b"value %d" % i * 40) for i in range(records)]
    produce(broker.bootstrap, topic, values)


def planned(flow: Flow, run: str) -> tuple[Run, Plan]:
    this = Run(flow, run)
    this.plan()
    return this, this.sync_topics()


def copy_ranges(flow: Flow, run: str, ranges: tuple[Range, ...]) -> list[Outcome]:
    """What the tasks of a shard do, without Spark."""
    outcomes: list[Outcome] = []
    for _, group in groupby(sorted(ranges, key=attrgetter("owner")), attrgetter("owner")):
        outcomes += copy_for_flow(flow, run, list(group))
    return outcomes


def copied(flow: Flow) -> int:
    return sum(int(str(row["records"])) for row in ledger_rows(flow))


def runs_begun(flow: Flow) -> list[tuple[str, str]]:
    rows = ledger_of(flow).read().to_pylist()
    return [(row["run"], row["assignment"]) for row in rows if row["type"] == "run"]


def test_shards_that_copy_at_once_do_not_disturb_each_other(pair: Pair, topics: list[str]) -> None:
    flow = pair.flow(topics, shards=2)
    _, plan = planned(flow, "run-1")
    assert len(plan.shards) == 2
    assert set(plan.shards[0]).isdisjoint(plan.shards[1])

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda k: copy_ranges(flow, "run-1", plan.of_shard(k)), (1, 0)))

    assert [failures(part) for part in parts] == [[], []]
    for topic in topics:
        pair.assert_same(flow, topic)
    assert copied(flow) == 400
    assert runs_begun(flow) == [("run-1", "")], "once, before any of them"


@pytest.mark.usefixtures("without_docs")
def test_a_shard_is_repeated_alone_and_all_of_them_make_the_run(
    pair: Pair, topics: list[str]
) -> None:
    bad = topics[0]
    group = group_of(f"{pair.folder.name}.{bad}")
    other = next(it for it in names(pair.unique) if group_of(f"{pair.folder.name}.{it}") != group)
    create_topic(pair.primary.bootstrap, other)
    fill(pair.primary, other)
    flow = pair.flow([*topics, other], shards=2, shard_by="topic")
    create_topic(pair.backup.bootstrap, remote(flow, bad), partitions=12, max_message_bytes="200")
    this, plan = planned(flow, "run-1")
    parts = [{range_.topic for range_ in plan.of_shard(k)} for k in range(2)]
    failing = 0 if bad in parts[0] else 1
    assert sum(map(len, parts)) == 5, "a topic is in one shard"
    with terminal_spark("tests of shards", tasks=2) as spark:
        with pytest.raises(RangesFailed, match=rf"Shard {failing}: {bad}-\d+ .*TOO_LARGE"):
            this.mirror(spark, failing)
        assert this.failure("mirror", failing)
        assert f"Shard {failing}: {bad}" in str(this.failure("mirror"))
        assert {str(row["topic"]) for row in ledger_rows(flow)} == parts[failing] - {bad}
        with pytest.raises(VerificationFailed, match=bad):
            this.verify(spark)
        set_config(pair.backup, remote(flow, bad), "max.message.bytes", "1000000")
        this.mirror(spark, failing)
        assert this.failure("mirror") is None
        with pytest.raises(FerryError, match=f"mirror-{1 - failing} of the run run-1 has not"):
            publish(this)
        this.mirror(spark)
        this.verify(spark)
        assert publish(this) == "verified"
    assert copied(flow) == 500
    assert runs_begun(flow) == [("run-1", "topic/2")]
    with pytest.raises(FerryError, match=r"no shard 9: it was planned with 2"):
        this.mirror(NO_SPARK, 9)


def publish(this: Run) -> str:
    this.sync_groups()
    return this.publish().state


def test_an_orphan_of_other_shards_is_fenced_before_its_partitions_have_other_writers(
    pair: Pair,
) -> None:
    topic = next(name for name in names(pair.unique) if is_reassigned(f"{pair.folder.name}.{name}"))
    create_topic(pair.primary.bootstrap, topic)
    for _ in range(20):
        pair.produce(topic, [Record(value=b"x" * 10_000)])
    old = pair.flow([topic], transaction_max_ms=100, writers=8)
    _, plan = planned(old, "run-1")
    append_entry(old, RunEntry(flow=old.name, run="run-1", at=1, writers=8))

    with ThreadPoolExecutor(1) as pool:
        orphan = pool.submit(copy_for_flow, old, "run-1", plan.ranges, RateLimit(Rate(20_000)))
        wait_until(lambda: any(it.offset for it in positions_of(old)), 60)
        new = pair.flow([topic], shards=2, shard_by="topic", writers=8)
        _, after = planned(new, "run-2")
        assert not failures(copy_ranges(new, "run-2", after.ranges))
        (outcome,) = orphan.result()

    assert outcome.failure is not None
    assert outcome.failure.fenced
    pair.assert_same(new, topic)
    assert copied(new) == 20


def names(unique: Unique) -> Iterator[str]:
    while True:
        yield unique("reassigned")


def is_reassigned(remote_topic: str) -> bool:
    partition = TopicPartition(remote_topic, 0)
    return Writers(8).of(partition) != Writers(8, 2).of(partition)


def group_of(remote_topic: str) -> int:
    """The shard that a topic is in, of two by topic."""
    writers = Writers(4, 2)
    return writers.group_of(writers.of(TopicPartition(remote_topic, 0)))


def positions_of(flow: Flow) -> list[Any]:
    return list(read_positions(flow.target, flow.name).values())


def test_a_run_with_nothing_to_copy_has_one_idle_shard(pair: Pair, topics: list[str]) -> None:
    flow = pair.flow(topics, shards=2)
    _, first = planned(flow, "run-1")
    assert not failures(copy_ranges(flow, "run-1", first.ranges))

    this, plan = planned(flow, "run-2")

    assert plan.shards == ((),)
    assert this.mirror(NO_SPARK, 0) == ()
    assert this.failure("mirror") is None
