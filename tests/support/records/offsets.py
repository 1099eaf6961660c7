"""Source and target compared offset by offset, by a consumer (librdkafka) that is no part of the copier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import ConsumedRecord, read_all

ISOLATIONS = ("read_committed", "read_uncommitted")

_LEVELS = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}

Shown = Mapping[int, ConsumedRecord]


@dataclass(frozen=True)
class Bounds:
    """Where a log starts, and where a consumer's view of it ends; both are the next offset to read."""

    start: int
    end: int


def read_offsets(
    broker: KafkaCluster, topic: str, isolation: str = "read_committed"
) -> dict[int, dict[int, ConsumedRecord]]:
    """What a consumer is shown of a topic: by partition and by offset."""
    shown = {}
    for number, records in read_all(broker.bootstrap, topic, isolation=isolation).items():
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets)), f"{topic}-{number} is not in the order of offsets"
        shown[number] = {record.offset: record for record in records}
    return shown


def bounds(
    broker: KafkaCluster, topic: str, partitions: Iterable[int], isolation: str = "read_committed"
) -> dict[int, Bounds]:
    """The log start, and the last stable offset or the high watermark, of each partition."""
    wanted = [TopicPartition(topic, number) for number in partitions]
    client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})

    def asked(spec: OffsetSpec) -> dict[int, int]:
        answers = client.list_offsets(
            dict.fromkeys(wanted, spec), isolation_level=_LEVELS[isolation]
        )
        return {tp.partition: future.result().offset for tp, future in answers.items()}

    starts, ends = asked(OffsetSpec.earliest()), asked(OffsetSpec.latest())
    return {number: Bounds(starts[number], ends[number]) for number in starts}


def assert_same_offsets(
    source: KafkaCluster,
    topic: str,
    target: KafkaCluster,
    remote_topic: str,
    *,
    source_isolation: str = "read_committed",
    compacted: bool = False,
) -> None:
    """The target shows, in either isolation level, at each offset what the source shows there.

    Logs start at the same offset, and the source's last stable offset is both the high watermark
    and the last stable offset of the target. A source's LogAppendTime is CreateTime on the target.

    Args:
        source: the cluster that was copied.
        topic: its topic.
        target: the cluster that it was copied to.
        remote_topic: the topic there.
        source_isolation: which of the source's views is the one to compare with.
        compacted: allows each side to have compacted away what the other one still has: a record
            whose key has a later one there, and a key whose last record is a tombstone.

    Raises:
        AssertionError: with both sides of the first offset that differs.
    """
    expected = read_offsets(source, topic, source_isolation)
    want = {number: _as_copied(records) for number, records in expected.items()}
    for isolation in ISOLATIONS:
        have = read_offsets(target, remote_topic, isolation)
        assert want.keys() == have.keys(), f"{remote_topic} has partitions {sorted(have)}"
        for number, records in want.items():
            where = f"{topic}-{number}, {isolation} on the target"
            assert_same_records(where, records, have[number], compacted=compacted)
    at_source = bounds(source, topic, want, source_isolation)
    for isolation in ISOLATIONS:
        at_target = bounds(target, remote_topic, want, isolation)
        assert at_source == at_target, (
            f"{topic} begins or ends elsewhere, {isolation} on the target:\n"
            f"  source  {at_source}\n  target  {at_target}"
        )


def assert_same_records(where: str, want: Shown, have: Shown, *, compacted: bool = False) -> None:
    """The same records at the same offsets.

    Args:
        where: what is compared, for the message.
        want: what the source shows, by offset.
        have: what the target shows, by offset.
        compacted: as for ``assert_same_offsets``.
    """
    offsets = sorted(want.keys() | have.keys())
    differing = [offset for offset in offsets if want.get(offset) != have.get(offset)]
    if compacted:
        gone = _compacted_away(want, have) | _compacted_away(have, want)
        differing = [offset for offset in differing if offset not in gone]
    if differing:
        first = differing[0]
        raise AssertionError(
            f"{where}: {len(differing)} of {len(offsets)} offsets differ, the first is {first}:\n"
            f"  source  {_told(want.get(first))}\n  target  {_told(have.get(first))}"
        )


def _as_copied(records: Shown) -> dict[int, ConsumedRecord]:
    return {
        offset: replace(record, timestamp_type="CreateTime")
        if record.timestamp_type == "LogAppendTime"
        else record
        for offset, record in records.items()
    }


def _compacted_away(shown: Shown, elsewhere: Shown) -> set[int]:
    """The offsets that one side shows and the cleaner may have taken from the other."""
    last = {record.key: offset for offset, record in sorted(shown.items())}
    last_elsewhere = {record.key: offset for offset, record in sorted(elsewhere.items())}

    def may_be_gone(record: ConsumedRecord) -> bool:
        tombstone = shown[last[record.key]].value is None
        return record.offset < last_elsewhere.get(record.key, -1) or (
            tombstone and record.key not in last_elsewhere
        )

    return {
        offset
        for offset, record in shown.items()
        if record.key is not None and offset not in elsewhere and may_be_gone(record)
    }


def _told(record: ConsumedRecord | None) -> str:
    if record is None:
        return "nothing"
    time = f"{record.timestamp_type} {record.timestamp}"
    return f"key {record.key!r}, value {record.value!r}, headers {record.headers!r}, {time}"
