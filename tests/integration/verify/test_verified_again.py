"""What was proved long ago is read back again: a target's disk may lose it later."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger.proofs import accepted_ranges, verifications
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.runs import Run
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.takeover.takeover import Takeover
from kafka_ferry.runs.verify import again
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import cut_log, damage, rewrite, write_log
from tests.support.records.builders import Record, create_topic, delete_before, produce
from tests.support.records.mirror_topics import positions_of_mirrormaker_2
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_more, ledger_of, make_flow, remote
from tests.support.runs.pair import Unique
from tests.support.runs.proof import NO_SPARK, report_of, verified

pytestmark = pytest.mark.usefixtures("without_spark")

DAY_MS = 24 * 3_600_000


def days_later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Have runs believe that so much time has passed since the last proofs."""
    monkeypatch.setattr(again, "now_ms", lambda: now_ms() + int(days * DAY_MS))


def read_again(flow: Flow) -> list[list[str]]:
    """By verification, the runs whose ranges it has read again."""
    ledger = ledger_of(flow)
    return [
        [entry.run for start, end in one.again for entry in ledger.ranges_within(start, end)]
        for one in verifications(ledger)
    ]


def test_a_record_that_is_lost_after_its_proof_is_found_when_its_turn_comes(
    folder: Path,
    primary: KafkaCluster,
    target: Broker,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translated, preserved = unique("translated"), unique("preserved")
    flow = make_flow(
        folder,
        primary,
        target,
        [translated, preserved],
        offsets={preserved: "preserved"},
        verify_everything_within="30 days",
    )
    for topic in (translated, preserved):
        create_topic(primary.bootstrap, topic)
    for run in ("run-1", "run-2", "run-3"):
        copy_more(primary, flow, run, translated, preserved)
        report = verified(flow, run)
    assert read_again(flow) == [[], [], []], "nothing is old"
    assert report.proof.oldest_proof

    # A week before the end, the older half of it; the clock of the ledger's entries is the real one.
    days_later(monkeypatch, 9)
    copy_more(primary, flow, "run-4", translated)
    assert verified(flow, "run-4").proof.verdict.success
    *_, last = read_again(flow)
    assert set(last) == {"run-1", "run-2"}

    # A batch is gone from the middle of each log, as after a fault of the disk.
    copies = [remote(flow, topic) for topic in (translated, preserved)]
    rewrite(target, copies, lambda batch: b"" if b"run-2" in batch else batch)
    copy_more(primary, flow, "run-5", translated)
    days_later(monkeypatch, 0)
    verified(flow, "run-5")

    days_later(monkeypatch, 31)
    copy_more(primary, flow, "run:6", translated)
    with pytest.raises(VerificationFailed) as raised:
        Run(flow, "run:6").verify(NO_SPARK)
    for topic, end in ((translated, 40), (preserved, 40)):
        assert f"{topic}-0 [20, {end}): 20 records copied, 0 on the target" in str(raised.value)
    assert str(raised.value).count("records copied") == 2, "nothing else is named"
    failed = report_of(flow, "run:6")
    assert failed.state == "incomplete"
    assert sum(row.again for row in failed.proof.ranges) > 4
    # What the run itself has copied is proved all the same.
    ledger = ledger_of(flow)
    newest = max(entry.ledger_offset for entry in ledger.ranges(since=0, of_run=""))
    assert ledger.verified_through() > newest
    assert read_again(flow)[-1] == []

    # Nothing forgets it, whether or not the flow reads what is old again, ...
    days_later(monkeypatch, 0)
    once = flow.model_copy(update={"verify_everything_within": None})
    with pytest.raises(VerificationFailed, match="20 records copied, 0 on the target"):
        Run(once, "run:6").verify(NO_SPARK)
    # ... or whether the state folder is still there, ...
    shutil.rmtree(flow.state_path)
    copy_more(primary, flow, "run-6a", translated)
    with pytest.raises(VerificationFailed, match="20 records copied, 0 on the target"):
        Run(once, "run-6a").verify(NO_SPARK)
    days_later(monkeypatch, 31)

    # ... until a person decides to live with it, ...
    repair = ("repair", "--config", flow.file)
    shown = ferry(*repair, "--findings")
    assert shown.returncode == 2
    for topic in (translated, preserved):
        assert f"DAMAGED {topic}-0 [20, 40): 20 records copied, 0 on the target" in shown.stdout
        assert f"--leave {topic}-0:20" in shown.stdout
        assert f"--topic {remote(flow, topic)} --yes gives it up" in shown.stdout
    chosen = ("--leave", f"{translated}-0:20", "--leave", f"{preserved}-0:20")
    assert ferry(*repair, *chosen, "--yes").returncode == 9, "without a reason"
    why = ("--reason", "the disk of broker 1")
    assert ferry(*repair, *chosen, *why).returncode == 2, "not yet decided"
    assert not accepted_ranges(ledger_of(flow))
    assert ferry(*repair, "--leave", "unheard-of-0:1", *why, "--yes").returncode == 9
    left = ferry(*repair, *chosen, *why, "--yes")
    assert (left.returncode, left.stdout.count("left as it is: the ledger has it.")) == (0, 2)
    assert {it.reason for it in accepted_ranges(ledger_of(flow)).values()} == {why[1]}
    # ... and from then on it fails no run, unless more is lost.
    copy_more(primary, flow, "run-6b", translated)
    accepted = [row for row in verified(flow, "run-6b").proof.ranges if row.start == 20]
    assert [row.recount.accepted_missing for row in accepted] == [20, 20]
    assert ferry(*repair, "--findings").returncode == 0
    # Who has not read what is missing is told so where it would go on.
    groups = {unique("behind"): 25, unique("ahead"): 40}
    with GroupControl(flow.source) as control:
        for name, offset in groups.items():
            at = {TopicPartition(translated, 0): Committed(offset)}
            assert control.commit({Group(name): at}) == {}
    (note,) = failover(flow, [*groups], dry_run=True).notes
    behind = next(iter(groups))
    assert f"lacks 15 records of {translated}-0 [20, 40) that {behind} would read next" in note

    # Of what has expired since, nothing is missing any more.
    delete_before(target, remote(flow, preserved), 31)
    Run(flow, "run-6b").verify(NO_SPARK, everything=True)
    rows = report_of(flow, "run-6b").proof.ranges
    assert sorted(row.recount.accepted_missing for row in rows if row.start == 20) == [9, 20]

    # What is below the start of the log is not missing.
    for topic in (translated, preserved):
        delete_before(target, remote(flow, topic), 60)
    copy_more(primary, flow, "run-7", translated)
    assert verified(flow, "run-7").proof.verdict.warnings == ()


@pytest.mark.long
def test_a_batch_that_is_damaged_after_its_proof_is_named_and_new_records_are_proved(
    folder: Path,
    primary: KafkaCluster,
    target: Broker,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = unique("damaged")
    create_topic(primary.bootstrap, topic)
    flow = make_flow(folder, primary, target, [topic], verify_everything_within="30 days")
    copy_more(primary, flow, "run-1", topic)
    verified(flow, "run-1")
    target.stop()
    damage(target, remote(flow, topic), number=0, at=-1)
    target.start().wait_ready()
    days_later(monkeypatch, 31)
    copy_more(primary, flow, "run-2", topic)
    with pytest.raises(FerryError, match="a batch at offset 0 with a wrong CRC"):
        Run(flow, "run-2").verify(NO_SPARK)
    assert ledger_of(flow).verified_through() > 1


@pytest.mark.long
def test_what_was_taken_over_is_read_back_like_what_the_flow_has_copied(
    folder: Path, primary: KafkaCluster, target: Broker, unique: Unique
) -> None:
    cut, replaced, first = unique("cut"), unique("replaced"), now_ms()
    flow = make_flow(folder, primary, target, [cut, replaced])
    copied = [Record(value=b"%d" % i, timestamp=first + i) for i in range(300)]
    for topic in (cut, replaced):
        for broker, name in ((primary, topic), (target, remote(flow, topic))):
            create_topic(broker.bootstrap, name)
            for start in range(0, 300, 75):
                produce(broker.bootstrap, name, copied[start : start + 75])
    # MirrorMaker 2 was killed while it wrote the first half of them once more.
    produce(target.bootstrap, remote(flow, cut), copied[:150])
    positions_of_mirrormaker_2(target, flow, {cut: 300, replaced: 300})

    taken, _ = Takeover(flow, settle_s=0).from_mirrormaker2()
    again_ = Takeover(flow, settle_s=0).from_mirrormaker2()

    assert (taken.state, taken.partitions[0].doubled) == ("taken over", 150)
    assert [(topic.state, topic.partitions) for topic in again_] == [("up to date", ())] * 2
    copy_more(primary, flow, "run-1", cut, replaced)
    Run(flow, "run-1").verify(NO_SPARK, everything=True)
    ranges = report_of(flow, "run-1").proof.ranges
    assert sorted(row.recount.target_records for row in ranges) == [20, 20, 300, 300]
    assert all(row.recount.digest_comparable for row in ranges)

    target.stop()
    cut_log(target, remote(flow, cut), 75)
    write_log(target, remote(flow, replaced), [])
    target.start().wait_ready()
    # As many records as there were, of another client.
    for _ in range(4):
        produce(target.bootstrap, remote(flow, replaced), [Record(value=b"other")] * 75)
    refused, _ = Takeover(flow, settle_s=0).from_mirrormaker2()
    with pytest.raises(VerificationFailed) as raised:
        Run(flow, "run-1").verify(NO_SPARK, everything=True)

    said = str(raised.value)
    assert refused.state == "refused"
    assert f"{remote(flow, cut)}-0 on backup ends at 75, and the ledger has" in refused.reason
    assert f"{cut}-0 [0, 300): 300 records copied, 75 on the target" in said
    assert f"{cut}-0 [300, 320): 20 records copied, 0 on the target" in said
    assert f"{replaced}-0 [0, 300): digest" in said
