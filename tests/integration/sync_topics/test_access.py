"""ACLs, quotas and SCRAM users follow the source, and those of other clients stay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.control.access import AccessControl
from kafka_ferry.ledger import AppliedEntry, append_entry
from kafka_ferry.model import Plan, RunOptions
from kafka_ferry.model.changes import Acl, AclChange, Entity, QuotaChange
from kafka_ferry.runs import Run
from kafka_ferry.runs.sync_topics import acls as acls_module
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all
from kafka_sandbox.java import jvm
from kafka_sandbox.logins.secure import Authority, SecureBroker
from tests.support.brokers.access import (
    acls_of,
    add_user,
    allow,
    an_acl,
    forget,
    quotas_of,
    remove_user,
    set_quota,
    some_acls,
    users_of,
)
from tests.support.brokers.secure import login
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import copy_now, failures, ledger_of, make_flow, plan_now, remote
from tests.support.runs.killing import Killed
from tests.support.runs.pair import Pair, Unique
from tests.support.waiting import wait_until

WEAK = "weak", "weak-passw0rd"
RATE = "consumer_byte_rate"


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureBroker, KafkaCluster]]:
    """A broker with an authorizer that allows only what an ACL allows, and one without an authorizer."""
    home = tmp_path_factory.mktemp("access")
    strict = {"allow.everyone.if.no.acl.found": "false"}
    guarded = SecureBroker(home / "guarded", Authority("test"), dict([WEAK]), config=strict)
    open_ = Broker(home / "open", config={"authorizer.class.name": ""})
    try:
        start_all([guarded, open_])
        yield guarded, open_
    finally:
        guarded.wipe()
        open_.wipe()


@pytest.fixture
def guarded(others: tuple[SecureBroker, KafkaCluster]) -> SecureBroker:
    """Allows a login only what an ACL allows, and a client without a login everything."""
    return others[0]


@pytest.fixture
def open_(others: tuple[SecureBroker, KafkaCluster]) -> KafkaCluster:
    """Has no authorizer."""
    return others[1]


@pytest.fixture
def topic(primary: KafkaCluster, unique: Unique) -> str:
    name = unique("orders")
    create_topic(primary.bootstrap, name)
    return name


def granted(plan: Plan) -> frozenset[Acl]:
    return frozenset(it.acl for it in plan.access.acl_changes if it.change == "grant")


def revoked(plan: Plan) -> frozenset[Acl]:
    return frozenset(it.acl for it in plan.access.acl_changes if it.change == "revoke")


def acls_on(broker: KafkaCluster, name: str) -> frozenset[Acl]:
    return frozenset(it for it in acls_of(broker) if name in (it.name, it.principal))


def _of(acls: frozenset[Acl], principal: str) -> frozenset[Acl]:
    return frozenset(acl for acl in acls if acl.principal == principal)


def logged_in(flow: Flow, side: str, broker: SecureBroker, user: str, password: str) -> Flow:
    """The flow with a login at one of its clusters."""
    assert flow.file
    content = json.loads(Path(flow.file).read_text())
    content[side] |= {
        "bootstrap.servers": broker.listener("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
    } | login("SCRAM-SHA-512", user, password)
    Path(flow.file).write_text(json.dumps(content))
    return load_flow(Path(flow.file))


# ACLs


def test_acls_follow_the_source_and_those_of_other_clients_stay(pair: Pair, topic: str) -> None:
    flow = pair.flow([topic])
    copy = remote(flow, topic)
    anna, bob, carl = pair.unique("anna"), pair.unique("bob"), pair.unique("carl")
    allow(pair.primary, f"topic {topic}: {anna} ALLOW ALL", f"topic {topic}: {anna} ALLOW WRITE")
    allow(pair.primary, f"topic {topic}: {bob} DENY READ from 10.0.0.1")
    allow(pair.backup, f"topic {copy}: {carl} ALLOW READ")

    plan_now(flow)

    mine = f"topic {copy}: {anna} ALLOW READ", f"topic {copy}: {bob} DENY READ from 10.0.0.1"
    theirs = f"topic {copy}: {carl} ALLOW READ"
    wait_until(lambda: acls_on(pair.backup, copy) == some_acls(*mine, theirs))
    assert plan_now(flow, "run-2").access.acl_changes == ()

    # The source has one ACL less, and one that the target has already.
    forget(pair.primary, f"topic {topic}: {anna} ALLOW ALL")
    allow(pair.primary, f"topic {topic}: {carl} ALLOW READ")
    third = plan_now(flow, "run-3")

    assert third.access.acl_changes == (AclChange(an_acl(mine[0]), "revoke"),)
    wait_until(lambda: acls_on(pair.backup, copy) == some_acls(mine[1], theirs))

    forget(pair.primary, f"topic {topic}: {carl} ALLOW READ")
    assert plan_now(flow, "run-4").access.acl_changes == ()
    assert acls_on(pair.backup, copy) == some_acls(mine[1], theirs)


def test_exact_copies_groups_prefixes_transactional_ids_and_the_cluster(pair: Pair) -> None:
    prefix, anna = pair.unique("app-"), pair.unique("anna")
    create_topic(pair.primary.bootstrap, f"{prefix}-1")
    flow = pair.flow(
        [f"{prefix}.*"], acls_mode="exact", acls_principals=[f"RULE:User:({anna})/User:dr-$1/"]
    )
    same = [
        f"prefixed group {prefix}: {anna} ALLOW READ",
        f"transactional_id {prefix}-writer: {anna} ALLOW WRITE",
        f"cluster kafka-cluster: {anna} ALLOW IDEMPOTENT_WRITE",
    ]
    own = f"group ferry.{prefix}: {anna} ALLOW READ"
    allow(pair.primary, f"prefixed topic {prefix}: {anna} ALLOW WRITE", *same, own)
    # librdkafka has no name for this one.
    newer = f"transactional_id {prefix}-newer: {anna} ALLOW TWO_PHASE_COMMIT"
    with AccessControl(flow.source) as source:
        assert not source.grant([an_acl(newer)])
        wait_until(lambda: an_acl(newer) in source.acls())

    plan_now(flow)

    wanted = [f"prefixed topic {remote(flow, prefix)}: {anna} ALLOW WRITE", *same, newer]
    wanted = [text.replace(f": {anna}", f": dr-{anna}") for text in wanted]
    with AccessControl(flow.target) as target:
        wait_until(lambda: some_acls(*wanted) == _of(target.acls(), f"User:dr-{anna}"))
    assert len(acls_on(pair.backup, f"User:dr-{anna}")) == len(wanted)
    assert not acls_on(pair.backup, f"User:{anna}")

    read_only = flow.model_copy(update={"acls_mode": "read-only"})
    plan = plan_now(read_only, "run-2")

    assert revoked(plan) == some_acls(*wanted)
    wait_until(lambda: not acls_on(pair.backup, f"User:dr-{anna}"))


@pytest.mark.parametrize("mode", ["read-only", "exact"])
def test_whom_the_source_denies_a_topic_by_prefix_may_not_read_its_copy(
    mode: str, pair: Pair, guarded: SecureBroker, topic: str
) -> None:
    primary, user = pair.primary, pair.unique("bob")
    add_user(guarded, user, "bobs-passw0rd")
    allow(primary, f"topic {topic}: * ALLOW READ", f"prefixed topic {topic[:-1]}: {user} DENY READ")
    # No rule knows the user, and the run is only for this topic.
    rules = {"acls_principals": ["RULE:User:known/User:known/"], "acls_mode": mode}
    flow = make_flow(pair.folder, primary, guarded, [topic], **rules)
    run = Run(flow, "run-1")
    run.plan(RunOptions(topics=(topic,)))
    plan = run.sync_topics()

    assert not plan.remarks.unapplied
    assert {acl.permission for acl in granted(plan)} == {"ALLOW", "DENY"}
    client = Consumer(as_user(guarded, user, "bobs-passw0rd", **{"group.id": topic}))
    client.assign([TopicPartition(remote(flow, topic), 0, 0)])

    def is_refused() -> bool:
        message = client.poll(0.5)
        error = message.error() if message else None
        assert error or not message
        return bool(error) and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    wait_until(is_refused)
    client.close()
    assert plan_now(flow, "run-2").access.acl_changes == ()


def test_what_denies_stays_on_a_copy_whose_topic_goes_to_another_name_by_now(pair: Pair) -> None:
    topic = pair.topic("secret", [Record(value=b"1")])
    allow(pair.primary, f"prefixed topic {topic[:-1]}: anna ALLOW READ")
    allow(pair.primary, f"topic {topic}: anna DENY READ")
    flow = pair.flow([topic], acls_mode="exact")
    assert failures(copy_now(flow, "run-1")) == []
    before = remote(flow, topic)
    renamed = flow.model_copy(update={"topics_rename": {topic: pair.unique("other")}})
    for run in ("run-2", "run-3", "run-4"):
        assert failures(copy_now(renamed, run)) == []
    assert {acl.permission for acl in acls_on(pair.backup, before)} == {"DENY"}


def test_an_acl_that_is_refused_stops_none_but_those_that_it_was_to_narrow(pair: Pair) -> None:
    narrowed, other = (pair.topic(it) for it in ("narrowed", "other"))
    # A principal without a type is one that brokers refuse.
    flow = pair.flow([narrowed, other], acls_principals=["RULE:User:mallory/mallory/", "DEFAULT"])
    allow(pair.primary, f"topic {narrowed}: mallory DENY READ", f"topic {narrowed}: * ALLOW READ")
    allow(pair.primary, f"topic {other}: anna ALLOW READ")

    plan = plan_now(flow)

    assert not plan.remarks.refused
    assert len(plan.remarks.unapplied) == 2
    held, refused = sorted(plan.remarks.unapplied)
    assert "Held back" in held
    assert remote(flow, narrowed) in refused
    assert "principal" in refused
    mine = [some_acls(f"topic {remote(flow, narrowed)}: mallory DENY READ")]
    mine += [some_acls(f"topic {remote(flow, other)}: anna ALLOW READ")]
    assert [acls_on(pair.backup, remote(flow, it)) for it in (narrowed, other)] == mine
    # What was refused is not the flow's, should another client create it.
    assert ledger_of(flow).applied().acls == mine[0] | mine[1]


def killed_at(
    monkeypatch: pytest.MonkeyPatch, flow: Flow, run: str, where: object, name: str
) -> None:
    """Plan and sync until ``name`` is called."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(where, name, die)
        with pytest.raises(Killed):
            plan_now(flow, run)


def test_a_run_killed_before_it_creates_an_acl_leaves_nothing_that_it_claims(
    pair: Pair, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = pair.flow([topic])
    copy = remote(flow, topic)
    allow(pair.primary, f"topic {topic}: anna ALLOW READ")
    killed_at(monkeypatch, flow, "run-1", acls_module, "_change_acls")
    assert not acls_on(pair.backup, copy)
    forget(pair.primary, f"topic {topic}: anna ALLOW READ")
    plan_now(flow, "run-2")

    # The same ACL, created by another client.
    allow(pair.backup, f"topic {copy}: anna ALLOW READ")

    assert plan_now(flow, "run-3").access.acl_changes == ()


def test_a_run_killed_after_it_created_an_acl_has_claimed_it(
    pair: Pair, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = pair.flow([topic])
    copy = remote(flow, topic)
    allow(pair.primary, f"topic {topic}: anna ALLOW READ")
    killed_at(monkeypatch, flow, "run-1", acls_module, "_sentences")
    wait_until(lambda: acls_on(pair.backup, copy) == some_acls(f"topic {copy}: anna ALLOW READ"))
    assert plan_now(flow, "run-2").access.acl_changes == ()

    forget(pair.primary, f"topic {topic}: anna ALLOW READ")
    plan_now(flow, "run-3")

    wait_until(lambda: not acls_on(pair.backup, copy))


def test_changes_by_another_client_between_plan_and_run_are_left_alone(
    pair: Pair, topic: str
) -> None:
    flow = pair.flow([topic])
    copy = remote(flow, topic)
    allow(pair.primary, f"topic {topic}: anna ALLOW READ")
    run = Run(flow, "run-1")
    run.plan()
    allow(pair.backup, f"topic {copy}: anna ALLOW READ")
    run.sync_topics()
    forget(pair.primary, f"topic {topic}: anna ALLOW READ")

    assert plan_now(flow, "run-2").access.acl_changes == ()
    assert acls_on(pair.backup, copy) == some_acls(f"topic {copy}: anna ALLOW READ")


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_without_an_authorizer_is_said_once(
    side: str, pair: Pair, open_: KafkaCluster, topic: str
) -> None:
    source, target = (open_, pair.backup) if side == "source" else (pair.primary, open_)
    if source is open_:
        create_topic(open_.bootstrap, topic)
    flow = make_flow(pair.folder, source, target, [topic])
    if source is pair.primary:
        allow(pair.primary, f"topic {topic}: anna ALLOW READ")
    # What the flow created is not taken away because its source can no longer be asked.
    plan_now(flow.model_copy(update={"sync_topic_acls_enabled": False}))
    copied = f"topic {remote(flow, topic)}: anna ALLOW READ"
    claim = AclChange(an_acl(copied), "grant")
    append_entry(flow, AppliedEntry(flow=flow.name, run="run-1", at=1, acls=(claim,)))
    if target is pair.backup:
        allow(pair.backup, copied)

    plan = plan_now(flow, "run-2")

    alias = flow.source.alias if side == "source" else flow.target.alias
    notes = [str(note) for note in plan.remarks.notes if "authorizer" in str(note)]
    assert notes == [f"{alias} has no authorizer: ACLs are not synced."]
    assert (plan.access.acl_changes, plan.remarks.refused, plan.remarks.unapplied) == ((), (), ())
    assert ledger_of(flow).applied().acls == {claim.acl}
    assert target is open_ or acls_on(pair.backup, remote(flow, topic)) == {claim.acl}


def test_without_the_right_to_look_a_note_says_so(
    folder: Path, guarded: SecureBroker, backup: KafkaCluster, topic: str
) -> None:
    create_topic(guarded.bootstrap, topic)
    allow(guarded, f"topic {topic}: {WEAK[0]} ALLOW ALL")
    flow = make_flow(
        folder,
        guarded,
        backup,
        [topic],
        sync_client_quotas_enabled=True,
        sync_scram_users_enabled=True,
    )
    plan = plan_now(logged_in(flow, "source", guarded, *WEAK))

    assert not plan.remarks.refused
    notes = [str(note) for note in plan.remarks.notes]
    for what, right in (
        ("ACLs", "DESCRIBE"),
        ("client quotas", "DESCRIBE_CONFIGS"),
        ("SCRAM users", "DESCRIBE"),
    ):
        (note,) = (it for it in notes if what in it)
        assert f"{flow.source.alias} does not let the flow see its {what}" in note
        assert f"Grant {right} on the cluster: " in note


def test_without_the_right_to_change_topics_are_copied_and_the_run_says_what_is_missing(
    folder: Path, primary: KafkaCluster, guarded: SecureBroker, topic: str
) -> None:
    produce(primary.bootstrap, topic, [Record(value=b"x")] * 3)
    flow = make_flow(folder, primary, guarded, [topic], sync_client_quotas_enabled=True)
    may = [
        "topic *: weak ALLOW ALL",
        "group *: weak ALLOW ALL",
        "transactional_id *: weak ALLOW ALL",
        *(
            f"cluster kafka-cluster: weak ALLOW {operation}"
            for operation in ("CREATE", "DESCRIBE", "IDEMPOTENT_WRITE", "DESCRIBE_CONFIGS")
        ),
    ]
    allow(guarded, *may)
    allow(primary, f"topic {topic}: anna ALLOW READ", f"topic {topic}: bob ALLOW READ")
    entity = (("client-id", topic),)
    set_quota(primary, entity, RATE, 1024)
    try:
        flow = logged_in(flow, "target", guarded, *WEAK)
        assert not failures(copy_now(flow))
        acls_said, quotas_said = plan_now(flow, "run-2").remarks.unapplied
        assert "refuses 2 changes of ACLs" in acls_said
        assert "Grant ALTER on the cluster: " in acls_said
        assert "refuses a change of client quotas" in quotas_said
        assert "ALTER_CONFIGS" in quotas_said
    finally:
        set_quota(primary, entity, RATE, None)
        forget(guarded, *may)


# SCRAM users


def as_user(broker: SecureBroker, user: str, password: str, **more: Any) -> dict[str, Any]:
    """A client that logs in."""
    return {
        "bootstrap.servers": broker.listener("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    } | more


def test_a_reader_of_the_source_logs_in_at_the_target_reads_and_may_not_write(
    folder: Path, primary: KafkaCluster, guarded: SecureBroker, topic: str, unique: Unique
) -> None:
    anna, bob, password = unique("anna"), unique("bob"), "a päss:word = \\ "
    for user in (anna, bob):
        add_user(primary, user, "another password", iterations=5000)
    allow(primary, f"topic {topic}: {anna} ALLOW ALL", f"group {topic}: {anna} ALLOW READ")
    allow(guarded, f"group {topic}: {anna} ALLOW READ")
    produce(primary.bootstrap, topic, [Record(value=b"x")] * 3)
    passwords = folder / "passwords.properties"
    flow = make_flow(
        folder,
        primary,
        guarded,
        [topic],
        sync_scram_users_enabled=True,
        scram_passwords_file=str(passwords),
    )
    missing = plan_now(flow, "no file")
    assert any("passwords.properties cannot be read" in said for said in missing.remarks.unapplied)
    escaped = password.replace("\\", "\\\\")
    passwords.write_text(f"{anna}={escaped}\n", "utf-8")

    assert not failures(copy_now(flow))

    assert users_of(guarded)[anna] == 5000
    assert bob not in users_of(guarded)
    (note,) = (str(it) for it in Run(flow, "look").plan(save=False).remarks.notes if bob in str(it))
    assert "scram.passwords.file" in note
    reader = Consumer(
        as_user(guarded, anna, password, **{"group.id": topic, "auto.offset.reset": "earliest"})
    )
    reader.subscribe([remote(flow, topic)])
    read: list[bytes | None] = []
    wait_until(lambda: (bool(_take(reader, read)) and len(read) == 3) or len(read) == 3)
    reader.close()
    writer = Producer(as_user(guarded, anna, password))
    refusals: list[KafkaError | None] = []
    writer.produce(remote(flow, topic), b"y", on_delivery=lambda error, _: refusals.append(error))
    writer.flush(20)
    assert [it and it.code() for it in refusals] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    # Those of the source that are gone there go here too, the target's own stay.
    remove_user(primary, anna)
    plan_now(flow, "run-3")
    wait_until(lambda: anna not in users_of(guarded))
    assert WEAK[0] in users_of(guarded)
    remove_user(primary, bob)


def _take(consumer: Consumer, into: list[bytes | None]) -> bool:
    message = consumer.poll(0.5)
    if message is None:
        return False
    if message.error():
        raise KafkaException(message.error())
    into.append(message.value())
    return True


def test_no_password_is_in_what_a_run_writes_or_says(
    folder: Path,
    primary: KafkaCluster,
    guarded: SecureBroker,
    topic: str,
    unique: Unique,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    anna, word = unique("anna"), "pa55-of-anna"
    add_user(primary, anna, "another password")
    passwords = folder / "passwords.properties"
    passwords.write_text(f"{anna}={word}\n")
    flow = make_flow(
        folder,
        primary,
        guarded,
        [topic],
        sync_scram_users_enabled=True,
        scram_passwords_file=str(passwords),
    )
    plan = plan_now(flow)
    assert [it.user for it in plan.access.user_changes] == [anna]
    written = [it.read_bytes() for it in Path(flow.state_path).rglob("*") if it.is_file()]
    rows = str(ledger_of(flow).read().to_pylist())
    assert anna in rows
    assert not any(word.encode() in it for it in written)
    assert word not in rows + plan.to_json() + caplog.text + repr(flow)
    remove_user(primary, anna)


# Quotas


@pytest.fixture
def client(pair: Pair) -> Iterator[Entity]:
    """A client id that no other test has, whose quotas are deleted in the end."""
    entity = (("client-id", pair.unique("client")),)
    yield entity
    for broker in (pair.primary, pair.backup):
        set_quota(broker, entity, RATE, None)


def quota_flow(pair: Pair, topic: str, **options: Any) -> Flow:
    return pair.flow([topic], sync_client_quotas_enabled=True, **options)


def test_quotas_follow_the_source_as_kafkas_own_tool_sees_them(
    pair: Pair, topic: str, client: Entity
) -> None:
    name, user = client[0][1], pair.unique("anna")
    flow = quota_flow(pair, topic)
    whole = (*client, ("user", user))
    all_users, address = (("user", None),), (("ip", "10.9.8.7"),)
    set_quota(pair.primary, whole, RATE, 1_048_576)
    set_quota(pair.primary, all_users, "request_percentage", 12.5)
    set_quota(pair.primary, address, "connection_creation_rate", 7)
    try:
        plan_now(flow)
        printed = subprocess.run(
            jvm.command(
                "kafka.admin.ConfigCommand",
                *("--bootstrap-server", pair.backup.bootstrap, "--describe"),
                *("--entity-type", "users", "--entity-name", user),
                *("--entity-type", "clients", "--entity-name", str(name)),
            ),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert f"{RATE}=1048576.0" in printed
        quotas = quotas_of(pair.backup)
        assert quotas[all_users, "request_percentage"] == 12.5
        assert quotas[address, "connection_creation_rate"] == 7
        assert plan_now(flow, "run-2").access.quota_changes == ()
    finally:
        for entity, key in (
            (whole, RATE),
            (all_users, "request_percentage"),
            (address, "connection_creation_rate"),
        ):
            set_quota(pair.primary, entity, key, None)
    plan_now(flow, "run-3")
    wait_until(lambda: not {whole, all_users, address} & {it for it, _ in quotas_of(pair.backup)})


@pytest.mark.parametrize(("policy", "value"), [("keep", 5.0), ("overwrite", 2048.0)])
def test_another_clients_quota_is_named_and_kept_unless_the_flow_says_otherwise(
    pair: Pair, topic: str, client: Entity, policy: str, value: float
) -> None:
    flow = quota_flow(pair, topic, on_config_drift=policy)
    set_quota(pair.primary, client, RATE, 1024)
    plan_now(flow)
    wait_until(lambda: quotas_of(pair.backup)[client, RATE] == 1024)
    set_quota(pair.backup, client, RATE, 5)
    set_quota(pair.primary, client, RATE, 2048)

    plan = plan_now(flow, "run-2")

    assert ["changed by another client" in str(note) for note in plan.remarks.notes] == [True]
    wait_until(lambda: quotas_of(pair.backup)[client, RATE] == value)


def test_a_quota_that_was_deleted_on_both_clusters_is_no_longer_the_flows(
    pair: Pair, topic: str, client: Entity
) -> None:
    flow = quota_flow(pair, topic)
    set_quota(pair.primary, client, RATE, 1024)
    plan_now(flow)
    for broker in (pair.primary, pair.backup):
        set_quota(broker, client, RATE, None)
    plan_now(flow, "run-2")

    set_quota(pair.backup, client, RATE, 1024)

    assert plan_now(flow, "run-3").access.quota_changes == ()
    assert quotas_of(pair.backup)[client, RATE] == 1024


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_quota_is_the_flows_own_wherever_a_run_was_killed(
    when: str, pair: Pair, topic: str, client: Entity, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = quota_flow(pair, topic, sync_topic_acls_enabled=False)
    place = (AccessControl, "change_quotas") if when == "before" else (acls_module, "_sentences")
    for rate in (1024, 2048):
        set_quota(pair.primary, client, RATE, rate)
        killed_at(monkeypatch, flow, f"killed-{rate}", *place)
        plan = plan_now(flow, f"next-{rate}")
        assert not [note for note in plan.remarks.notes if RATE in str(note)]
        wait_until(lambda rate=rate: quotas_of(pair.backup)[client, RATE] == rate)

    set_quota(pair.primary, client, RATE, None)
    assert plan_now(flow, "last").access.quota_changes == (
        QuotaChange(client, RATE, None, before=2048),
    )
    wait_until(lambda: (client, RATE) not in quotas_of(pair.backup))


def test_a_quota_that_another_client_changes_after_the_plan_waits_for_the_next(
    pair: Pair, topic: str, client: Entity
) -> None:
    flow = quota_flow(pair, topic)
    set_quota(pair.primary, client, RATE, 1024)
    run = Run(flow, "run-1")
    run.plan()
    set_quota(pair.backup, client, RATE, 5)

    (said,) = run.sync_topics().remarks.unapplied

    assert f"another client has changed {RATE}" in said
    assert quotas_of(pair.backup)[client, RATE] == 5


# A run that is repeated after newer ones


@pytest.fixture
def anna(pair: Pair) -> Iterator[str]:
    """A SCRAM user of the source."""
    name = pair.unique("anna")
    add_user(pair.primary, name, "a password", iterations=5000)
    yield name
    for broker in (pair.primary, pair.backup):
        if name in users_of(broker):
            remove_user(broker, name)


def test_a_repeated_run_gives_no_access_that_a_newer_one_has_taken_away(
    pair: Pair, topic: str, client: Entity, anna: str
) -> None:
    passwords = pair.folder / "passwords.properties"
    options = {"sync_scram_users_enabled": True, "scram_passwords_file": str(passwords)}
    flow = quota_flow(pair, topic, **options)
    passwords.write_text(f"{anna}=a password\n")
    acl = f"topic {topic}: {anna} ALLOW READ"
    allow(pair.primary, acl)
    set_quota(pair.primary, client, RATE, 1024)
    plan_now(flow, "run-1")
    wait_until(lambda: anna in users_of(pair.backup))
    forget(pair.primary, acl)
    set_quota(pair.primary, client, RATE, None)
    remove_user(pair.primary, anna)
    plan_now(flow, "run-2")
    wait_until(lambda: anna not in users_of(pair.backup))

    unapplied = Run(flow, "run-1").sync_topics().remarks.unapplied

    assert anna not in users_of(pair.backup)
    assert (client, RATE) not in quotas_of(pair.backup)
    assert not acls_on(pair.backup, remote(flow, topic))
    assert sorted(said.partition(" since ")[0] for said in unapplied) == [
        f"Another run has changed {kind}" for kind in ("ACLs", "SCRAM users", "client quotas")
    ]
