"""Copies of any mirror are audited: each fault that was planted is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_ferry.clock import now_ms
from kafka_ferry.config import load_flow
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    produce,
    set_config,
)
from tests.support.records.histories import named
from tests.support.runs.audits import FIRST_MS, Clusters, Fault, faults, records
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, failures, remote, write_flow
from tests.support.runs.pair import Pair, Unique


@pytest.fixture
def clusters(pair: Pair) -> Clusters:
    return Clusters(pair.folder, pair.primary, pair.backup)


def test_a_whole_copy_is_the_same_and_says_what_was_compared(
    clusters: Clusters, unique: Unique
) -> None:
    topic = unique("orders")
    parts = [records(1_500), records(700, 1), []]
    clusters.write(clusters.source, topic, parts)
    clusters.write(clusters.target, topic, parts)

    shown = clusters.audit("--map", f"{topic}={topic}", "--output", clusters.folder / "out")

    assert shown.returncode == 0, shown.stderr
    assert "The copy is the same as its source: 2,200 records" in shown.stdout
    assert "1 partitions had nothing to compare." in shown.stdout
    assert "read_committed consumer" in shown.stdout
    out = clusters.folder / "out"
    assert "The copy is the same as its source" in (out / "report.html").read_text()
    assert pq.read_table(out / "findings.parquet").num_rows == 0


def test_every_planted_fault_is_found_and_nothing_else(clusters: Clusters, unique: Unique) -> None:
    topic = unique("faults")
    source = [records(400), records(300, 1), records(200, 2)]
    clusters.write(clusters.source, topic, source)
    copy = [list(part) for part in source]
    expected: set[Fault] = set()

    # Partition 0, from the back to the front, so that offsets before stay what they are.
    copy[0].append(source[0][7])
    expected.add(("doubled", 0, 7, 0, 398, ()))
    copy[0].insert(350, Record(value=b"strange", timestamp=FIRST_MS - 5))
    expected.add(("foreign", 0, -1, 0, 347, ()))
    for offset, what in ((300, "key"), (305, "value"), (310, "headers"), (315, "timestamp")):
        changed: dict[str, Any] = {
            "key": b"another",
            "value": b"another",
            "headers": (("h", b"2"),),
            "timestamp": FIRST_MS + 999_999,
        }
        copy[0][offset] = replace(copy[0][offset], **{what: changed[what]})
        expected.add(("altered", 0, offset, 0, offset - 3, (what,)))
    del copy[0][100:103]
    expected |= {("missing", 0, offset, 0, -1, ()) for offset in (100, 101, 102)}
    # Partition 1: one record later than it was, one in partition 2, and one of partition 2 twice.
    moved = copy[1].pop(50)
    copy[1].insert(200, moved)
    expected.add(("reordered", 1, 50, 1, 200, ()))
    elsewhere = copy[1].pop(280)
    copy[2].insert(100, elsewhere)
    expected.add(("altered", 1, 280, 2, 100, ("partition",)))
    copy[1].append(source[2][10])
    expected.add(("doubled", 2, 10, 1, 299, ()))
    clusters.write(clusters.target, topic, copy)

    report = clusters.report(topic, "--output", clusters.folder / "out")

    assert faults(report) == expected
    assert (report["status"], report["state"]) == (2, "differs")
    assert report["found"] == {
        "missing": 3,
        "doubled": 2,
        "reordered": 1,
        "altered": 5,
        "foreign": 1,
    }
    rows = pq.read_table(clusters.folder / "out" / "findings.parquet").to_pylist()
    assert len(rows) == len(expected) - 2
    (missing,) = [row for row in rows if row["kind"] == "missing"]
    assert (missing["source_offset"], missing["target_offset"], missing["records"]) == (
        100,
        None,
        3,
    )


def test_what_the_targets_cleaner_alone_has_removed_is_missing(
    clusters: Clusters, unique: Unique
) -> None:
    topic = unique("events")
    written = [Record(value=b"%d" % i, timestamp=FIRST_MS + i) for i in range(20)]
    clusters.write(clusters.source, topic, [written])
    clusters.write(clusters.target, topic, [written[-1:]])
    set_config(clusters.target, topic, "cleanup.policy", "compact")

    report = clusters.report(topic)

    assert (report["status"], report["found"]) == (2, {"missing": 19})


def test_nothing_is_never_called_the_same(clusters: Clusters, unique: Unique) -> None:
    empty, gone = unique("empty"), unique("gone")
    clusters.write(clusters.source, empty, [[]])
    clusters.write(clusters.target, empty, [[]])
    clusters.write(clusters.source, gone, [records(20)])
    clusters.write(clusters.target, gone, [records(20)])
    delete_before(clusters.source, gone, 20)

    for topic in (empty, gone):
        report = clusters.report(topic)
        assert (report["status"], report["state"]) == (7, "nothing")
    report = clusters.report(gone, to=unique("absent"))
    assert (report["status"], report["state"]) == (7, "not compared")
    assert "target has no topic" in report["skipped"][0]["reason"]


def test_transactions_that_were_aborted_count_only_where_all_is_read(
    clusters: Clusters, unique: Unique
) -> None:
    topic = unique("transactions")
    for cluster in (clusters.source, clusters.target):
        create_topic(cluster.bootstrap, topic)
    part = [replace(record, partition=0) for record in records(60)]
    for first in range(0, 60, 10):
        aborts = first == 30
        produce(
            *(clusters.source.bootstrap, topic, part[first : first + 10]),
            transactional_id=topic,
            abort=aborts,
        )
    produce(clusters.target.bootstrap, topic, part)

    committed = clusters.report(topic)
    assert {fault[0] for fault in faults(committed)} == {"foreign"}
    assert {fault[4] for fault in faults(committed)} == set(range(30, 40))
    everything = clusters.report(topic, "--isolation", "read_uncommitted")
    assert (everything["state"], everything["status"]) == ("same", 0)


def test_a_window_is_compared_by_the_records_times(clusters: Clusters, unique: Unique) -> None:
    topic = unique("window")
    part = records(100)
    clusters.write(clusters.source, topic, [part])
    clusters.write(clusters.target, topic, [part[:10] + part[11:50] + part[51:90] + part[91:]])

    since, until = (
        datetime.fromtimestamp((FIRST_MS + after) / 1000, UTC).isoformat(timespec="milliseconds")
        for after in (40, 80)
    )
    report = clusters.report(topic, "--from", since, "--to", until)

    assert faults(report) == {("missing", 0, 50, 0, -1, ())}
    assert report["partitions"][0]["counts"]["source_records"] == 40
    assert any("Only records with timestamps" in told for told in report["statements"])


def test_a_sample_says_what_it_did_not_compare(clusters: Clusters, unique: Unique) -> None:
    topic = unique("sample")
    part = records(1_000)
    clusters.write(clusters.source, topic, [part])
    clusters.write(clusters.target, topic, [part])

    report = clusters.report(topic, "--sample", "5", "--block", "20")

    counts = report["partitions"][0]["counts"]
    assert counts["matched"] + counts["counted"] == 1_000
    assert counts["counted"] >= 700
    assert "in what was compared" in report["headline"]
    assert any("were only counted" in told for told in report["statements"])
    produce(clusters.target.bootstrap, topic, [part[3]])
    assert faults(clusters.report(topic, "--sample", "5")) == {("doubled", 0, 3, 0, 1_000, ())}


def test_compacted_topics_are_compared_by_the_latest_records_of_their_keys(
    clusters: Clusters, unique: Unique
) -> None:
    topic = unique("compacted")
    for cluster in (clusters.source, clusters.target):
        create_topic(cluster.bootstrap, topic, cleanup_policy="compact")
    history = [
        Record(key=b"%d" % (n % 20), value=b"%d" % n, timestamp=FIRST_MS + n) for n in range(100)
    ]
    produce(clusters.source.bootstrap, topic, history)
    latest = history[80:]
    produce(clusters.target.bootstrap, topic, latest)
    assert clusters.report(topic)["status"] == 0

    tombstone = Record(key=b"3", timestamp=FIRST_MS + 1_000)
    newer = Record(key=b"4", value=b"newer", timestamp=FIRST_MS + 1_001)
    produce(clusters.source.bootstrap, topic, [tombstone, newer])
    strange = Record(key=b"strange", value=b"1", timestamp=FIRST_MS + 1_002)
    changed = replace(history[85], value=b"changed")
    produce(clusters.target.bootstrap, topic, [strange, changed])
    report = clusters.report(topic)

    assert faults(report) == {
        ("missing", 0, 100, 0, -1, ()),
        ("missing", 0, 101, 0, -1, ()),
        ("foreign", 0, -1, 0, 20, ()),
        ("altered", 0, 85, 0, 21, ("value",)),
    }
    assert any("latest record of each key" in told for told in report["statements"])


def test_a_flows_own_policy_pairs_its_topics(pair: Pair) -> None:
    topic, lone = pair.unique("orders"), pair.unique("lone")
    file = write_flow(pair.folder, pair.primary, pair.backup, [topic, lone])
    for cluster, name in (
        (pair.primary, topic),
        (pair.backup, f"{pair.folder.name}.{topic}"),
        (pair.primary, lone),
    ):
        create_topic(cluster.bootstrap, name)
        produce(cluster.bootstrap, name, records(20))

    called = ferry("audit", "--config", file)

    assert called.returncode == 7
    assert "the other 1 partitions are the same" in called.stdout
    assert f"backup has no topic {pair.folder.name}.{lone}" in called.stdout
    assert ferry("audit", "--config", file, "--topics", topic).returncode == 0
    remote = f"{pair.folder.name}.{topic}"
    reversed_map = ferry("audit", "--config", file, "--map", f"{remote}={topic}")
    assert f"the source's topic first: --map {topic}={remote}" in reversed_map.stdout


def test_recent_records_at_the_end_are_allowed_to_lag(clusters: Clusters, unique: Unique) -> None:
    topic = unique("lag")
    part = records(50)
    live = [Record(value=b"live %d" % n, partition=0) for n in range(5)]
    clusters.write(clusters.source, topic, [part + live])
    clusters.write(clusters.target, topic, [part])

    assert clusters.report(topic)["found"] == {"missing": 5}
    report = clusters.report(topic, "--lag", "10m")
    assert report["status"] == 0
    assert report["partitions"][0]["counts"]["pending"] == 5

    ahead = Record(value=b"ahead", timestamp=now_ms() + 1_800_000, partition=0)
    produce(clusters.source.bootstrap, topic, [ahead])
    assert clusters.report(topic, "--lag", "10m")["found"] == {"missing": 1}


def test_topics_that_the_flow_leaves_out_because_they_came_from_its_target_are_not_missed(
    pair: Pair,
) -> None:
    topic, own = pair.topic("there", named("first", 20)), pair.unique("own")
    there = pair.flow([topic])
    assert not failures(copy_now(there))
    create_topic(pair.backup.bootstrap, own)
    produce(pair.backup.bootstrap, own, named("own", 20))
    # Only the cluster's id tells: by their names they are of some other cluster.
    folder = pair.folder / pair.unique("back")
    topics = [own, f".*{topic}"]
    file = write_flow(folder, pair.backup, pair.primary, topics, into=pair.unique("elsewhere"))
    back = load_flow(file)
    assert not failures(copy_now(back))

    called = ferry("audit", "--config", file)

    assert called.returncode == 0, called.stdout
    assert f"{remote(there, topic)}: records of" in called.stdout + called.stderr
