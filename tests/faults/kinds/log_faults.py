"""Logs that lose their newest records on all replicas, as in an unclean leader election or a power cut.

Each of these faults waits until all is copied, and sees after it that runs name what they have to, and
nothing else; then it goes the way out that the docs have for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.positions import position_group
from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from tests.faults.evidence import Branch, assert_same_branches, present_rows
from tests.support.brokers.segments import (
    base_offset,
    ends_of_transactions,
    keep_before,
    read_batches,
)
from tests.support.records.builders import read_all
from tests.support.records.offsets import bounds
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import content, ledger_rows, remote

if TYPE_CHECKING:
    from tests.faults.storm import Storm

OFFSETS = "__consumer_offsets"
# How many of a log's batches are lost.
_LOST = (1, 1, 2, 3, 8, 30)
_MOVED = "another client has committed there"


def lose_target_log(storm: Storm) -> bool:
    """Cut the log of one remote partition, and find it named if the ledger has more."""
    if not _settle(storm):
        return False
    topic = storm.chance.choice(storm.topics)
    log = TopicPartition(remote(storm.flow, topic.name), storm.chance.randrange(topic.partitions))
    target = storm.sides["target"].cluster
    rows = present_rows(storm.flow, topic, ledger_rows(storm.flow))
    if not _cut(storm, "target", [log]):
        return False
    ((_, left),) = bounds(target, log.topic, [log.partition], "read_uncommitted").items()
    ends = [
        segment["target"] + segment["records"]
        for row in rows
        if row["partition"] == log.partition
        for segment in row["segments"]
    ]
    must = {topic.name} if max(ends, default=0) > left.end else set()
    storm.note(f"{log} ends at {left.end}; the ledger has records up to {max(ends, default=0)}")
    if storm.chance.random() < 0.5:
        # Killed brokers may forget where a log starts, and a run deletes what is before it again.
        begun = {it.name for it in storm.topics if it.truncated}
        _see(storm, storm.verify(), must, {topic.name, *begun}, "a verification")
    _go_on(storm, must, {topic.name})
    return True


def lose_bookkeeping(storm: Storm) -> bool:
    """Cut the ledger, or the log of the group's offsets, or both."""
    if not _settle(storm):
        return False
    brokers = storm.sides["target"].cluster
    ledger = TopicPartition(ledger_topic(storm.flow.source.alias), 0)
    offsets = _log_of_group(brokers, position_group(storm.flow.name))
    logs = storm.chance.choice([[ledger], [offsets], [ledger, offsets]])
    if not _cut(storm, "target", logs):
        return False
    _go_on(storm, set(), {topic.name for topic in storm.topics})
    return True


def lose_source_log(storm: Storm) -> bool:
    """Cut the log of one partition of the source, before which other records will follow."""
    if not _settle(storm):
        return False
    topic = storm.chance.choice(storm.topics)
    log = TopicPartition(topic.name, storm.chance.randrange(topic.partitions))
    source, target = (storm.sides[name].cluster for name in ("source", "target"))
    there = read_all(source.bootstrap, topic.name)[log.partition]
    ends = [
        row["end"]
        for row in present_rows(storm.flow, topic, ledger_rows(storm.flow))
        if row["partition"] == log.partition
    ]
    copied = max(ends, default=0)
    at = _cut(storm, "source", [log], clean=True).get(log)
    if at is None:
        return False
    storm.note(f"{log} is cut to {at}; it was copied up to {copied}")
    follows = storm.follows and not topic.preserved
    if at < copied and follows:
        before = {log.partition: [it for it in there if it.offset < copied]}
        kept = {
            log.partition: read_all(target.bootstrap, remote(storm.flow, topic.name))[log.partition]
        }
        assert_same_branches(topic, before, kept, storm.branches)
        storm.branches[log] = Branch(tuple(content(kept)[log.partition]), at)
    must = {topic.name} if at < copied and not follows else set()
    _go_on(storm, must, set() if follows else {topic.name})
    return True


def _settle(storm: Storm) -> bool:
    """Let all be copied; False where no run copies as yet."""
    if not storm.runs.copying:
        return False
    storm.calm()
    return True


def _log_of_group(brokers: Brokers, group: str) -> TopicPartition:
    """Where the offsets of a group are."""
    folders = chain.from_iterable(
        broker.log_folder(OFFSETS, 0).parent.glob(f"{OFFSETS}-*")
        for broker in brokers.brokers.values()
    )
    numbers = {int(folder.name.rpartition("-")[2]) for folder in folders}
    for log in (TopicPartition(OFFSETS, number) for number in sorted(numbers)):
        if any(group.encode() in it for it in chain.from_iterable(_replicas(brokers, log))):
            return log
    raise LookupError(f"No offsets of {group}")


def _cut(
    storm: Storm, side: str, logs: Sequence[TopicPartition], *, clean: bool = False
) -> Mapping[TopicPartition, int]:
    """Kill all brokers of a side, take the last batches of logs from all replicas, and start the brokers.

    Args:
        clean: whether to cut where no transaction is open.

    Returns:
        Where each log was cut; without those that had too little.
    """
    brokers = storm.sides[side].cluster
    brokers.kill()
    cut = {}
    try:
        for log in logs:
            longest = max(_replicas(brokers, log), key=_last_offset, default=[])
            offsets = ends_of_transactions(longest) if clean else [*map(base_offset, longest)]
            # One batch stays, or the log would have no end where its start is not 0.
            offsets = [it for it in offsets if it > base_offset(longest[0])]
            if offsets:
                cut[log] = offsets[-min(storm.chance.choice(_LOST), len(offsets))]
        for log, offset in cut.items():
            for broker in _brokers_with(brokers, log):
                keep_before(broker, log.topic, offset, log.partition)
    finally:
        brokers.start().wait_ready(120)
    storm.note(", ".join(f"{log} is cut to {at}" for log, at in cut.items()))
    return cut


def _replicas(brokers: Brokers, log: TopicPartition) -> list[list[bytes]]:
    return [
        read_batches(broker, log.topic, log.partition) for broker in _brokers_with(brokers, log)
    ]


def _brokers_with(brokers: Brokers, log: TopicPartition) -> list[Broker]:
    each = brokers.brokers.values()
    return [it for it in each if it.log_folder(log.topic, log.partition).is_dir()]


def _last_offset(batches: Sequence[bytes]) -> int:
    return base_offset(batches[-1]) if batches else -1


def _go_on(storm: Storm, must: Collection[str], may: Collection[str]) -> None:
    """Run until what is refused stays the same; see that it is what it must be, and go the way out."""
    failures = storm.stable_failures()
    _see(storm, failures, must, may, "a run")
    for topic in storm.topics:
        said = [sentence for sentence in failures if topic.name in sentence]
        if not said:
            continue
        if all(_MOVED in sentence for sentence in said):
            storm.runs.change_flow(on_position_moved="ledger")
            storm.calm()
            storm.runs.change_flow(on_position_moved="fail")
        else:
            _give_up(storm, topic.name)
    storm.calm()


def _see(
    storm: Storm, failures: Sequence[str], must: Collection[str], may: Collection[str], who: str
) -> None:
    """Complain of topics that are not named and have to be, and of those that are named without a reason."""
    named = {topic.name for topic in storm.topics if any(topic.name in it for it in failures)}
    for topic in must - named:
        storm.runs.complaints.append(f"{who} does not name {topic}: {failures}")
    for topic in named - {*may}:
        storm.runs.complaints.append(f"{who} names {topic}, of which nothing is lost: {failures}")


def _give_up(storm: Storm, topic: str) -> None:
    done = ferry(
        "repair", "--config", storm.runs.file, "--topic", remote(storm.flow, topic), "--yes"
    )
    storm.note(f"{topic} is given up")
    if done.returncode:
        storm.runs.complaints.append(f"{topic} cannot be given up: {done}")
    for log in [log for log in storm.branches if log.topic == topic]:
        del storm.branches[log]


_Strike = Callable[["Storm"], bool]
KINDS: Sequence[tuple[str, float, _Strike]] = (
    ("cut a log of the target", 0.6, lose_target_log),
    ("cut the ledger, the positions, or both", 0.6, lose_bookkeeping),
    ("cut a log of the source", 0.6, lose_source_log),
)
