"""Getting in with Kerberos: a real MIT KDC, and two clusters with a principal and a key tab each."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.config import Cluster, kafka_python_config
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import Connection, WireCluster, connect
from kafka_sandbox.cluster import start_all
from kafka_sandbox.logins.kdc import REALM, Kdc, KerberosBroker, missing_tools
from tests.support.records.builders import read_all
from tests.support.records.groups import commit_alone
from tests.support.runs.command_line import ferry_process
from tests.support.runs.flows import assert_same, copy_now, failures, remote
from tests.support.runs.pair import Unique

from .test_secure import contents, filled, secured_flow

pytest.importorskip("gssapi", reason="the extra kerberos is not installed (pip install gssapi)")
pytestmark = pytest.mark.skipif(
    bool(missing_tools()),
    reason="no KDC here: apt-get install krb5-kdc krb5-admin-server krb5-user, as .ci/run does",
)

SESSION_S = 2.0
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


class Realm(NamedTuple):
    """Two clusters of one realm, which let in ann and bob."""

    kdc: Kdc
    source: KerberosBroker
    target: KerberosBroker
    key_tabs: dict[str, Path]

    def login(self, user: str, *more: str, key_tab: Path | str = "") -> str:
        """As Kafka's documentation writes it, and MirrorMaker 2's users have it."""
        file = key_tab or self.key_tabs[user]
        options = " ".join(
            [
                "useKeyTab=true storeKey=true useTicketCache=false",
                f'keyTab="{file}" principal="{user}@{REALM}"',
                *more,
            ]
        )
        return f"{MODULE} required {options};"

    def way(self, broker: KerberosBroker, user: str, service: str) -> dict[str, str]:
        return {
            "bootstrap.servers": broker.secured,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.jaas.config": self.login(user),
        }

    @property
    def from_source(self) -> dict[str, str]:
        return self.way(self.source, "ann", "kafka")

    @property
    def to_target(self) -> dict[str, str]:
        return self.way(self.target, "bob/ferry", "bus")


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """ann is known to the source alone, and bob to the target alone, where his name is bob_at_ferry."""
    home = tmp_path_factory.mktemp("kerberos")
    with Kdc(home / "kdc") as kdc, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(kdc.config))
        # Nothing of what a process may have one of only.
        for name in ("KRB5CCNAME", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME"):
            patch.delenv(name, raising=False)
        strict = {"allow.everyone.if.no.acl.found": "false"}
        source = KerberosBroker(
            home / "source",
            kdc,
            config=strict
            | {
                "super.users": "User:ANONYMOUS;User:ann",
                "connections.max.reauth.ms": str(int(SESSION_S * 1000)),
            },
        )
        target = KerberosBroker(
            home / "target",
            kdc,
            "bus",
            config=strict
            | {
                "super.users": "User:ANONYMOUS;User:bob_at_ferry",
                "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1_at_$2](bob_at_.*),"
                "RULE:[1:$1@$0](.*@PARTNER.COM)s/@.*//",
            },
        )
        key_tabs = {user: kdc.key_tab(user) for user in ("ann", "bob/ferry")}
        try:
            start_all([source, target])
            yield Realm(kdc, source, target, key_tabs)
        finally:
            source.wipe()
            target.wipe()


@pytest.mark.parametrize("suffix", [".yaml", ".properties"])
def test_two_principals_copy_in_one_process(
    suffix: str, folder: Path, realm: Realm, unique: Unique, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    topic = filled(realm.source, unique("mirrored"))
    flow = secured_flow(folder, realm.from_source, realm.to_target, topic, suffix)

    assert failures(copy_now(flow)) == []

    assert_same(realm.source, topic, realm.target, remote(flow, topic))
    keys = realm.key_tabs["ann"].read_bytes()
    assert all(keys not in content for content in contents(folder / "state"))


def test_a_whole_run_is_proved_and_shows_no_key(folder: Path, realm: Realm, unique: Unique) -> None:
    """Ledger, groups, ACLs and MirrorMaker 2's topics go over the data plane's connections too."""
    topic, group = filled(realm.source, unique("whole")), unique("readers")
    commit_alone(realm.source, group, {TopicPartition(topic, 0): 3})
    extra = {
        "groups": [group],
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.enabled": "true",
    }
    flow = secured_flow(folder, realm.from_source, realm.to_target, topic, extra=extra)

    # A JVM that an earlier test has started would not know where the KDC is.
    ran = ferry_process("run", "--config", flow.file)

    assert ran.returncode == 0, ran.stderr
    assert_same(realm.source, topic, realm.target, remote(flow, topic))
    checkpoints = read_all(realm.target.bootstrap, f"{folder.name}.checkpoints.internal")[0]
    assert [group.encode() in (it.key or b"") for it in checkpoints] == [True]
    shown = f"{flow!r}{flow.model_dump_json()}{ran.stdout}{ran.stderr}".encode()
    for key_tab in realm.key_tabs.values():
        keys = key_tab.read_bytes()
        for content in (shown, *contents(folder / "state")):
            assert keys not in content
            assert base64.b64encode(keys) not in content


def test_tasks_on_other_machines_need_no_key_tab(realm: Realm) -> None:
    key_tab = realm.kdc.key_tab("far")
    way = realm.from_source | {"sasl.jaas.config": realm.login("far", key_tab=key_tab)}
    cluster = Cluster(alias="primary", properties=way).resolve()
    key_tab.unlink()
    with connect(cluster) as wire:
        assert wire.nodes() == [1]
    assert str(key_tab) not in repr(cluster)


@pytest.mark.long
def test_a_connection_outlives_its_sessions_and_its_tickets(realm: Realm) -> None:
    key_tab = realm.kdc.key_tab("brief")
    realm.kdc.administer("modify_principal -maxlife 3s brief")
    way = realm.from_source | {"sasl.jaas.config": realm.login("brief", key_tab=key_tab)}
    host, _, port = realm.source.secured.partition(":")
    connection = Connection(host, int(port), kafka_python_config(way))
    tickets = realm.kdc.issued("brief")
    until = time.monotonic() + 3 * SESSION_S
    while time.monotonic() < until:
        assert connection.call(MetadataRequest(topics=[])).brokers
        time.sleep(0.1)
    connection.close()
    assert realm.kdc.issued("brief") >= tickets + 2


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"principal": "zed"}, AccessDenied, "holds no key of zed@FERRY.TEST"),
        (
            {"key_tab": "/nowhere/ann.keytab"},
            ConfigError,
            "keyTab /nowhere/ann.keytab cannot be read",
        ),
        ({"service": "nosuch"}, AccessDenied, "no Kerberos ticket for nosuch/localhost"),
    ],
    ids=["principal", "key tab", "service"],
)
def test_what_is_wrong_is_told_with_what_to_do(
    change: dict[str, str], kind: type[FerryError], said: str, realm: Realm
) -> None:
    way = realm.way(realm.source, "ann", change.get("service", "kafka"))
    way["sasl.jaas.config"] = realm.login(
        change.get("principal", "ann"), key_tab=change.get("key_tab", realm.key_tabs["ann"])
    )
    with pytest.raises(kind) as raised:
        ask(way)
    assert said in str(raised.value)
    assert raised.value.advice or kind is ConfigError


def ask(way: dict[str, str]) -> None:
    """Logs in on a new connection."""
    with WireCluster("primary", kafka_python_config(way)) as wire:
        wire.nodes()


def test_a_principal_that_the_kdc_no_longer_knows_is_told(realm: Realm) -> None:
    key_tab = realm.kdc.key_tab("gone")
    realm.kdc.administer("delete_principal -force gone")
    way = realm.from_source | {"sasl.jaas.config": realm.login("gone", key_tab=key_tab)}
    with pytest.raises(AccessDenied, match=r"'gone@FERRY\.TEST' not found in Kerberos database"):
        ask(way)


def test_an_old_key_tab_is_told(realm: Realm) -> None:
    key_tab = realm.kdc.key_tab("old")
    old = key_tab.read_bytes()
    realm.kdc.key_tab("old")
    key_tab.write_bytes(old)
    way = realm.from_source | {"sasl.jaas.config": realm.login("old", key_tab=key_tab)}
    with pytest.raises(AccessDenied, match="make a new one"):
        ask(way)


def test_a_kdc_that_is_down_is_waited_for(realm: Realm) -> None:
    key_tab = realm.kdc.key_tab("new")
    way = realm.from_source | {"sasl.jaas.config": realm.login("new", key_tab=key_tab)}
    realm.kdc.stop()
    try:
        with pytest.raises(ClusterUnreachable, match="Cannot contact any KDC"):
            ask(way)
    finally:
        realm.kdc.start()
    ask(way)


def test_a_broker_with_an_old_key_is_told(realm: Realm) -> None:
    broker, user = realm.source, "late"
    key_tab = realm.kdc.key_tab(user)
    way = realm.from_source | {"sasl.jaas.config": realm.login(user, key_tab=key_tab)}
    realm.kdc.administer(f"change_password -randkey {broker.principal}")
    try:
        with pytest.raises(AccessDenied, match=r"refused the login.* key tab has its current key"):
            ask(way)
    finally:
        realm.kdc.administer(f"ktadd -norandkey -k {broker.key_tab} {broker.principal}")
    ask(way)


def test_a_broker_without_a_rule_for_the_principal_is_told(realm: Realm) -> None:
    with pytest.raises(ClusterUnreachable, match=r"after the login of ann@FERRY\.TEST") as raised:
        ask(realm.way(realm.target, "ann", "bus"))
    assert "sasl.kerberos.principal.to.local.rules" in raised.value.advice
    ask(realm.to_target)


def test_tickets_of_a_cache_are_used(realm: Realm, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    options = f'useTicketCache=true ticketCache="{cache}" principal="ann@{REALM}"'
    way = realm.from_source | {"sasl.jaas.config": f"{MODULE} required {options};"}
    with pytest.raises(AccessDenied, match=f"{cache} holds no valid tickets of ann@FERRY.TEST"):
        ask(way)

    kinit(realm, "ann", cache)
    ask(way)
    kinit(realm, "bob/ferry", cache)
    with pytest.raises(AccessDenied, match=f"{cache} holds no valid tickets of ann@FERRY.TEST"):
        ask(way)


@pytest.mark.parametrize("is_default", [True, False])
def test_tickets_that_another_user_has_put_there_let_nobody_in(
    is_default: bool, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default cache lies in a folder for all users, where kinit may not have made it yet."""
    cache = tmp_path / "krb5cc_1000"
    kinit(realm, "ann", cache)
    if os.geteuid() == 0:
        os.chown(cache, 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setenv("KRB5CCNAME", str(cache))
    options = "useTicketCache=true" if is_default else f'useTicketCache=true ticketCache="{cache}"'
    way = realm.from_source | {"sasl.jaas.config": f"{MODULE} required {options};"}
    with pytest.raises(AccessDenied, match="holds no valid tickets: it belongs to another user"):
        ask(way)

    key = f'useKeyTab=true keyTab="{realm.key_tabs["ann"]}" principal="ann@{REALM}"'
    tickets = realm.kdc.issued("ann")
    ask(way | {"sasl.jaas.config": f"{MODULE} required {options} {key};"})
    assert realm.kdc.issued("ann") > tickets


def test_expired_tickets_are_told_and_a_key_tab_takes_their_place(
    realm: Realm, tmp_path: Path
) -> None:
    cache = tmp_path / "tickets"
    options = f'useTicketCache=true ticketCache="{cache}"'
    way = realm.from_source | {"sasl.jaas.config": f"{MODULE} required {options};"}
    kinit(realm, "ann", cache, "-l", "2s")
    ask(way)
    time.sleep(2.5)

    with pytest.raises(AccessDenied, match=f"{cache} holds no valid tickets") as raised:
        ask(way)
    assert "kinit" in raised.value.advice
    both = f'{options} useKeyTab=true keyTab="{realm.key_tabs["ann"]}" principal="ann@{REALM}"'
    ask(way | {"sasl.jaas.config": f"{MODULE} required {both};"})


def kinit(realm: Realm, user: str, cache: Path, *options: str) -> None:
    command = ["kinit", "-k", "-t", str(realm.key_tabs[user]), "-c", str(cache), *options, user]
    subprocess.run(command, check=True, capture_output=True)
