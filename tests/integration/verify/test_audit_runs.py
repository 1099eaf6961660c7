"""Audits of what real mirrors wrote, in Spark's tasks, interrupted, and of topics out of order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.audit.comparison.walk import LogWalk
from kafka_ferry.audit.terms import AuditTerms
from kafka_ferry.config import Flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.runs import job
from kafka_ferry.runs.audit import audit as audits
from kafka_ferry.runs.audit.audit import Audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.audit.scheduled import ScheduledAudit
from kafka_ferry.spark.session import SparkSource, no_spark, terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.mirrormaker2 import MirrorMaker2, one_way
from tests.support.brokers.access import deny
from tests.support.brokers.own_brokers import own_pair
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.runs.audits import Clusters, Fault, faults, records, shuffled
from tests.support.runs.flows import make_flow, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until


@pytest.fixture
def clusters(pair: Pair) -> Clusters:
    return Clusters(pair.folder, pair.primary, pair.backup)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("tests of audits", tasks=2) as spark:
        yield spark


def audited(flow: Flow, spark: SparkSource = no_spark, **request: Any) -> dict[str, Any]:
    this = Audit(flow, AuditRequest(**request))
    told: dict[str, Any] = json.loads(this.compare(this.plan(), spark, lambda *_: None).to_json())
    return told


def test_sparks_tasks_find_what_one_process_finds(
    pair: Pair, spark: SparkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pair.unique("spark")
    flow = pair.flow([topic])
    source = [records(200, number) for number in range(6)]
    copy = [list(part) for part in source]
    copy[5].append(copy[0].pop(7))
    del copy[3][50]
    copy[4].append(source[2][10])
    both = Clusters(pair.folder, pair.primary, pair.backup)
    both.write(pair.primary, topic, source)
    both.write(pair.backup, remote(flow, topic), copy)
    monkeypatch.setattr(audits, "SMALL", 0)

    found = faults(audited(flow, spark))

    assert found == {
        ("altered", 0, 7, 5, 200, ("partition",)),
        ("missing", 3, 50, 3, -1, ()),
        ("doubled", 2, 10, 4, 200, ()),
    }


def test_a_shuffled_topic_is_compared_without_order(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LogWalk.__init__.__kwdefaults__, "most", 50)
    topic = pair.unique("shuffled")
    flow = pair.flow([topic])
    source = [
        [record for record in records(300, number) if record.value is not None]
        for number in range(3)
    ]
    copy = shuffled(source, seed=5)
    lost = copy[0].pop(20)
    copy[1].append(copy[2][4])
    both = Clusters(pair.folder, pair.primary, pair.backup)
    both.write(pair.primary, topic, source)
    both.write(pair.backup, remote(flow, topic), copy)

    report = audited(flow)

    kinds = Counter(fault[0] for fault in faults(report))
    assert (kinds["missing"], kinds["doubled"], kinds["foreign"]) == (1, 1, 0)
    (missing,) = [fault for fault in faults(report) if fault[0] == "missing"]
    assert source[missing[1]][missing[2]] == lost
    assert not any(part["in_order"] for part in report["partitions"])


@pytest.mark.parametrize(("retention", "missing"), [("604800000", 0), ("-1", 40)])
def test_what_lies_before_the_log_of_a_target_that_keeps_all_is_missing(
    pair: Pair, retention: str, missing: int
) -> None:
    topic = pair.unique("kept")
    flow = pair.flow([topic])
    both = Clusters(pair.folder, pair.primary, pair.backup)
    both.write(pair.primary, topic, [records(100)])
    create_topic(pair.backup.bootstrap, remote(flow, topic), retention_ms=retention)
    produce(pair.backup.bootstrap, remote(flow, topic), records(100))
    delete_before(pair.backup, remote(flow, topic), 40)

    counts = audited(flow)["partitions"][0]["counts"]

    assert (counts["removed"], counts["missing"]) == (40 - missing, missing)


@pytest.mark.long
def test_an_audit_that_was_killed_continues_where_it_was(
    clusters: Clusters, unique: Unique
) -> None:
    topic = unique("killed")
    parts = [records(4_000, number) for number in range(8)]
    copy = [list(part) for part in parts]
    del copy[6][100]
    clusters.write(clusters.source, topic, parts)
    clusters.write(clusters.target, topic, copy)
    given = (
        *("--source-config", clusters.files[0], "--target-config", clusters.files[1]),
        *("--map", f"{topic}={topic}", "--json"),
    )
    # A partition of both clusters is some 200 kB.
    command = [sys.executable, "-m", "kafka_ferry", "audit", *map(str, given), "--rate", "100KiB"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"FERRY_HOME": str(clusters.folder)},
    )
    state = clusters.folder / ".ferry"
    try:
        wait_until(lambda: len(list(state.rglob("*.npz"))) >= 2, 60)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    # What is written now is not looked at: the ends of the first attempt count.
    produce(clusters.source.bootstrap, topic, [Record(value=b"later", partition=0)])
    kept = {file.name: file.stat().st_mtime_ns for file in state.rglob("*.npz")}
    (plan,) = state.rglob("plan.json")

    shown = clusters.audit(*given[4:])
    assert "--resume would continue it" in shown.stderr
    (newer,) = [file for file in state.rglob("plan.json") if file != plan]
    newer.unlink()
    resumed = clusters.audit(*given[4:], "--resume")

    report = json.loads(resumed.stdout)
    assert report["audit"] == json.loads(plan.read_text())["audit"]
    assert faults(report) == {("missing", 6, 100, 6, -1, ())}
    assert sum(part["counts"]["source_records"] for part in report["partitions"]) == 32_000
    assert len(kept) >= 2
    assert not list(state.rglob("*.npz"))


def mirror(flow: Flow, source: KafkaCluster, target: KafkaCluster, folder: Path) -> MirrorMaker2:
    ways = one_way(
        *(flow.source.alias, source.bootstrap), *(flow.target.alias, target.bootstrap, flow.topics)
    )
    return MirrorMaker2(folder / "mm2", ways)


def read(cluster: KafkaCluster, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """What a consumer gets of each partition, without offsets: an independent look at both sides."""
    found = read_all(cluster.bootstrap, topic, isolation="read_uncommitted")
    return {
        number: [(one.key, one.value, one.headers, one.timestamp) for one in some]
        for number, some in found.items()
    }


@pytest.mark.long
@pytest.mark.timeout(400)
def test_what_mirrormaker_2_doubled_lost_and_kept_is_found(pair: Pair) -> None:
    doubled, cut, open_, again = (pair.unique(name) for name in ("doubled", "cut", "open", "again"))
    flow = pair.flow([doubled, cut, open_, again])
    create_topic(pair.primary.bootstrap, doubled, partitions=2)
    for topic in (cut, open_, again):
        create_topic(pair.primary.bootstrap, topic)
    part = [replace(record, partition=0) for record in records(300)]
    pair.produce(again, part[:50])
    pair.produce(cut, part)
    # MirrorMaker 2 comes when retention has been there already.
    delete_before(pair.primary, cut, 120)
    pair.produce(open_, part[:100], transactional_id=open_)
    pair.produce(open_, part[100:150], transactional_id=open_, abort=True)
    pair.produce(open_, part[150:], transactional_id=open_)
    mm2 = mirror(flow, pair.primary, pair.backup, pair.folder)
    copies = {topic: remote(flow, topic) for topic in (doubled, cut, open_, again)}
    pair.produce(doubled, some(2_000, "first"))
    with mm2:
        counts = {copies[cut]: 180, copies[open_]: 300, copies[doubled]: 2_000}
        counts[copies[again]] = 50
        mm2.wait_until_copied(pair.backup.bootstrap, counts)
        # It flushes its positions at its end, and then no more before it is killed.
        mm2.stop()
        mm2.properties[f"{flow.target.alias}.offset.flush.interval.ms"] = "600000"
        # MirrorMaker 2's position is after the new topic's end, so that it copies it from its start.
        recreate_topic(pair.primary, again)
        pair.produce(again, part[100:120])
        mm2.start()
        mm2.wait_until_copied(pair.backup.bootstrap, {copies[again]: 70})
        # It also flushes where it gives its tasks other partitions, as it does for the new topic.
        for attempt in range(4):
            before = size(pair.backup, copies[doubled])
            for number in range(40):
                pair.produce(doubled, some(500, f"{attempt}-{number}"))
            mm2.wait_until_copied(pair.backup.bootstrap, {copies[doubled]: before + 5_000})
            mm2.kill()
            mm2.start()
            # What is written last arrives last, in each partition.
            pair.produce(doubled, some(2, f"last-{attempt}"))
            wait_until(
                partial(ends_with_last, pair.backup, copies[doubled], f"last-{attempt}"), 120
            )
            if size(pair.backup, copies[doubled]) > size(pair.primary, doubled):
                break
        for topic in (cut, open_, again):
            pair.produce(topic, some(1, "last"))
        wait_until(lambda: all(map(ends_with_last, [pair.backup] * 4, copies.values())), 120)

    report = audited(flow, terms=AuditTerms(isolation="read_uncommitted"))

    found = {topic: set[Fault]() for topic in copies}
    for part in report["partitions"]:
        found[part["pair"]["topic"]] |= faults({"partitions": [part]})
    expected = Counter[tuple[int, int]]()
    ours, theirs = read(pair.primary, doubled), read(pair.backup, copies[doubled])
    for number, copied in theirs.items():
        places = {record: offset for offset, record in enumerate(ours[number])}
        expected += Counter((number, places[record]) for record in copied)
    expected -= Counter((number, at) for number, part in ours.items() for at in range(len(part)))
    assert expected
    assert Counter((fault[1], fault[2]) for fault in found[doubled]) == expected
    for topic in (doubled, cut, open_):
        assert {fault[0] for fault in found[topic]} <= {"doubled"}
    for topic, records_ in ((cut, 181), (open_, 301)):
        assert len(found[topic]) == size(pair.backup, copies[topic]) - records_
    # What it copied again after it was killed, and the records of the topic's first incarnation.
    kinds = Counter(fault[0] for fault in found[again])
    assert kinds == Counter(foreign=50, doubled=size(pair.backup, copies[again]) - 71)
    assert {fault[4] for fault in found[again] if fault[0] == "foreign"} == set(range(50))
    committed = audited(flow, topics=(open_,))
    kinds = Counter(fault[0] for fault in faults(committed))
    assert kinds == Counter(foreign=50, doubled=size(pair.backup, copies[open_]) - 301)


def some(count: int, mark: str) -> list[Record]:
    return [
        Record(value=f"{mark}-{number}".encode(), partition=number % 2) for number in range(count)
    ]


def ends_with_last(cluster: KafkaCluster, topic: str, mark: str = "last") -> bool:
    """Whether each partition's last record is the last one that was written to it."""
    parts = read(cluster, topic).values()
    return all(part and (part[-1][1] or b"").startswith(mark.encode()) for part in parts)


def size(cluster: KafkaCluster, topic: str) -> int:
    return sum(map(len, read(cluster, topic).values()))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two brokers on which a client that does not log in is bound by ACLs."""
    with own_pair(tmp_path_factory.mktemp("strict"), {"super.users": "User:nobody"}) as brokers:
        yield brokers


def test_what_may_not_be_read_is_named_and_the_rest_compared(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster], unique: Unique
) -> None:
    source, target = strict
    named = ("unreadable", "hidden", "whole", "unseen", "matched", "lacking")
    unreadable, hidden, whole, unseen, matched, lacking = map(unique, named)
    names = [unreadable, hidden, whole, unseen, f"{matched}.*", lacking]
    flow = make_flow(folder, source, target, names)
    both = Clusters(folder, source, target)
    for topic in (unreadable, hidden, whole, unseen, matched):
        both.write(source, topic, [records(20), records(20, 1)])
        both.write(target, remote(flow, topic), [records(20), records(20, 1)])
    deny(source, f"topic {unreadable}", "READ")
    deny(target, f"topic {remote(flow, hidden)}", "DESCRIBE")
    # A broker leaves these out of its list without a word.
    for topic in (unseen, matched):
        deny(source, f"topic {topic}", "DESCRIBE")

    this = Audit(flow, AuditRequest())
    report = this.compare(this.plan(), no_spark, lambda *_: None)

    assert report.state == "not compared"
    states = {str(part.pair): part.state for part in report.partitions}
    assert states == {
        f"{unreadable}-0": "not compared",
        f"{unreadable}-1": "not compared",
        f"{whole}-0": "same",
        f"{whole}-1": "same",
    }
    reasons = {part.reason.partition(".")[0] for part in report.partitions if part.reason}
    assert len(reasons) == 2
    assert all("offset 0: TOPIC_AUTHORIZATION_FAILED" in reason for reason in reasons)
    skipped = {it.topic: it.reason for it in report.skipped}
    assert {it.remote_topic for it in report.skipped} == {remote(flow, it) for it in skipped}
    assert skipped.keys() == {hidden, unseen, matched, lacking}
    assert "TOPIC_AUTHORIZATION_FAILED" in skipped[hidden]
    assert all("does not let the flow see" in skipped[it] for it in (unseen, matched))
    assert skipped[lacking] == f"{flow.source.alias} has no topic {lacking}."


def test_a_topic_that_an_audit_is_asked_for_and_that_is_not_there_is_named(pair: Pair) -> None:
    topic, other = pair.unique("orders"), pair.unique("other")
    flow = pair.flow([topic])
    both = Clusters(pair.folder, pair.primary, pair.backup)
    for it in (topic, other):
        both.write(pair.primary, it, [records(20)])
        both.write(pair.backup, remote(flow, it), [records(20)])
    request = AuditRequest(topics=(topic, f"{topic}s", other))

    this = Audit(flow, request)
    report = this.compare(this.plan(), no_spark, lambda *_: None)

    assert [it.topic for it in report.skipped] == [f"{topic}s"]
    assert report.state == "not compared"


def test_a_scheduled_audit_fails_with_what_it_found_and_remembers_it(pair: Pair) -> None:
    topic = pair.unique("scheduled")
    flow = pair.flow([topic], audit_schedule="7 days", audit_sample=5)
    both = Clusters(pair.folder, pair.primary, pair.backup)
    both.write(pair.primary, topic, [records(30)])
    both.write(pair.backup, remote(flow, topic), [records(30)[:29]])

    this = ScheduledAudit(flow, "scheduled__1")
    assert not this.needs_spark()
    with pytest.raises(VerificationFailed, match="1 missing"):
        this.run(no_spark)
    failure = ScheduledAudit(flow, "scheduled__1").failure()
    assert failure is not None
    assert "offset 29 missing on the target" in str(failure)
    assert failure.exit_code == 7

    produce(pair.backup.bootstrap, remote(flow, topic), records(30)[29:])
    later = ScheduledAudit(flow, "scheduled__2")
    assert later.run(no_spark).state == "same"
    assert later.failure() is None
    submitted = ["--config", flow.file, "--flow", flow.name, "--run-id"]
    assert job.audit([*submitted, "scheduled__3"]) == 0
    produce(pair.backup.bootstrap, remote(flow, topic), [Record(value=b"strange", partition=0)])
    assert job.audit([*submitted, "scheduled__4"]) == 7
    assert "1 foreign" in str(ScheduledAudit(flow, "scheduled__4").failure())
