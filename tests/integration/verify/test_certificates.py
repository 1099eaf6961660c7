"""Certificates of real runs: they chain, are signed, and a changed byte, a hole or another key is found."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kafka_ferry.certificates import CertificateError, certificate_topic, stored_certificates
from kafka_ferry.certificates.signature import public_keys
from kafka_ferry.cli.certificate_view import until_ms
from kafka_ferry.clock import moment_text, now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.topic_records import append_records
from kafka_ferry.control.wire_records import NewRecord
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.model import RunOptions, TopicPartition, Window
from kafka_ferry.runs import Repair, Run
from kafka_ferry.runs.certificate_export import export_certificates
from kafka_ferry.runs.certificates import ReadBack, faults_of, find_certificates, read_back
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.runs.publish import certify as certify_module
from kafka_ferry.runs.state.certificate_files import save_file
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.where import where
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests import PROJECT
from tests.support.brokers.own_brokers import own_pair
from tests.support.brokers.segments import cut_log
from tests.support.records.builders import (
    Record,
    begin_transaction,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    recreate_topic,
)
from tests.support.runs.command_line import Called, ferry
from tests.support.runs.flows import copy_now, copy_planned, failures, make_flow, plan_now, remote
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import NO_SPARK, prove, report_of, verified

pytestmark = pytest.mark.usefixtures("without_spark")
# Without what Spark has set for its own workers.
PYTHON = [sys.executable, "-E"]


@pytest.fixture
def key(folder: Path) -> Ed25519PrivateKey:
    """The key that signs, in a file that the flow refers to."""
    (folder / "secrets").mkdir()
    return new_key(folder)


def new_key(folder: Path) -> Ed25519PrivateKey:
    """Gives the flow another key, or its first, and puts the public one behind those from before."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "secrets" / "signing.pem").write_bytes(pem)
    with (folder / "public.pem").open("ab") as public:
        public.write(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return key


@pytest.fixture
def flow(pair: Pair, key: Ed25519PrivateKey) -> Flow:
    topic = pair.topic("certified", partitions=2)
    return pair.flow(
        [topic],
        certificates_enabled=True,
        certificates_key=f"${{dir:{pair.folder / 'secrets'}:signing.pem}}",
        **{"config_providers": "dir"},
    )


def certified(flow: Flow, primary: KafkaCluster, run: str, records: int = 10) -> int:
    """The serial of the certificate of a run that copies and proves some records; 0 for none."""
    (topic,) = flow.topics
    produce(primary.bootstrap, topic, [Record(value=b"%d" % i) for i in range(records)])
    return prove(flow, run).proof.certificate


def faults(flow: Flow, folder: Path) -> list[str]:
    pem = folder / "public.pem"
    return list(faults_of(flow, find_certificates(flow), public_keys(pem.read_bytes(), str(pem))))


def test_runs_leave_a_chain_of_signed_certificates_that_the_ledger_confirms(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    assert [certified(flow, primary, f"run-{n}", 10 * n) for n in (1, 2, 3)] == [1, 2, 3]
    # Published again, and a run that has nothing new to prove.
    assert verified(flow, "run-3").proof.certificate == 3
    assert certified(flow, primary, "run-4", 0) == 0

    found = find_certificates(flow)

    assert [one.content() for one in found.on_target] == [one.content() for one in found.in_state]
    assert [one.header.records for one in found.all] == [10, 20, 30]
    assert [one.header.run for one in found.all] == ["run-1", "run-2", "run-3"]
    assert [one.header.previous for one in found.all] == ["", *(it.digest for it in found.all[:2])]
    assert found.all[0].header.source.cluster_id == ClusterControl(flow.source).cluster_id()
    assert not faults(flow, folder)


def test_a_run_that_is_published_again_signs_no_proof_that_is_old_by_now(
    flow: Flow, primary: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may clear a task may clear it in any run."""
    assert [certified(flow, primary, f"run-{n}") for n in (1, 2)] == [1, 2]

    assert report_of(flow, "run-1").proof.certificate == 1

    assert [one.header.run for one in find_certificates(flow).on_target] == ["run-1", "run-2"]
    state = flow_state(flow).folder("certificates")
    state.delete(["00000001.jsonl"])
    monkeypatch.setattr(certify_module, "now_ms", lambda: now_ms() + 2 * 86_400_000)
    with pytest.raises(CertificateError, match="proof is more than a day old") as raised:
        report_of(flow, "run-1")
    assert "Clear verify and publish" in raised.value.advice
    assert [one.header.run for one in find_certificates(flow).on_target] == ["run-1", "run-2"]


def test_what_the_target_has_lost_since_it_was_verified_is_not_signed(
    pair: Pair, flow: Flow
) -> None:
    """Hours may lie between the two steps."""
    (topic,) = flow.topics
    pair.produce(topic, [Record(value=b"1", partition=0)])
    assert failures(copy_now(flow)) == []
    Run(flow, "run-1").verify(NO_SPARK)
    delete_topic(pair.backup, remote(flow, topic))

    with pytest.raises(CertificateError, match=f"lost records of {remote(flow, topic)}-0 since"):
        report_of(flow, "run-1")
    with pytest.raises(FerryError, match="has no certificate"):
        find_certificates(flow)


def test_a_certificate_names_who_approved_the_plan(flow: Flow, primary: KafkaCluster) -> None:
    (topic,) = flow.topics
    produce(primary.bootstrap, topic, [Record(value=b"1")])
    assert not failures(copy_now(flow, "run-1"))
    first_run = Run(flow, "run-1")
    first_run.approve("Ada", first_run.stored_plan().digest)
    verified(flow, "run-1")
    certified(flow, primary, "run-2")

    first, second = find_certificates(flow).all

    assert (first.header.approved_by, second.header.approved_by) == ("Ada", None)


def test_a_certificate_has_the_isolation_level_that_was_copied_by_and_not_the_files(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    changed = flow.model_copy(update={"isolation_level": "read_uncommitted"})
    (topic,) = flow.topics
    produce(primary.bootstrap, topic, [Record(value=b"1")])
    plan = plan_now(flow, "run-1")
    with pytest.raises(ConfigError, match=r"isolation.level: is read_uncommitted, and was"):
        Copying(RunContext.of(changed, "run-1")).copy(NO_SPARK, plan, None)
    Run(flow, "run-1").sync_topics()
    Copying(RunContext.of(flow, "run-1")).begin(plan)
    assert not failures(copy_planned(flow, plan))
    # A run that was stopped before it was verified is proved by the next one.
    assert certified(changed, primary, "run-2") == 1
    certified(changed, primary, "run-3")

    levels = [it.header.rules["isolation.level"] for it in find_certificates(flow).all]

    assert levels == ["read_committed, read_uncommitted", "read_uncommitted"]
    record = Record(value=b"open", partition=0)
    producer = begin_transaction(primary.bootstrap, topic, topic, record)
    window, pem = Window(now_ms() - 600_000, now_ms() + 60_000), folder / "public.pem"
    key = public_keys(pem.read_bytes(), str(pem))
    export = export_certificates(changed, window, folder / "export", key, pem.read_bytes())
    producer.abort_transaction()
    assert [span.source for span in export.missing] == [TopicPartition(topic, 0)]


def test_the_chain_goes_on_from_the_target_where_the_state_folder_is_lost_and_the_other_way_round(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    certified(flow, primary, "run-1")
    state = flow_state(flow).folder("certificates").local_path
    assert state
    shutil.rmtree(state)
    assert certified(flow, primary, "run-2") == 2
    assert not faults(flow, folder)
    kept = find_certificates(flow).all[1]
    topic = certificate_topic(flow.source.alias)
    control = ClusterControl(flow.target)
    assert not control.delete_topics(control.topic_ids([topic]))

    assert certified(flow, primary, "run-3") == 3

    found = find_certificates(flow)
    assert found.on_target[0].header.previous == kept.digest
    assert faults(flow, folder) == [
        f"certificate 2 of {flow.name} is in the state folder, and not in {topic} on {flow.target.alias}: "
        "`ferry certificate restore` puts it back."
    ]


def test_flows_of_one_source_share_a_topic_and_have_chains_of_their_own(
    pair: Pair, flow: Flow, folder: Path
) -> None:
    other = pair.flow(
        [pair.topic("other")],
        into="second",
        certificates_enabled=True,
        certificates_key=flow.certificates_key,
        certificates_keep_count=1,
        config_providers="dir",
    )
    for serial in (1, 2):
        assert certified(flow, pair.primary, f"run-{serial}") == serial
        assert certified(other, pair.primary, f"run-{serial}") == serial
    # The topic's last record is the other's.
    state = flow_state(flow).folder("certificates")
    state.delete(state.names())

    assert certified(flow, pair.primary, "run-3") == 3

    assert [one.header.serial for one in find_certificates(flow).on_target] == [1, 2, 3]
    assert [one.header.serial for one in find_certificates(other).on_target] == [2]
    assert not faults(flow, folder)
    assert not faults(other, folder)


@pytest.mark.long
def test_certificates_are_put_back_from_either_copy(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    for serial in (1, 2, 3):
        certified(flow, primary, f"run-{serial}")
    before = {one.header.serial: one.content() for one in find_certificates(flow).all}
    topic, control = certificate_topic(flow.source.alias), ClusterControl(flow.target)
    asked = ("--config", flow.file, "--public-key", folder / "public.pem")
    assert not control.delete_topics(control.topic_ids([topic]))
    # The chain goes on in a new topic, without what was before.
    assert certified(flow, primary, "run-4") == 4
    shown = ferry("certificate", "check", *asked)
    assert shown.returncode == 7
    assert "ferry certificate restore" in shown.stderr

    shown = ferry("certificate", "restore", *asked)
    assert (shown.returncode, "certificates 1 to 3" in shown.stdout) == (0, True), shown.stderr
    assert not faults(flow, folder)
    assert ferry("certificate", "check", *asked).returncode == 0
    stored = {one.header.serial: one.content() for one in find_certificates(flow).on_target}
    assert {serial: stored[serial] for serial in before} == before
    assert "nothing is missing" in ferry("certificate", "restore", *asked).stdout
    assert certified(flow, primary, "run-5") == 5
    assert not faults(flow, folder)

    shutil.rmtree(Path(flow.state_path) / flow.slug / "certificates")
    assert ferry("certificate", "restore", *asked).returncode == 0
    assert [one.header.serial for one in find_certificates(flow).in_state] == [1, 2, 3, 4, 5]
    # Where no run has made the topic again, it is created.
    assert not control.delete_topics(control.topic_ids([topic]))
    assert ferry("certificate", "restore", *asked).returncode == 0
    assert not faults(flow, folder)

    public = (folder / "public.pem").read_bytes()
    new_key(folder)
    shutil.rmtree(Path(flow.state_path) / flow.slug / "certificates")
    with pytest.raises(CertificateError, match="that the flow's key has not signed"):
        certified(flow, primary, "run-6")
    # Its public key is there, and has signed nothing yet.
    assert ferry("certificate", "restore", *asked).returncode == 0
    assert certified(flow, primary, "run-7") == 6
    for command in ("check", "restore"):
        assert ferry("certificate", command, *asked).returncode == 0
    (folder / "public.pem").write_bytes(public)
    for command in ("check", "restore"):
        shown = ferry("certificate", command, *asked)
        assert shown.returncode == 7
        assert "all of its public keys, the oldest first" in " ".join(shown.stderr.split())


def test_only_certificates_that_hold_are_put_back(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    for serial in (1, 2):
        certified(flow, primary, f"run-{serial}")
    topic, control = certificate_topic(flow.source.alias), ClusterControl(flow.target)
    assert not control.delete_topics(control.topic_ids([topic]))
    file = Path(flow.state_path) / flow.slug / "certificates" / "00000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"records":10', b'"records":11', 1))

    shown = ferry(
        "certificate", "restore", "--config", flow.file, "--public-key", folder / "public.pem"
    )

    assert shown.returncode == 7
    assert f"certificate 1 of {flow.name}: its signature is not of this key" in shown.stderr
    assert topic in control.unknown([topic])


def test_a_forged_certificate_on_the_target_stops_the_next_one_and_is_found(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    certified(flow, primary, "run-1")
    topic = certificate_topic(flow.source.alias)
    (true,) = stored_certificates(flow.target, flow.source.alias, flow.name)
    forged = json.loads(true.line) | {"records": 11}
    value = json.dumps(forged).encode() + b"\n" + true.seal_lines().split(b"\n")[1] + b"\n"
    append_records(flow.target, topic, [NewRecord(f"{flow.name}/1/0".encode(), value, partition=0)])

    with pytest.raises(CertificateError, match="has another certificate 1"):
        certified(flow, primary, "run-2")

    said = "\n".join(faults(flow, folder))
    assert "There are two different certificates 1" in said
    assert "its signature is not of this key and these bytes" in said
    assert "does not sum up its ranges" in said


@pytest.mark.long
def test_old_certificates_are_pruned_in_both_places_and_the_next_one_says_so(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    for run in ("run-1", "run-2"):
        certified(flow, primary, run)
    first, second = find_certificates(flow).all
    keeping = flow.model_copy(update={"certificates_keep_count": 2})
    assert certified(keeping, primary, "run-3") == 3

    found = find_certificates(flow)
    assert [one.header.serial for one in found.on_target] == [2, 3]
    assert [one.header.serial for one in found.in_state] == [2, 3]
    pruned = found.all[1].header.pruned
    assert pruned and (pruned.through, pruned.hash) == (1, first.digest)
    assert not faults(flow, folder)
    checked = ferry("certificate", "check", "--config", flow.file)
    assert (
        checked.returncode,
        f"Pruned until certificate 1, which had the hash {first.digest}"
        in " ".join(checked.stderr.split()),
    ) == (0, True), checked

    # A pruning that was interrupted after the certificate was there; and the state folder is lost.
    save_file(flow_state(flow), first)
    assert not faults(flow, folder)
    state = flow_state(flow).folder("certificates").local_path
    assert state
    shutil.rmtree(state)
    assert certified(keeping, primary, "run-4") == 4
    found = find_certificates(flow)
    assert [one.header.serial for one in found.on_target] == [3, 4]
    pruned = found.all[-1].header.pruned
    assert pruned and (pruned.through, pruned.hash) == (2, second.digest)

    # What was changed is evidence, and stays.
    (state / "00000003.jsonl").write_bytes(
        found.on_target[0].content().replace(b'"copied":', b'"copied": ')
    )
    assert certified(keeping, primary, "run-5") == 5
    assert [one.header.serial for one in find_certificates(flow).on_target] == [3, 4, 5]
    (state / "00000003.jsonl").unlink()
    assert not faults(flow, folder)


def test_an_attempt_that_was_interrupted_is_written_again(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    certified(flow, primary, "run-1")
    topic = certificate_topic(flow.source.alias)
    left = [
        NewRecord(f"{flow.name}/2/{n}".encode(), b'{"topic":"left"}\n', partition=0) for n in (1, 2)
    ]
    append_records(flow.target, topic, left)

    assert [one.header.serial for one in find_certificates(flow).on_target] == [1]
    assert certified(flow, primary, "run-2") == 2
    assert not faults(flow, folder)


def test_a_key_that_cannot_be_read_fails_the_run_before_anything_is_written(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    pem = folder / "secrets" / "signing.pem"
    pem.write_text("not a key, but a secret")

    with pytest.raises(FerryError, match="is not a private Ed25519 key") as raised:
        certified(flow, primary, "run-1")

    assert "a secret" not in str(raised.value)
    assert raised.value.exit_code == ConfigError.exit_code
    pem.unlink()
    with pytest.raises(FerryError, match=r"finds no file 'signing\.pem'"):
        certified(flow, primary, "run-1")
    assert not stored_certificates(flow.target, flow.source.alias, flow.name)
    assert not ClusterControl(flow.target).topics(
        [f"{flow.source.alias}.{it}" for it in flow.topics]
    )


def test_the_command_line_lists_shows_and_checks_certificates(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    asked = ("--config", flow.file)
    without = ferry("certificate", "list", *asked)
    assert without.returncode == 1
    assert "has no certificate" in without.stderr
    for run in ("run-1", "run-2"):
        certified(flow, primary, run)

    listed = ferry("certificate", "list", *asked, "--json")
    shown = ferry("certificate", "show", "1", *asked, "--output", str(folder / "one.jsonl"))
    text = ferry("certificate", "show", *asked)
    checked = ferry("certificate", "check", *asked, "--public-key", str(folder / "public.pem"))
    unsigned = ferry("certificate", "check", *asked)
    told = json.loads(ferry("certificate", "check", *asked, "--json").stdout)

    assert [one["serial"] for one in json.loads(listed.stdout)] == [1, 2]
    assert shown.returncode == 0
    (first, last) = find_certificates(flow).all
    dates = ferry("certificate", "list", *asked).stdout
    assert all(moment_text(until_ms(one)) in dates for one in (first, last)), dates
    assert (folder / "one.jsonl").read_bytes() == first.content()
    assert "certificate:" in text.stdout
    assert first.digest in text.stdout
    assert checked.returncode == 0, checked.stderr
    assert "certificates 1 to 2" in checked.stdout
    assert not checked.stderr
    assert "Not looked at: signatures" in unsigned.stderr
    assert (told["first"], told["last"], told["signatures"]) == (1, 2, False)
    state = flow_state(flow).folder("certificates").local_path
    assert state
    (state / "00000001.jsonl").write_bytes(first.content().replace(b'"copied":', b'"copied": '))
    wrong = ferry("certificate", "check", *asked)
    assert wrong.returncode == 7
    assert "certificate 1 of" in wrong.stderr
    assert "was changed" in wrong.stderr


def test_a_span_is_exported_for_people_who_have_neither_clusters_nor_kafka_ferry(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    (topic,) = flow.topics
    asked = ("--config", flow.file)
    span = ("--from", moment(now_ms() - 60_000), "--to", moment(now_ms() + 3_600_000))
    uncertain = flow.model_copy(update={"certificates_enabled": False})
    assert certified(uncertain, primary, "run-1") == 0
    began = now_ms()
    assert certified(flow, primary, "run-2") == 1
    assert "`ferry run --verify-all` certifies" in " ".join(report_of(flow, "run-2").topics.notes)

    half = ferry("certificate", "export", str(folder / "half"), *asked, *span)
    assert half.returncode == 7, half
    assert f"No certificate has {topic}-0 [0, " in half.stderr
    assert f"{topic}-0 [0, " in (folder / "half" / "index.html").read_text()

    certified(flow, primary, "run-3")
    Run(flow, "run-3").verify(NO_SPARK, everything=True)
    assert report_of(flow, "run-3").proof.certificate == 3
    whole = ferry("certificate", "export", str(folder / "whole"), *asked, *span)
    assert whole.returncode == 0, whole
    there = folder / "whole"
    for text in ((there / "index.html").read_text(), whole.stdout):
        assert "All of these offsets so far are certified" in text
    assert "is still to come" in whole.stderr
    until = moment(now_ms())
    over = ferry("certificate", "export", str(folder / "over"), *asked, *span[:3], until)
    assert (over.returncode, over.stderr) == (0, "")
    assert "All of these offsets are certified" in (folder / "over" / "index.html").read_text()
    assert (there / "public.pem").read_bytes() == (folder / "public.pem").read_bytes()
    checked = subprocess.run(
        [
            sys.executable,
            "check_certificates.py",
            "public.pem",
            *(there / "certificates").iterdir(),
        ],
        cwd=there,
        capture_output=True,
        check=False,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    again = ferry("certificate", "export", str(there), *asked, *span)
    assert (again.returncode, "is not empty" in again.stderr) == (9, True)
    listed = ferry("certificate", "list", *asked, "--json", "--since", moment(began))
    assert json.loads(listed.stdout)[0]["serial"] == 1
    assert "[]" in ferry("certificate", "list", *asked, "--json", "--since", span[3]).stdout
    none = ferry("certificate", "list", *asked, "--since", span[3])
    assert (none.stdout, "has no certificate of a record after" in none.stderr) == ("", True)
    # What the flow selects and no run has seen yet.
    new = f"{topic}.new"
    create_topic(primary.bootstrap, new)
    produce(primary.bootstrap, new, [Record(value=b"n")])
    content = json.loads(Path(flow.file).read_text())
    Path(flow.file).write_text(json.dumps(content | {"topics": [topic, new]}))
    more = ferry("certificate", "export", str(folder / "more"), *asked, *span)
    assert (more.returncode, f"No certificate has {new}-0 [0, 1)" in more.stderr) == (7, True), more


def test_what_is_signed_once_the_flow_has_a_key_is_checked_and_exported(
    flow: Flow, folder: Path, primary: KafkaCluster
) -> None:
    span = ("--from", moment(now_ms() - 60_000), "--to", moment(now_ms() + 3_600_000))
    public = ("--config", flow.file, "--public-key", str(folder / "public.pem"))
    without_key = flow.model_copy(update={"certificates_key": ""})
    assert certified(without_key, primary, "run-1") == 1

    refused = ferry("certificate", "export", str(folder / "refused"), *public, *span)
    assert (refused.returncode, (folder / "refused").exists()) == (7, False)
    assert "certificate 1 of" in refused.stderr
    assert "Set certificates.key, and run `ferry run --verify-all`" in refused.stderr
    certified(flow, primary, "run-2")
    half = ferry("certificate", "export", str(folder / "half"), *public, *span)
    assert (half.returncode, "No certificate has" in half.stderr) == (7, True)

    Run(flow, "run-2").verify(NO_SPARK, everything=True)
    assert report_of(flow, "run-2").proof.certificate == 3
    checked = ferry("certificate", "check", *public)
    assert (checked.returncode, "certificates 2 to 3 of" in checked.stdout) == (0, True), checked
    named = "Certificate 1 is not signed, since the flow had no key yet: it proves nothing."
    assert named in checked.stderr
    whole = ferry("certificate", "export", str(folder / "whole"), *public, *span)
    assert (whole.returncode, named in whole.stderr) == (0, True), whole
    assert named in (folder / "whole" / "index.html").read_text()
    assert "00000001.jsonl" not in [it.name for it in (folder / "whole" / "certificates").iterdir()]


def test_an_export_names_a_topic_that_was_recreated_and_a_copy_that_was_given_up(
    pair: Pair, flow: Flow
) -> None:
    (topic,) = flow.topics
    asked = ("--config", flow.file, "--from", moment(now_ms() - 60_000))
    asked += ("--to", moment(now_ms() + 60_000))
    assert certified(flow, pair.primary, "run-1") == 1
    (first, *_) = find_certificates(flow).all
    recreate_topic(pair.primary, topic, 2)
    this = Repair(flow)
    this.give_up(this.look([remote(flow, topic)]))
    assert certified(flow, pair.primary, "run-2", 4) == 2

    done = ferry("certificate", "export", str(pair.folder / "week"), *asked)
    assert done.returncode == 0, done
    page = (pair.folder / "week" / "index.html").read_text()
    copy_id = first.ranges()[0]["remote_topic_id"]
    for text in (done.stderr, page):
        told = " ".join(text.split())
        assert f"{topic} was deleted on the source and recreated" in told
        assert f"(id {copy_id}), a copy of {topic}, was given up" in told
        assert "of it, certificate 1 has" in told
    assert "certificates 1 to 2" in done.stdout


def test_an_export_counts_of_a_backfill_only_records_of_its_time(pair: Pair, flow: Flow) -> None:
    (topic,) = flow.topics
    late = flow.model_copy(update={"auto_offset_reset": "latest"})
    noon = now_ms() - 3_600_000
    records = [Record(value=b"%d" % i, timestamp=noon + i, partition=0) for i in range(10)]
    pair.produce(topic, records)
    prove(late, "run-1")
    # It looks at the records after its window too, and leaves them out.
    backfill = Run(late, "backfill")
    plan = backfill.plan(RunOptions(window=Window(noon, noon + 5)))
    assert failures(copy_planned(late, backfill.sync_topics())) == []
    assert verified(late, "backfill").proof.certificate == 1
    dates = ferry("certificate", "list", "--config", flow.file).stdout
    assert f"{moment_text(noon)}  {moment_text(noon + 5)}" in dates
    assert [(range_.start, range_.end) for range_ in plan.ranges] == [(0, 10)]
    # A run judges its ranges once more.
    assert prove(late, "run-2").proof.certificate == 2

    def export(name: str, since: int, until: int) -> Called:
        span = ("--from", moment(noon + since), "--to", moment(noon + until))
        return ferry("certificate", "export", str(pair.folder / name), "--config", flow.file, *span)

    assert export("before", 0, 5).returncode == 0
    both = export("both", 0, 10)
    assert (both.returncode, f"No certificate has {topic}-0 [5, 10)" in both.stderr) == (7, True)


@pytest.mark.long
@pytest.mark.usefixtures("key")
def test_what_a_source_has_written_in_the_place_of_what_it_lost_has_no_certificate_until_it_is_copied(
    folder: Path, tmp_path: Path, unique: Unique
) -> None:
    topic = unique("parted")
    with own_pair(tmp_path / "own") as (source, target):
        flow = make_flow(
            *(folder, source, target, [topic]),
            certificates_enabled=True,
            certificates_key=f"${{dir:{folder / 'secrets'}:signing.pem}}",
            config_providers="dir",
            on_source_divergence="continue",
        )
        create_topic(source.bootstrap, topic)
        for _ in range(2):
            produce(source.bootstrap, topic, [Record(value=b"lost")] * 5)
        prove(flow)
        assert isinstance(source, Broker)
        source.stop()
        cut_log(source, topic, 5)
        source.start().wait_ready()
        produce(source.bootstrap, topic, [Record(value=b"other")] * 10)
        span = ("--from", moment(now_ms() - 600_000), "--to", moment(now_ms()))

        def export(name: str) -> Called:
            return ferry("certificate", "export", str(folder / name), "--config", flow.file, *span)

        parted = export("parted")
        assert not failures(copy_now(flow, "run-2"))
        unproved = export("unproved")
        verified(flow, "run-2")
        whole = export("whole")

    for found in (parted, unproved):
        assert found.returncode == 7, found
        assert f"No certificate has {topic}-0 [5, 15)" in found.stderr
    assert "the log was truncated there" in (folder / "parted" / "index.html").read_text()
    assert (whole.returncode, whole.stderr) == (0, "")


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def test_a_range_is_read_back_and_compared_with_its_certificate(pair: Pair, flow: Flow) -> None:
    (topic,) = flow.topics
    pair.produce(topic, [Record(value=b"%d" % i, partition=0) for i in range(10)])
    prove(flow)
    place = (TopicPartition(topic, 0), 7)

    def told() -> ReadBack:
        (one,) = read_back(flow, find_certificates(flow), [place])
        return one

    assert told() == ReadBack(f"{topic}-0 [0, 10)", f"certificate 1 of {flow.name}")
    asked = ("certificate", "check", "--config", flow.file, "--read-back")
    shown = ferry(*asked, f"{topic}-0:7")
    assert (shown.returncode, f"{topic}-0 [0, 10): backup holds the records" in shown.stdout) == (
        0,
        True,
    ), shown
    assert "is no TOPIC-PARTITION:OFFSET" in ferry(*asked, topic).stderr
    with pytest.raises(FerryError, match="No certificate names the offset 10"):
        list(read_back(flow, find_certificates(flow), [(place[0], 10)]))

    delete_before(pair.backup, remote(flow, topic), 3)
    assert told().note == "3 records have expired: its digest cannot be compared."
    # So it is where they had expired before they were certified.
    Run(flow, "run-1").verify(NO_SPARK, everything=True)
    report_of(flow, "run-1")
    second = told()
    assert (second.certificate, second.fault) == (f"certificate 2 of {flow.name}", "")
    assert second.note == "3 records have expired: its digest cannot be compared."
    recreate_topic(pair.backup, remote(flow, topic), 2)
    assert "does not have it any more" in told().fault
    assert ferry(*asked, f"{topic}-0:7").returncode == 7


def test_a_range_is_read_back_without_kafka_ferry(pair: Pair, flow: Flow) -> None:
    (topic,) = flow.topics
    for codec in ("none", "gzip"):
        some = [Record(b"%d" % i, b"v", (("h", b"1"),), partition=0) for i in range(10)]
        pair.produce(topic, some, compression=codec)
    prove(flow)
    (one,) = find_certificates(flow).all
    (pair.folder / "1.jsonl").write_bytes(one.content())

    def checked(*more: str) -> subprocess.CompletedProcess[str]:
        command = [*PYTHON, "docs/examples/check_range.py", str(pair.folder / "public.pem")]
        command += [
            str(pair.folder / "1.jsonl"),
            f"{topic}-0:7",
            "--target",
            pair.backup.bootstrap,
            *more,
        ]
        return subprocess.run(
            command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120
        )

    whole = checked("--source", pair.primary.bootstrap)
    assert whole.returncode == 0, whole
    assert f"20 records, digest {one.ranges()[0]['digest']}" in whole.stdout
    assert "20 of 20 records compared" in whole.stdout
    delete_before(pair.backup, remote(flow, topic), 10)
    less = checked()
    assert (less.returncode, "the target has 10 of its 20 records" in less.stdout) == (1, True), (
        less
    )
    recreate_topic(pair.primary, topic, 2)
    other = checked("--source", pair.primary.bootstrap)
    assert (other.returncode, f"{topic} is another topic now" in other.stderr) == (1, True), other
    delete_topic(pair.backup, remote(flow, topic))
    none = checked()
    assert none.returncode == 1
    assert none.stderr.startswith(f"{remote(flow, topic)}: UnknownTopicOrPartitionError"), none


def test_a_copy_that_was_given_up_is_proved_by_no_certificate_and_named(
    pair: Pair, flow: Flow
) -> None:
    (topic,) = flow.topics
    pair.produce(topic, [Record(b"k", b"1", partition=0) for _ in range(4)])
    assert not failures(copy_now(flow, "run-1"))
    this = Repair(flow)
    this.give_up(this.look([remote(flow, topic)]))
    pair.produce(topic, [Record(b"k", b"2", partition=0) for _ in range(6)])
    report = prove(flow, "run-2")
    assert "1 range of a copy that was deleted or given up since" in report.found
    (one,) = find_certificates(flow).all
    kept, gone = one.ranges()
    assert (gone["absent"], gone["start"], gone["end"]) == ({"gone": 4}, 0, 4)
    assert (kept["read_back"], kept["start"], kept["end"]) == (10, 0, 10)
    first, second = where(flow, TopicPartition(topic, 0), 2)
    assert (first.state, first.proof) == ("topic deleted", None)
    assert second.proof and second.proof.run == "run-2"

    pem = str(pair.folder / "public.pem")
    file = pair.folder / "1.jsonl"
    file.write_bytes(one.content())

    def example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*PYTHON, f"docs/examples/{name}.py", pem, str(file), *arguments]
        return subprocess.run(
            command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120
        )

    checked = example("check_certificates")
    assert (checked.returncode, f"NOT LOOKED AT by {file}: {topic}-0 [0, 4)" in checked.stdout) == (
        0,
        True,
    )
    read = example("check_range", f"{topic}-0:2", "--target", pair.backup.bootstrap)
    assert read.returncode == 0, read
    assert f"NOT LOOKED AT: {topic}-0 [0, 4)" in read.stdout
    assert (
        f"{topic}-0 [0, 10) in {remote(flow, topic)} (id {kept['remote_topic_id']})" in read.stdout
    )
    asked = ("--config", flow.file, "--public-key", pem, "--read-back", f"{topic}-0:2")
    own = ferry("certificate", "check", *asked)
    assert own.returncode == 0, own
    assert f"{topic}-0 [0, 10): backup holds the records" in own.stdout
    assert "nothing was looked at of what run run-1 had copied" in own.stderr
    assert "Not looked at: the records of 1 range," in own.stderr


def test_of_two_ranges_the_one_that_has_the_record_is_read_back(pair: Pair, flow: Flow) -> None:
    (topic,) = flow.topics
    late = flow.model_copy(update={"auto_offset_reset": "latest"})
    noon = now_ms() - 3_600_000
    pair.produce(
        topic, [Record(value=b"%d" % i, timestamp=noon + i, partition=0) for i in range(10)]
    )
    prove(late, "run-1")
    for number, since in enumerate((5, 0), 1):
        # The second one passes over what the first one has copied.
        backfill = Run(late, f"backfill-{number}")
        backfill.plan(RunOptions(window=Window(noon + since, noon + since + 5)))
        assert failures(copy_planned(late, backfill.sync_topics())) == []
    assert prove(late, "run-2").proof.certificate == 1
    delete_before(pair.backup, remote(flow, topic), 3)

    found = find_certificates(flow)
    (told,) = read_back(flow, found, [(TopicPartition(topic, 0), 7)])
    assert told.name == f"{topic}-0 [5, 10)"
    assert told.note == "3 records have expired: its digest cannot be compared."
    file = pair.folder / "1.jsonl"
    file.write_bytes(found.all[0].content())
    command = [*PYTHON, "docs/examples/check_range.py", str(pair.folder / "public.pem")]
    command += [str(file), f"{topic}-0:7", "--target", pair.backup.bootstrap]
    read = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120
    )
    assert (read.returncode, "the target has 2 of its 5 records" in read.stdout) == (1, True), read


def test_openssl_confirms_a_signature(flow: Flow, folder: Path, primary: KafkaCluster) -> None:
    certified(flow, primary, "run-1")
    (one,) = find_certificates(flow).all
    assert one.signature
    (folder / "line").write_bytes(one.line)
    (folder / "signature").write_bytes(base64.b64decode(one.signature.value))

    done = subprocess.run(
        [
            "openssl",
            "pkeyutl",
            "-verify",
            "-rawin",
            "-pubin",
            "-inkey",
            "public.pem",
            "-in",
            "line",
            "-sigfile",
            "signature",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Signature Verified Successfully" in done.stdout


def test_a_run_writes_a_certificate_only_if_it_is_asked_to(pair: Pair) -> None:
    topic = pair.topic("uncertified")
    flow = pair.flow([topic])

    assert certified(flow, pair.primary, "run-1") == 0
    assert Run(flow, "run-1").reconciliation()
    topics = ClusterControl(flow.target).unknown([certificate_topic(flow.source.alias)])
    assert topics


@pytest.mark.short("folder lost")
@pytest.mark.parametrize("is_folder_lost", [False, True], ids=["", "folder lost"])
def test_an_unsigned_certificate_that_says_that_others_were_pruned_is_not_followed(
    flow: Flow, primary: KafkaCluster, is_folder_lost: bool
) -> None:
    for run in ("run-1", "run-2"):
        certified(flow, primary, run)
    first, second = find_certificates(flow).all
    forged = json.loads(second.line) | {"serial": 9, "pruned": {"through": 2, "hash": first.digest}}
    topic = certificate_topic(flow.source.alias)
    append_records(
        flow.target,
        topic,
        [NewRecord(f"{flow.name}/9/0".encode(), json.dumps(forged).encode() + b"\n", partition=0)],
    )
    state = flow_state(flow).folder("certificates")
    if is_folder_lost:
        state.delete(state.names())

    with pytest.raises(CertificateError, match="has another certificate 9"):
        certified(flow, primary, "run-3")

    assert [one.header.serial for one in find_certificates(flow).on_target] == [1, 2, 9]
    assert len(state.names()) == (0 if is_folder_lost else 2)


@pytest.mark.long
def test_a_certificate_in_the_state_folder_deletes_no_others(
    flow: Flow, primary: KafkaCluster
) -> None:
    for run in ("run-1", "run-2", "run-3"):
        certified(flow, primary, run)
    *_, second, third = find_certificates(flow).all
    forged = json.loads(third.line) | {"serial": 4, "pruned": {"through": 2, "hash": second.digest}}
    save_file(flow_state(flow), replace(third, line=json.dumps(forged).encode(), signature=None))

    certified(flow, primary, "run-4")

    found = find_certificates(flow)
    assert [one.header.serial for one in found.on_target] == [1, 2, 3, 5]
    assert [one.header.serial for one in found.in_state] == [1, 2, 3, 4, 5]
    assert found.all[-1].header.pruned is None


@pytest.mark.parametrize("file", ["reconciliation.json", "plan.json", "approved-by.txt"])
def test_what_verify_has_left_and_was_changed_since_is_not_signed(
    flow: Flow, primary: KafkaCluster, file: str
) -> None:
    (topic,) = flow.topics
    produce(primary.bootstrap, topic, [Record(value=b"%d" % i) for i in range(10)])
    assert not failures(copy_now(flow, "run-1"))
    this = Run(flow, "run-1")
    this.verify(NO_SPARK)
    folder = this._context.folder.files
    before = folder.read(file)
    changes = {
        "reconciliation.json": lambda text: text.replace(
            b'"target_records": ', b'"target_records": 1'
        ),
        "plan.json": lambda text: text.replace(b'"at": 1', b'"at": 2'),
        "approved-by.txt": lambda _: b"0\nAda",
    }
    folder.write(file, changes[file](before or b""))

    with pytest.raises(CertificateError, match="is not what the step verify has left"):
        report_of(flow, "run-1")

    assert not stored_certificates(flow.target, flow.source.alias, flow.name)
    this.verify(NO_SPARK)
    assert report_of(flow, "run-1").proof.certificate == 1
