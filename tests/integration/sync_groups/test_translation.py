"""Each offset of a history on real brokers is translated to the first record that was not read, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.groups.routes import Route, routes
from kafka_ferry.model import TopicPartition as Partition
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import cut_log
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.offsets import bounds, read_offsets
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_of,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.killing import Fate, Killed, fated
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

PARTITIONS = (0, 1)


class History:
    """A topic, its copy, and where the source had each record when it was copied."""

    def __init__(
        self,
        folder: Path,
        source: KafkaCluster,
        target: KafkaCluster,
        topic: str,
        **options: object,
    ) -> None:
        self.source, self.target, self.topic = source, target, topic
        self.flow: Flow = make_flow(folder, source, target, [topic], **options)
        self.remote = remote(self.flow, topic)
        self.at: dict[int, dict[bytes, int]] = {}
        self._runs = 0

    def write(self, part: str, count: int = 20, **more: object) -> None:
        """Records of both partitions that no other part has."""
        records = [
            Record(
                key=b"%d" % (i % 7),
                value=f"{part} {i} of {partition}".encode(),
                partition=partition,
            )
            for i in range(count)
            for partition in self.partitions
        ]
        produce(self.source.bootstrap, self.topic, records, **more)  # type: ignore[arg-type]

    @property
    def partitions(self) -> list[int]:
        client = Consumer({"bootstrap.servers": self.source.bootstrap, "group.id": "names"})
        return sorted(client.list_topics(self.topic, timeout=10).topics[self.topic].partitions)

    def copy(self) -> None:
        """One run, after a look at what the source has."""
        self.look()
        self._runs += 1
        assert failures(copy_now(self.flow, f"run-{self._runs}")) == []

    def look(self) -> None:
        for number, shown in read_offsets(self.source, self.topic).items():
            places = self.at.setdefault(number, {})
            places |= {record.value or b"": offset for offset, record in shown.items()}

    def forget(self) -> None:
        """The topic is recreated: none of what it had counts."""
        self.at = {}

    def routes(self) -> dict[Partition, Route]:
        ids = (
            ClusterControl(cluster).topic_ids([name])
            for cluster, name in ((self.flow.source, self.topic), (self.flow.target, self.remote))
        )
        return routes(ledger_of(self.flow), *ids)

    def assert_exact(self, *, kinds: bool = True) -> None:
        """For each offset, from the log's start to its end, in both directions.

        Args:
            kinds: whether each record that was copied is still there, and has another offset.
        """
        copied = read_offsets(self.target, self.remote)
        found = self.routes()
        starts = {
            b: bounds(b, t, copied)
            for b, t in ((self.source, self.topic), (self.target, self.remote))
        }
        for number, places in self.at.items():
            map_ = found[Partition(self.topic, number)].map
            target = [
                (offset, places[record.value or b""])
                for offset, record in copied[number].items()
                if record.value in places
            ]
            here, there = starts[self.source][number], starts[self.target][number]
            # A target that compacts has a record of each of the seven keys at least.
            assert len(target) > 6 and map_.end == here.end
            for offset in range(map_.start, here.end + 1):
                answer = map_.translate(offset, log_start=there.start, log_end=there.end)
                assert answer
                read = [at for place, at in target if place >= answer.offset]
                unread = [at for _, at in target if at >= offset]
                assert read == unread, f"{self.topic}-{number} at {offset}: {answer}"
                if kinds:
                    is_record = (answer.offset, offset) in target or offset == map_.end
                    assert (answer.kind == "exact") == is_record
            for offset in range(there.start, there.end + 3):
                answer = map_.reverse(offset)
                assert answer
                read = [at for _, at in target if at >= answer.offset]
                assert read == [at for place, at in target if place >= offset]


def test_every_offset_of_a_log_with_transactions_and_aborted_data(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.topic("translated", partitions=2)
    history = History(
        pair.folder, pair.primary, pair.backup, topic, on_source_truncation="continue"
    )
    history.write("plain")
    history.write("committed", transactional_id=pair.unique("tx"))
    history.write("aborted", transactional_id=pair.unique("tx"), abort=True)
    history.copy()
    history.write("aborted at the end", 5, transactional_id=pair.unique("tx"), abort=True)
    history.copy()
    history.write("compressed", compression="lz4")
    # An attempt whose transaction the target aborts.
    plan = plan_now(history.flow, "killed")
    with fated(monkeypatch, Fate(after="ProduceRequest")), pytest.raises(Killed):
        copy_planned(history.flow, plan)
    history.copy()
    history.write("lost", 9)
    history.write("last")
    end = bounds(pair.primary, topic, PARTITIONS)[0].end
    delete_before(pair.primary, topic, end - 23)
    history.copy()
    history.copy()

    history.assert_exact()


@pytest.mark.long
def test_every_offset_of_a_compacted_log(pair: Pair) -> None:
    topic = pair.unique("compacted")
    compaction = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
    create_topic(pair.primary.bootstrap, topic, segment_ms="100", **compaction)
    history = History(pair.folder, pair.primary, pair.backup, topic)
    history.write("first", 40)
    compacted(history, 20)
    history.write("second", 30)
    history.copy()
    # What the cleaner takes from the source now is on the target.
    compacted(history, 20)
    history.write("third", 30)
    history.copy()

    history.assert_exact(kinds=False)


def compacted(history: History, below: int) -> None:
    rolls = count()

    def is_compacted() -> bool:
        # The cleaner leaves the segment that is written to.
        history.write(f"below {below}, roll {next(rolls)}", 1)
        return len(read_all(history.source.bootstrap, history.topic)[0]) < below

    wait_until(is_compacted, 30)


def test_a_topic_recreated_is_translated_by_what_was_copied_of_it_alone(pair: Pair) -> None:
    topic = pair.topic("recreated")
    history = History(
        pair.folder, pair.primary, pair.backup, topic, on_source_topic_recreated="append"
    )
    history.write("old", 30)
    history.copy()
    history.forget()
    recreate_topic(pair.primary, topic)
    history.write("new", 12)
    history.copy()

    history.assert_exact()
    (route,) = history.routes().values()
    assert (route.map.start, route.map.end) == (0, 12)

    recreate_topic(pair.backup, history.remote)
    assert history.routes() == {}


@pytest.mark.long
def test_a_log_that_was_cut_back_is_translated_by_its_new_branch(
    folder: Path, backup: KafkaCluster, tmp_path: Path
) -> None:
    source = Broker(tmp_path / "cut")
    with source:
        create_topic(source.bootstrap, "cut")
        history = History(folder, source, backup, "cut", on_source_divergence="continue")
        for part in range(3):
            history.write(f"old {part}", 10)
        history.copy()
        source.stop()
        cut_log(source, "cut", 20)
        history.forget()
        source.start().wait_ready()
        history.write("new", 7)
        history.copy()

        history.assert_exact()
        (route,) = history.routes().values()
        # Who was at 28 has read a branch that is lost; what came in its place begins at 20.
        assert route.map.translate(28) is None
        assert route.map.translate(19) == (19, "exact")
    source.wipe()


def test_where_offsets_are_preserved_they_stay_as_they_are(pair: Pair) -> None:
    topic = pair.topic("preserved", partitions=2)
    history = History(pair.folder, pair.primary, pair.backup, topic, offsets="preserved")
    history.write("plain")
    history.write("aborted", transactional_id=pair.unique("tx"), abort=True)
    history.copy()

    end = bounds(pair.primary, topic, PARTITIONS)[0].end
    for route in history.routes().values():
        assert route.preserved
        for offset in range(end + 1):
            assert route.map.translate(offset) == route.map.reverse(offset) == (offset, "exact")
        assert route.map.translate(end + 1) == (end, "clamped")
    history.assert_exact(kinds=False)


def test_a_consumer_that_goes_on_at_the_target_gets_the_record_that_was_next(pair: Pair) -> None:
    topic, group = pair.unique("going-on"), pair.unique("group")
    create_topic(pair.primary.bootstrap, topic, partitions=2)
    history = History(pair.folder, pair.primary, pair.backup, topic)
    for part in ("one", "two", "three"):
        history.write(part, 10, transactional_id=pair.unique("tx"))
        history.write(f"not {part}", 4, transactional_id=pair.unique("tx"), abort=True)
        history.copy()
    found = history.routes()
    everything = read_all(pair.primary.bootstrap, topic)

    for number in PARTITIONS:
        for most in (1, 9, 10, 11, 25, 30):
            with consumer(pair.primary, group, TopicPartition(topic, number, 0)) as reader:
                for _ in range(most):
                    message_of(reader)
                committed = reader.position([TopicPartition(topic, number)])[0].offset
            answer = found[Partition(topic, number)].map.translate(committed)
            assert answer
            place = TopicPartition(history.remote, number, answer.offset)
            with consumer(pair.backup, group, place) as reader:
                following = message_of(reader)
            want = everything[number][most : most + 1]
            have = [] if following is None else [following.value()]
            assert have == [record.value for record in want]


@contextmanager
def consumer(broker: KafkaCluster, group: str, place: TopicPartition) -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
        }
    )
    reader.assign([place])
    try:
        yield reader
    finally:
        reader.close()


def message_of(reader: Consumer) -> Message | None:
    """The next record, None at the partition's end."""
    message = reader.poll(20)
    assert message is not None
    if error := message.error():
        assert error.code() == KafkaError._PARTITION_EOF, error
        return None
    return message
