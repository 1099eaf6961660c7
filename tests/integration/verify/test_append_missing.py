"""What the target has lost is fetched from the source again and appended, once, if a person says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.groups.outlook import GroupOutlook
from kafka_ferry.groups.routes import routes
from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.retry import retry_for
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.repair import append_missing
from kafka_ferry.runs.repair.append_missing import AppendMissing
from kafka_ferry.runs.repair.held_records import HeldRecords, read_held
from kafka_ferry.runs.where import where
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import base_offset, rewrite
from tests.support.records.builders import (
    Record,
    begin_transaction,
    create_topic,
    delete_before,
    produce,
    recreate_topic,
    set_config,
)
from tests.support.records.groups import commit_alone
from tests.support.records.histories import named, told, values
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_more, copy_now, failures, ledger_of, make_flow, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK

pytestmark = pytest.mark.usefixtures("without_spark")


def lose(target: Broker, *remote_topics: str, part: str = "run-2") -> None:
    """Take a run's batch out of the middle of each log, as a fault of the disk does."""
    rewrite(target, remote_topics, lambda batch: b"" if part.encode() in batch else batch)


def a_batch(at: int, count: int) -> bytes:
    """A batch of so many records of another producer, as it lies in a log."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 100_000)
    for number in range(count):
        builder.append(number, now_ms(), b"k", b"strange", [])
    batch = bytes(builder.build())
    # The CRC does not cover the base offset.
    return at.to_bytes(8, "big") + batch[8:]


def audited(flow: Flow, folder: Path) -> str:
    """What can be done about the findings of an audit of the flow."""
    out = folder / "out"
    assert ferry("audit", "--config", flow.file, "--output", str(out)).returncode == 2
    shown = ferry("repair", "--audit", str(out / "report.json"), "--config", flow.file)
    assert shown.returncode == 2, shown
    return shown.stdout


def the_group(flow: Flow, name: str) -> GroupOutlook:
    """Where a group would continue on the target."""
    (group,) = failover(flow, [name], dry_run=True).groups
    return group


def judged(flow: Flow, run: str) -> None:
    """A run that has nothing to copy and reads everything back."""
    assert not failures(copy_now(flow, run))
    Run(flow, run).verify(NO_SPARK, everything=True)


@pytest.mark.long
def test_what_an_open_transaction_hides_is_not_missing(
    folder: Path, primary: KafkaCluster, target: Broker, unique: Unique
) -> None:
    topic = unique("hidden")
    create_topic(primary.bootstrap, topic)
    flow = make_flow(folder, primary, target, [topic])
    copy_more(primary, flow, "run-1", topic)
    record = Record(value=b"open")
    producer = begin_transaction(target.bootstrap, unique("another"), remote(flow, topic), record)
    copy_more(primary, flow, "run-2", topic)

    with (
        retry_for(5),
        pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"),
    ):
        judged(flow, "run-3")
    with pytest.raises(FerryError, match=r"An open transaction hides what .* from offset 21 on"):
        AppendMissing(flow).proposal(TopicPartition(topic, 0), 20)

    # Clients of the target may begin one at any time: it is waited for.
    ending = Timer(5, producer.abort_transaction)
    ending.start()
    judged(flow, "run-4")
    ending.join()


def test_a_cleaner_explains_what_was_copied_while_the_topic_was_compacted_and_nothing_later(
    folder: Path, primary: KafkaCluster, target: Broker, unique: Unique
) -> None:
    topic = unique("compacted")
    create_topic(primary.bootstrap, topic, cleanup_policy="compact")
    flow = make_flow(folder, primary, target, [topic])
    copy_more(primary, flow, "run-1", topic)
    set_config(primary, topic, "cleanup.policy", "delete")
    for run in ("run-2", "run-3", "run-4"):
        copy_more(primary, flow, run, topic)
    rewrite(
        target,
        [remote(flow, topic)],
        lambda batch: b"" if b"run-1" in batch or b"run-3" in batch else batch,
    )

    with pytest.raises(VerificationFailed) as found:
        judged(flow, "run-5")

    assert f"{topic}-0 [40, 60): 20 records copied, 0 on the target" in str(found.value)
    assert f"{topic}-0 [0, 20)" not in str(found.value)


def test_what_was_lost_is_appended_once_and_proved_and_each_map_knows_it(
    folder: Path,
    primary: KafkaCluster,
    target: Broker,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, kept, compacted = unique("lost"), unique("preserved"), unique("compacted")
    flow = make_flow(folder, primary, target, [topic, kept, compacted], offsets={kept: "preserved"})
    create_topic(primary.bootstrap, topic)
    create_topic(primary.bootstrap, kept)
    create_topic(primary.bootstrap, compacted, cleanup_policy="compact")
    for run in ("run-1", "run-2", "run-3"):
        copy_more(primary, flow, run, topic, kept, compacted)
    name = remote(flow, topic)
    there = TopicPartition(name, 0)
    with GroupControl(flow.target) as groups:
        for group, offset in (("readers", 50), ("laggards", 3)):
            groups.commit({Group(group): {there: Committed(offset)}})
    judged(flow, "run-3")
    next_reader = unique("next")
    commit_alone(primary, next_reader, {TopicPartition(topic, 0): 25})
    assert the_group(flow, next_reader).state == "ready"
    lose(target, name, remote(flow, kept))
    # No verification has found it yet.
    stuck = the_group(flow, next_reader)
    assert (stuck.state, stuck.not_copied) == ("stuck", 15)
    assert f"15 records of {topic}-0 that it has not read are gone from {name}-0" in stuck.reason
    with pytest.raises(VerificationFailed, match=r"20 records copied, 0 on the target"):
        judged(flow, "run-4")

    # What is proposed, in order; nothing is changed without approval.
    repair = ("repair", "--config", flow.file)
    shown = ferry(*repair, "--append", f"{topic}-0:25")
    assert shown.returncode == 2, shown
    sentences = shown.stdout
    assert f"20 missing records of {topic}-0:20 are fetched from {flow.source.alias}" in sentences
    assert "from offset 63 to 82" in sentences
    assert "their places were 21 to 40, and 22 offsets follow there" in sentences
    assert "get them late: readers (50)." in sentences
    assert "newer records: laggards (3)." in sentences
    findings = ferry(*repair, "--findings").stdout
    assert f"--append {topic}-0:20 --reason" in findings
    assert "It cannot be appended:" in findings
    assert "keeps the source's offsets" in findings
    for refused, why in ((kept, "keeps the source's offsets"), (compacted, "is compacted")):
        told_ = json.loads(ferry(*repair, "--append", f"{refused}-0:25", "--json").stdout)
        assert why in told_[0]["refusal"]
    assert values(target, name) == told("run-1", 20) + told("run-3", 20)
    assert ferry(*repair, "--append", f"{topic}-0:20", "--yes").returncode == 9, "without a reason"

    # Another repair was proposed at the same time; and this one is killed before its last step.
    late = AppendMissing(flow)
    proposed_late = late.proposal(TopicPartition(topic, 0), 20)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(append_missing, "accept_ranges", killed)
        this = AppendMissing(flow)
        with pytest.raises(KeyboardInterrupt):
            this.append(this.proposal(TopicPartition(topic, 0), 20), "the disk")
    done = told("run-1", 20) + told("run-3", 20) + told("run-2", 20)
    assert values(target, name) == done
    both = ("--append", f"{kept}-0:20", "--append", f"{topic}-0:20")
    finished = ferry(*repair, *both, "--reason", "the disk", "--yes")
    assert (finished.returncode, "An earlier repair has appended" in finished.stdout) == (1, True)
    assert f"{kept}-0:20: {remote(flow, kept)} keeps the source's offsets" in finished.stderr
    assert len(accepted_ranges(ledger_of(flow))) == 1, "the refused one stops no other"
    assert late.append(proposed_late, "the disk, too").records == 0
    assert values(target, name) == done
    again = ferry(*repair, "--append", f"{topic}-0:20", "--reason", "again", "--yes")
    assert (again.returncode, "nothing is left to do" in again.stdout) == (0, True), again

    # The proof holds, a run goes on, and nothing is copied again.
    kept_left = ("--leave", f"{kept}-0:20", "--reason", "the disk", "--yes")
    assert ferry(*repair, *kept_left).returncode in {0, 2}
    produce(primary.bootstrap, topic, named("run-5", 20))
    judged(flow, "run-5")
    assert values(target, name) == done + told("run-5", 20)
    (row,) = [
        row
        for row in ledger_of(flow).ranges(since=0, of_run="")
        if row.window and row.copied.records
    ]
    assert (row.copied.start, row.copied.end, row.copied.records) == (20, 40, 20)
    assert row.copied.segments == ((20, 63, 20),)

    # Every map knows the new places: no group skips what it has not read, in either direction.
    (route,) = routes(
        ledger_of(flow),
        {topic: row.copied.topic_id},
        {name: row.copied.remote_topic_id},
        topics=[topic],
    ).values()
    forward, back = route.map.translate(30), route.map.reverse(50)
    assert forward and forward.offset <= 42
    assert back and back.offset == 20, "what readers at 50 have not read begins at 20"
    places = where(flow, TopicPartition(topic, 0), 25)
    assert [place.target_offset for place in places] == [26, 68, None]
    assert [place.state for place in places] == ["lost", "there", ""]
    assert places[2].reason == "copied-before", "the repair that came late"

    assert the_group(flow, next_reader).state == "ready"

    # What was appended is lost too.
    lose(target, name)
    this = AppendMissing(flow)
    refusal = this.proposal_at((row.ledger_offset, topic, 0, 20)).refusal
    assert "a backfill has copied it, or an earlier repair" in refusal
    assert this.append(this.proposal(TopicPartition(topic, 0), 20), "the disk again").records == 20
    assert values(target, name)[-20:] == told("run-2", 20)
    judged(flow, "run-6")


@pytest.mark.long
def test_what_the_source_no_longer_has_stays_missing_and_what_was_changed_is_refused(
    folder: Path, primary: KafkaCluster, target: Broker, unique: Unique
) -> None:
    topic, other = unique("half"), unique("other")
    flow = make_flow(folder, primary, target, [topic, other])
    for one in (topic, other):
        create_topic(primary.bootstrap, one)
    for run in ("run-1", "run-2", "run-3"):
        copy_more(primary, flow, run, topic, other)
    name = remote(flow, topic)
    lose(target, name)

    # By an audit, whose findings the ledger explains; without the flow, it is a copy by anyone.
    told_ = audited(flow, folder)
    assert f"MISSING 20 records of {topic}-0 offsets 20 to 39 missing" in told_
    command = f"$ ferry repair --config {flow.file} --append {topic}-0:20"
    assert f"20 missing records of {topic}-0:20 are fetched from" in told_
    assert command in told_ and f'{command} --reason "..." --yes' in told_
    # As it is to a flow that has copied nothing.
    never = folder / "never.yaml"
    never.write_text(Path(flow.file).read_text().replace(f'"{flow.source.alias}"', '"never"'))
    for by in ((), ("--config", str(never))):
        by_anyone = ferry("repair", "--audit", str(folder / "out" / "report.json"), *by)
        assert by_anyone.returncode == 2, by_anyone
        assert f"copies all that the source still has to rebuilt.{topic}" in by_anyone.stdout
        assert "--append" not in by_anyone.stdout

    delete_before(primary, topic, 25)
    appending = AppendMissing(flow)
    proposal = appending.proposal(TopicPartition(topic, 0), 39)
    assert (proposal.records, proposal.unavailable) == (15, 5)
    assert any("5 records stay missing" in said for said in proposal.consequences)
    done = appending.append(proposal, "the disk")
    assert (done.records, done.start, done.end) == (15, 63, 78)
    assert values(target, name)[40:] == told("run-2", 20, since=5)
    judged(flow, "run-4")
    shown = ferry("audit", "--config", flow.file)
    assert "15 records are out of order only because a backfill or a repair" in shown.stdout
    # What the source no longer has either is not missing.
    assert shown.returncode == 0
    delete_before(target, name, 5)
    of_expired = AppendMissing(flow).proposal(TopicPartition(topic, 0), 0)
    assert "starts after 5 records of it, which count as deleted" in of_expired.refusal

    restored = unique("restored")
    create_topic(target.bootstrap, restored)
    back = make_flow(folder.with_name(unique("src")), target, primary, [restored])
    for run in ("run-1", "run-2", "run-3"):
        copy_more(target, back, run, restored)

    # In the place of what was lost lie other records; so they do on a source that was restored and has grown again.
    def strange(batch: bytes) -> bytes:
        at = base_offset(batch)
        return a_batch(at, 40 - at) if b"run-2" in batch else batch

    rewrite(target, [remote(flow, other), restored], strange)
    refused = AppendMissing(back).proposal(TopicPartition(restored, 0), 20)
    assert "restored from a backup" in refused.refusal
    refused = AppendMissing(flow).proposal(TopicPartition(other, 0), 20)
    assert (
        "the target's record at offset 21 is another one than the source's at 20" in refused.refusal
    )

    recreate_topic(primary, other)
    refused = AppendMissing(flow).proposal(TopicPartition(other, 0), 20)
    assert "created again since" in refused.refusal


def test_records_that_the_target_gives_after_all_are_not_appended(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer of a broker that left out what it had would be enough for all of them to be there twice."""
    topic = pair.topic("unsteady")
    flow = pair.flow([topic])
    copy_more(pair.primary, flow, "run-1", topic)
    this = AppendMissing(flow)

    def read_nothing(*given: Any) -> HeldRecords:
        return replace(read_held(*given), there={})

    with monkeypatch.context() as lying:
        lying.setattr(append_missing, "read_held", read_nothing)
        proposal = this.proposal(TopicPartition(topic, 0), 5)
    assert (proposal.refusal, proposal.records) == ("", 20)
    with pytest.raises(FerryError, match=r"lacked 20 records of it .*, and lacks 0 now"):
        this.append(proposal, "the disk")
    assert values(pair.backup, remote(flow, topic)) == told("run-1", 20)

    # It goes on until they are written.
    looks = iter([[(0, 20)], []])
    monkeypatch.setattr(append_missing, "read_lacking", lambda *_: next(looks))
    with pytest.raises(FerryError, match="consumers get them twice, since 20 records"):
        this.append(proposal, "the disk")
    assert not accepted_ranges(ledger_of(flow)), "it is not said to be left as it is"
