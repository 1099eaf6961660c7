"""Where single records of a real run are."""

from __future__ import annotations

import json

import pytest

from kafka_ferry.control import ClusterControl
from kafka_ferry.ledger.proofs import Proof
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.where import next_offset, where
from tests.support.records.builders import Record, delete_before, recreate_topic
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, failures, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import recount_here, verified


def test_a_record_is_found_with_its_run_its_transaction_its_proof_and_its_certificate(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic = pair.topic("sought")
    source = TopicPartition(topic, 0)
    flow = pair.flow([topic], certificates_enabled=True)
    there = TopicPartition(remote(flow, topic), 0)
    pair.produce(topic, [Record(value=b"%d" % i) for i in range(5)])
    never = [Record(value=b"never")]
    pair.produce(topic, never, transactional_id=topic, abort=True)
    pair.produce(topic, [Record(value=b"after")])
    assert not failures(copy_now(flow, "run-1"))

    (unproved,) = where(flow, source, 4)
    assert (unproved.target, unproved.target_offset, unproved.state) == (there, 4, "there")
    assert (unproved.run, unproved.proof, unproved.certificate) == ("run-1", None, 0)

    verified(flow, "run-1")
    (after,) = where(flow, source, 7)
    assert (after.target_offset, after.reason) == (5, "")
    assert isinstance(after.proof, Proof)
    assert (after.proof.run, after.certificate) == ("run-1", 1)
    (aborted,) = where(flow, source, 5)
    assert (aborted.target_offset, aborted.state) == (None, "")
    (marker,) = where(flow, source, 6)
    # The ledger has both reasons of the range, and the source says which it is.
    assert (aborted.reason, marker.reason) == ("aborted", "control")
    assert where(flow, source, 8) == []
    assert next_offset(flow, source) == 8

    delete_before(pair.backup, there.topic, 3)
    assert [where(flow, source, at)[0].state for at in (2, 3)] == ["expired", "there"]

    asked = ("where", "--config", flow.file, "--topic", topic, "--partition", "0", "--offset")
    shown = ferry(*asked, "4")
    assert shown.returncode == 0, shown.stderr
    assert f"{there} offset 4, there" in shown.stdout
    assert "certificate:   1" in shown.stdout
    assert "accounted for: " in ferry(*asked, "5").stdout
    assert ", unless it had expired by then" in ferry(*asked, "2").stdout
    (told,) = json.loads(ferry(*asked, "4", "--json").stdout)
    assert told["target_offset"] == 4
    none = ferry(*asked, "8")
    assert none.returncode == 2
    assert "has it up to offset 8" in none.stderr
    elsewhere = ferry(*asked[:6], "7", "--offset", "4")
    assert elsewhere.returncode == 2
    assert "has nothing of it, but partitions 0 to 0" in elsewhere.stderr
    misspelt = ferry(*asked[:4], f"{topic}s", *asked[5:], "4")
    assert misspelt.returncode == 9
    assert f"has copied no topic {topic}s. Did you mean '{topic}'?" in misspelt.stderr
    far = ferry(*asked, "99999999999999999999")
    assert far.returncode == 9
    assert "must be at most 9223372036854775807, and not '99999999999999999999'" in far.stderr

    control = ClusterControl(flow.target)
    assert not control.delete_topics(control.topic_ids([there.topic]))
    assert where(flow, source, 4)[0].state == "topic deleted"
    assert "proved:        2" in (last := ferry(*asked, "4").stdout)
    assert "former topic" not in last
    recreate_topic(pair.primary, topic)
    assert where(flow, source, 4)[0].is_former
    assert "source:        a former topic of this name" in ferry(*asked, "4").stdout


def test_what_the_source_deleted_before_it_was_copied_is_said_before_and_after_a_run_has_seen_it(
    pair: Pair,
) -> None:
    topic = pair.topic("gone", [Record(value=b"x")] * 3)
    flow = pair.flow([topic], on_source_truncation="continue")
    assert not failures(copy_now(flow, "run-1"))
    pair.produce(topic, [Record(value=b"y")] * 3)
    delete_before(pair.primary, topic, 5)
    asked = ("where", "--config", flow.file, "--topic", topic, "--partition", "0", "--offset", "4")

    before = ferry(*asked)
    assert before.returncode == 2
    said = " ".join(before.stderr.split())
    assert f"{flow.source.alias} has deleted it: its log starts at 5" in said
    lagging = " ".join(ferry("lag", "--config", flow.file).stderr.split())
    assert "2 of these offsets were deleted" in lagging
    assert f"{topic}-0 [3, 5). The next run goes on after them" in lagging
    assert not failures(copy_now(flow, "run-2"))
    after = ferry(*asked).stdout
    assert "lost, the source had deleted it before it was copied" in after
    assert "copied:" not in after
