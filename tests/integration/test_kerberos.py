"""Getting in with Kerberos: a real MIT KDC, and two clusters with a principal and a key tab each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_sandbox.cluster import start_all
from kafka_sandbox.kdc import REALM, Kdc, KerberosBroker, missing_tools
from tests.support.flows import assert_same, copy_now, failures, remote

from .test_secure import contents, filled, secured_flow

pytest.importorskip("gssapi", reason="the extra kerberos is not installed (pip install gssapi)")
pytestmark = pytest.mark.skipif(
    bool(missing_tools()),
    reason="no KDC here: apt-get install krb5-kdc krb5-admin-server, as .ci/run does",
)

Unique = Callable[[str], str]
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
                "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1_at_$2](.*_at_ferry),DEFAULT",
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
