"""Logins with Kerberos, as Krb5LoginModule's options and Kafka's properties describe them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kafka_ferry.config import Cluster, confluent_config, kafka_python_config
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.config.client.kerberos import (
    JAAS,
    KERBEROS_LOGIN,
    SERVICE_NAME,
    KerberosLogin,
    is_kerberos,
    kerberos_login,
)
from kafka_ferry.errors import ConfigError

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
BASE = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "GSSAPI",
    SERVICE_NAME: "kafka",
}
BY_KEY = 'useKeyTab=true keyTab="/k/ann.keytab" principal="ann/h@R"'
PLACE = "f.yaml: primary"


def login(options: str, **more: str) -> KerberosLogin:
    return kerberos_login(BASE | {JAAS: f"{MODULE} required {options};"} | more, PLACE)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Kafka's documentation, and MirrorMaker 2's users.
        (
            f"useKeyTab=true storeKey=true {BY_KEY}",
            KerberosLogin(PLACE, "kafka", "ann/h@R", "/k/ann.keytab"),
        ),
        (
            f"{BY_KEY} useTicketCache=false renewTGT=false doNotPrompt=true debug=true",
            KerberosLogin(PLACE, "kafka", "ann/h@R", "/k/ann.keytab"),
        ),
        (
            'useKeyTab=TRUE keyTab="file:/k/ann.keytab" principal="ann" serviceName="kafka"',
            KerberosLogin(PLACE, "kafka", "ann", "/k/ann.keytab"),
        ),
        ("useTicketCache=true", KerberosLogin(PLACE, "kafka", uses_cache=True)),
        (
            'useTicketCache=true ticketCache="FILE:/tmp/cc" principal=ann',
            KerberosLogin(PLACE, "kafka", "ann", uses_cache=True, cache="/tmp/cc"),
        ),
        (
            f"{BY_KEY} useTicketCache=true",
            KerberosLogin(PLACE, "kafka", "ann/h@R", "/k/ann.keytab", uses_cache=True),
        ),
        # Without useKeyTab, Java does not look at keyTab.
        (
            'useTicketCache=true keyTab="/k"',
            KerberosLogin(PLACE, "kafka", uses_cache=True),
        ),
    ],
)
def test_javas_options_are_read(options: str, expected: KerberosLogin) -> None:
    assert login(options) == expected


def test_kerberos_is_javas_default_where_there_is_a_login() -> None:
    assert is_kerberos({"security.protocol": "sasl_plaintext"})
    assert not is_kerberos({"security.protocol": "SSL"})
    assert not is_kerberos({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('useKeyTab=true principal="ann"', "needs keyTab and principal"),
        ('useKeyTab=true keyTab="/k"', "needs keyTab and principal"),
        ("useKeyTab=yes", "useKeyTab must be true or false"),
        ('keyTab="/k" principal="ann"', "or useTicketCache=true"),
        ('useTicketCache=true password="5ecret"', "password is not one of this login's options"),
    ],
)
def test_what_cannot_log_in_is_refused(options: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        login(options)
    assert (raised.value.file, raised.value.key) == (PLACE, JAAS)
    assert "5ecret" not in str(raised.value)


def test_another_login_module_and_none_are_refused() -> None:
    for given in ({}, {JAAS: "org.x.PlainLoginModule required username=a password=hunter2;"}):
        with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: .*(required|Krb5)") as raised:
            kerberos_login(BASE | given, PLACE)
        assert "hunter2" not in str(raised.value)


def test_the_service_is_named_once() -> None:
    assert login(f'{BY_KEY} serviceName="bus"', **{SERVICE_NAME: ""}).service == "bus"
    with pytest.raises(ConfigError, match="differs from serviceName"):
        login(f'{BY_KEY} serviceName="bus"')
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.service\.name: is required"):
        login(BY_KEY, **{SERVICE_NAME: ""})


def test_only_the_data_planes_client_gets_it() -> None:
    properties = ClientProperties(BASE | {JAAS: f"{MODULE} required {BY_KEY};"}, PLACE)
    settings = kafka_python_config(properties)
    assert settings["sasl_mechanism"] == "GSSAPI"
    assert settings[KERBEROS_LOGIN] == login(BY_KEY)
    with pytest.raises(ConfigError, match="librdkafka's packages lack"):
        confluent_config(properties, "admin")


def test_a_key_tab_travels_and_shows_nothing(tmp_path: Path) -> None:
    key_tab = tmp_path / "ann.keytab"
    key_tab.write_bytes(b"\x05\x02keys\xff")
    jaas = f'{MODULE} required useKeyTab=true keyTab="{key_tab}" principal="ann";'
    cluster = Cluster(alias="primary", properties=BASE | {JAAS: jaas})

    whole = cluster.resolve()
    again = whole.resolve()

    for found in (whole, again):
        carried = kerberos_login(found.client_properties("admin"), PLACE)
        assert carried.carried_keys() is None
        assert base64.b64encode(b"\x05\x02keys\xff").decode() not in f"{found!r}{carried!r}"
    key_tab.unlink()
    assert carried.carried_keys() == b"\x05\x02keys\xff"
    for ask in (cluster.resolve, kerberos_login(BASE | {JAAS: jaas}, PLACE).carried_keys):
        with pytest.raises(ConfigError, match=f"keyTab {key_tab} cannot be read: No such file"):
            ask()
