"""What must be so after a storm, and what to know of a partition that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import itemgetter
from typing import Any

from confluent_kafka import KafkaException

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model import TopicPartition
from kafka_sandbox.cluster import KafkaCluster
from tests.faults.topics import StormTopic
from tests.support.records.builders import ConsumedRecord, read_all
from tests.support.records.offsets import ISOLATIONS, assert_same_offsets, bounds, read_offsets
from tests.support.runs.flows import content, ledger_rows, remote

_AROUND = 60
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Branch:
    """What a remote partition has of branches that its source has lost, or shares with the present one.

    Attributes:
        content: of its first records, as ``content`` gives it.
        since: the source's offset from which on its records follow.
    """

    content: tuple[tuple[object, ...], ...] = ()
    since: int = 0


Branches = Mapping[TopicPartition, Branch]


def assert_copied(
    source: KafkaCluster,
    topic: StormTopic,
    target: KafkaCluster,
    remote_topic: str,
    ledger: Sequence[Row],
    branches: Branches,
) -> None:
    """The target has the source's records, at the same offsets where these are preserved.

    Args:
        branches: by partition of the source, what the target has of branches that the source has lost.

    Raises:
        AssertionError: with what is known of the partitions that differ.
    """
    if topic.rule:
        assert_ruled(source, topic, target, remote_topic)
        return
    try:
        if topic.preserved:
            assert_same_offsets(source, topic.name, target, remote_topic, compacted=topic.compacted)
        else:
            here = read_all(source.bootstrap, topic.name)
            assert_same_branches(topic, here, read_all(target.bootstrap, remote_topic), branches)
    except AssertionError as error:
        for line in differences(source, topic.name, target, remote_topic, ledger):
            error.add_note(line)
        raise


def assert_same_branches(
    topic: StormTopic,
    here: Mapping[int, Sequence[ConsumedRecord]],
    there: Mapping[int, Sequence[ConsumedRecord]],
    branches: Branches,
) -> None:
    """The target has the records of lost branches and then the source's, in order, each once.

    Raises:
        AssertionError: with both sides of the first record that differs.
    """
    have = content(there)
    assert here.keys() == have.keys()
    for number, records in here.items():
        branch = branches.get(TopicPartition(topic.name, number), Branch())
        following = [record for record in records if record.offset >= branch.since]
        want = [*branch.content, *content({number: following})[number]]
        for at, (left, right) in enumerate(zip(want, have[number], strict=False)):
            assert left == right, f"{topic.name}-{number}: record {at} differs:\n{left}\n{right}"
        counts = f"{len(want)} records on the source, {len(have[number])} on the target"
        assert len(want) == len(have[number]), f"{topic.name}-{number}: {counts}"


def assert_ruled(
    source: KafkaCluster, topic: StormTopic, target: KafkaCluster, remote_topic: str
) -> None:
    """The target has what the topic's rule makes of the source's records, in order, each once.

    Raises:
        AssertionError: with both sides of the first record that differs.
    """
    for number, records in read_all(source.bootstrap, topic.name).items():
        made = [it for record in records if (it := topic.ruled(record))]
        there = read_all(target.bootstrap, remote_topic)[number]
        (want,), (have,) = (content({number: it}).values() for it in (made, there))
        for at, (left, right) in enumerate(zip(want, have, strict=False)):
            assert left == right, f"{topic.name}-{number}: record {at} differs:\n{left}\n{right}"
        counts = f"{len(want)} records by the rule, {len(have)} on the target"
        assert len(want) == len(have), f"{topic.name}-{number}: {counts}"
        if topic.preserved:
            assert [it.offset for it in made] == [it.offset for it in there], topic.name


def assert_ledger_tells(source: KafkaCluster, topic: StormTopic, ledger: Sequence[Row]) -> None:
    """The ranges of each partition join, from the mirror's start on, without gap or overlap.

    And where offsets are preserved, every segment says so.
    """
    for number, log in bounds(source, topic.name, range(topic.partitions)).items():
        where = f"{topic.name}-{number}"
        ranges = [row for row in ledger if (row["topic"], row["partition"]) == (topic.name, number)]
        ranges.sort(key=itemgetter("ledger_offset", "start"))
        # A mirror begins where the source's log began at the time.
        latest = log.start if topic.truncated else 0
        at = ranges[0]["start"] if ranges else log.start
        assert at <= latest, f"{where}: the ledger begins at {at}, the source's log at {latest}"
        for row in ranges:
            if row["rewound_from"] >= 0:
                assert row["rewound_from"] == at > row["start"], f"{where}: {row} at {at}"
                at = row["start"]
            assert row["start"] == at, f"{where}: {row} does not begin at {at}"
            assert row["preserved"] == topic.preserved, f"{where}: {row}"
            moved = [s for s in row["segments"] if s["source"] != s["target"]]
            assert not (topic.preserved and moved), f"{where}: {moved} in {row}"
            at = row["end"]
        assert at == log.end, f"{where}: the ledger ends at {at}, the source's log at {log.end}"


def assert_nothing_else(
    source: KafkaCluster, topic: StormTopic, target: KafkaCluster, remote_topic: str
) -> int:
    """No consumer of the target sees a record that the source does not have at that offset.

    Compared is what the source still has when all is read: it may have deleted and compacted.

    Returns:
        How many records a ``read_uncommitted`` consumer of the target sees.
    """
    try:
        seen = {
            isolation: read_offsets(target, remote_topic, isolation) for isolation in ISOLATIONS
        }
    except KafkaException:
        # No run has come to create it.
        return 0
    known = read_offsets(source, topic.name)
    logs = bounds(source, topic.name, known)
    for isolation, partitions in seen.items():
        for number, records in partitions.items():
            there = known[number]
            for offset, record in records.items():
                gone = offset < logs[number].start or (topic.compacted and offset not in there)
                assert gone or _said(record) == _said(there.get(offset)), (
                    f"{remote_topic}-{number}, {isolation}:\n"
                    f"  source  {there.get(offset)}\n  target  {record}"
                )
    return sum(len(records) for records in seen["read_uncommitted"].values())


def _said(record: ConsumedRecord | None) -> object:
    """What must be the same of records at the same offset; that of append time becomes a record's own."""
    return record and (record.key, record.value, record.headers, record.timestamp)


def present_rows(flow: Flow, topic: StormTopic, ledger: Sequence[Row]) -> list[Row]:
    """The ledger's rows about a topic, without those of remote topics that were given up."""
    remote_topic = remote(flow, topic.name)
    ids = ClusterControl(flow.target).topic_ids([remote_topic])
    return [
        row
        for row in ledger
        if (row["topic"], row["remote_topic_id"]) == (topic.name, ids.get(remote_topic))
    ]


def uncommitted(flow: Flow, target: KafkaCluster, topics: Sequence[StormTopic]) -> list[str]:
    """The partitions with preserved offsets that were written to and are not in the ledger."""
    rows = ledger_rows(flow)
    committed = {
        (row["topic"], row["partition"])
        for topic in topics
        for row in present_rows(flow, topic, rows)
    }
    return [
        f"{topic.name}-{number}"
        for topic in topics
        if topic.preserved
        for number, log in bounds(
            target, remote(flow, topic.name), range(topic.partitions), "read_uncommitted"
        ).items()
        if log.end and (topic.name, number) not in committed
    ]


def differences(
    source: KafkaCluster, topic: str, target: KafkaCluster, remote_topic: str, ledger: Sequence[Row]
) -> Iterator[str]:
    """Lines about each partition of ``topic`` whose records differ; none where all is well."""
    here, there = read_all(source.bootstrap, topic), read_all(target.bootstrap, remote_topic)
    want, have = content(here), content(there)
    for number in sorted(want):
        left, right = want[number], have.get(number, [])
        if left == right:
            continue
        lost, extra = Counter(left) - Counter(right), Counter(right) - Counter(left)
        yield (
            f"{topic}-{number}: {len(left)} records on the source, {len(right)} on the target, "
            f"{lost.total()} lost, {extra.total()} too many"
        )
        at = next(
            (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
            min(len(left), len(right)),
        )
        yield from _steps(here[number][at:], there.get(number, [])[at:])
        for row in sorted(
            (row for row in ledger if (row["topic"], row["partition"]) == (topic, number)),
            key=lambda row: (row["start"], row["end"]),
        )[:_AROUND]:
            shown = ("ledger_offset", "run", "writer", "start", "end", "records", "segments")
            yield f"  ledger: { {name: row[name] for name in shown} }"


def _steps(left: Sequence[ConsumedRecord], right: Sequence[ConsumedRecord]) -> Iterator[str]:
    """How to make the source's records from the target's, by offsets, from the first difference on."""
    a, b = ([(r.key, r.value, r.timestamp) for r in side[:3000]] for side in (left, right))
    for kind, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()[:_AROUND]:
        yield f"  {kind}: source {_offsets(left[i:j])}, target {_offsets(right[k:m])}"


def _offsets(records: Sequence[ConsumedRecord]) -> str:
    return f"[{records[0].offset}..{records[-1].offset}]" if records else "nothing"
