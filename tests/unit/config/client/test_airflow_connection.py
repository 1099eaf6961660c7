"""What Airflow's Kafka connections say, in the Java dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config.client.airflow_connection import connection_properties, connection_variable
from kafka_ferry.config.client.assertion import PRIVATE_KEY, TEMPLATE, Assertion
from kafka_ferry.config.client.jaas import jaas_config, parse_login
from kafka_ferry.config.client.kerberos import KerberosLogin, kerberos_login
from kafka_ferry.config.client.login_values import LoginFile
from kafka_ferry.config.client.oauth import OAuthLogin, oauth_login
from kafka_ferry.errors import ConfigError

SERVERS = {"bootstrap.servers": "a:1,b:2"}
SECRET = "5ecret;\"\\'=, \n"


def translated(monkeypatch: pytest.MonkeyPatch, extra: Any) -> dict[str, str]:
    text = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", text)
    return connection_properties("my_kafka", "f.yaml: primary")


def problem(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", text)
    with pytest.raises(ConfigError) as caught:
        connection_properties("my_kafka", "f.yaml: primary")
    assert (caught.value.file, caught.value.key) == ("f.yaml: primary", "airflow.connection")
    assert "'my_kafka'" in caught.value.reason
    return str(caught.value)


OAUTH = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "ann",
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.scope": "all",
    "sasl.oauthbearer.token.endpoint.url": "https://id/token",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2",
    "https.ca.pem": "CA",
}


def test_librdkafkas_oidc_settings_are_a_login_with_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login = oauth_login(translated(monkeypatch, OAUTH), "f.yaml")
    assert login == OAuthLogin(
        "https://id/token",
        "ann",
        SECRET.strip(),
        "all",
        (("identityPoolId", "pool-2"), ("logicalCluster", "lkc-1")),
        tls=(("ssl.truststore.certificates", "CA"), ("ssl.truststore.type", "PEM")),
    )


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, KerberosLogin("f.yaml", "kafka", uses_cache=True)),
        (
            {
                "sasl.kerberos.service.name": "bus",
                "sasl.kerberos.keytab": "/k",
                "sasl.kerberos.principal": "ann@R",
            },
            KerberosLogin("f.yaml", "bus", "ann@R", "/k"),
        ),
        (
            {
                "sasl.jaas.config": "x.Krb5LoginModule required useTicketCache=true ticketCache='/c';",
            },
            KerberosLogin("f.yaml", "kafka", uses_cache=True, cache="/c"),
        ),
    ],
)
def test_librdkafkas_kerberos_settings_are_a_login(
    extra: dict[str, str], expected: KerberosLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = translated(monkeypatch, {"sasl.mechanism": "GSSAPI", **extra})
    assert kerberos_login(found, "f.yaml") == expected


def test_javas_names_are_taken_too(monkeypatch: pytest.MonkeyPatch) -> None:
    java = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        "sasl.oauthbearer.client.credentials.client.id": "ann",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
        "sasl.login.read.timeout.ms": "1000",
    }
    login = oauth_login(translated(monkeypatch, java), "f.yaml")
    assert login == OAuthLogin("https://id/token", "ann", "secret", read_s=1)


def test_librdkafkas_assertions_are_javas_and_its_key_may_be_in_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = "sasl.oauthbearer.assertion"
    extra = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        f"{at}.algorithm": "ES256",
        f"{at}.private.key.pem": SECRET,
        f"{at}.jwt.template.file": "/template.json",
        f"{at}.claim.aud": "id",
        f"{at}.claim.jti.include": True,
    }
    login = oauth_login(translated(monkeypatch, extra), "f.yaml")
    assert login.is_jwt_bearer
    assert login.assertion == Assertion(
        key=LoginFile("", PRIVATE_KEY, SECRET),
        algorithm="ES256",
        claims=(("aud", "id"),),
        template=LoginFile("/template.json", TEMPLATE),
        has_id=True,
    )
    assert login.assertion.key.read("f.yaml") == SECRET
    assert SECRET not in repr(login.assertion)


def test_another_grant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = OAUTH | {"sasl.oauthbearer.grant.type": "jwt-bearer"}
    said = problem(monkeypatch, json.dumps({"conn_type": "kafka", "extra": extra}))
    assert "jwt-bearer is not supported" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("extra", "properties"),
    [
        (SERVERS, SERVERS),
        ({"metadata.broker.list": "a:1"}, {"bootstrap.servers": "a:1"}),
        ({"security.protocol": "sasl_ssl"}, {"security.protocol": "SASL_SSL"}),
        ({"sasl.mechanisms": "PLAIN"}, {"sasl.mechanism": "PLAIN"}),
        (
            {"ssl.ca.location": "/ca.pem"},
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
        ),
        (
            {"ssl.ca.pem": "CA", "ssl.ca.location": "/ca.pem"},
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "CA"},
        ),
        ({"ssl.ca.location": "probe"}, {}),
        (
            {"ssl.certificate.pem": "CHAIN", "ssl.key.pem": "KEY", "ssl.key.password": "pw"},
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "CHAIN",
                "ssl.keystore.key": "KEY",
                "ssl.key.password": "pw",
            },
        ),
        (
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "pw"},
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/k.p12",
                "ssl.keystore.password": "pw",
            },
        ),
        (
            {"ssl.endpoint.identification.algorithm": "none"},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        ({"enable.ssl.certificate.verification": True}, {}),
        # What only the provider's own hooks need.
        ({"group.id": "g", "auto.offset.reset": "latest", "error_cb": "a.b"}, {}),
    ],
)
def test_each_name_of_librdkafkas_has_its_java_name(
    extra: dict[str, Any], properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert translated(monkeypatch, extra) == properties
    # Airflow stores an extra as text.
    assert translated(monkeypatch, json.dumps(extra)) == properties


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "PlainLoginModule"),
        ("SCRAM-SHA-256", "ScramLoginModule"),
        ("SCRAM-SHA-512", "ScramLoginModule"),
    ],
)
def test_a_login_becomes_a_jaas_config(
    mechanism: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": SECRET}
    login = parse_login(translated(monkeypatch, extra)["sasl.jaas.config"])
    assert login.module.endswith(module)
    assert login.options == {"username": "ann", "password": SECRET}


@given(st.text(), st.text())
def test_any_name_and_password_survive_a_jaas_config(username: str, password: str) -> None:
    login = parse_login(jaas_config("PLAIN", username, password))
    assert login.options == {"username": username, "password": password}


def test_keys_in_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("key", "certificate"):
        (tmp_path / name).write_text(name.upper())
    extra = {f"ssl.{name}.location": str(tmp_path / name) for name in ("key", "certificate")}
    assert translated(monkeypatch, extra) == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.certificate.chain": "CERTIFICATE",
    }


def test_a_folder_of_certificates_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.pem", "a.pem", "notes.txt"):
        (tmp_path / name).write_text(f"{name} ")
    found = translated(monkeypatch, {"ssl.ca.location": str(tmp_path)})
    assert found["ssl.truststore.certificates"] == "a.pem b.pem "


@pytest.mark.parametrize(
    "uri",
    [
        f"kafka://?{urlencode({**SERVERS, 'security.protocol': 'SSL'})}",
        f"kafka:///?__extra__={quote(json.dumps({**SERVERS, 'security.protocol': 'SSL'}))}",
    ],
)
def test_a_connection_may_be_a_uri(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", uri)
    found = connection_properties("my_kafka", "f.yaml")
    assert found == {**SERVERS, "security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not known. Create it in Airflow, or set AIRFLOW_CONN_MY_KAFKA"),
        ("5ecret", "neither as JSON nor as a URI"),
        ('{"5ecret', "neither as JSON nor as a URI"),
        ('{"conn_type": "kafka", "extra": "5ecret"}', "neither as JSON nor as a URI"),
        ('{"conn_type": "kafka", "extra": ["5ecret"]}', "neither as JSON nor as a URI"),
        ('{"conn_type": "http", "password": "5ecret"}', "is of the type http, not kafka"),
        ("postgres://u:5ecret@h/db", "is of the type postgres, not kafka"),
    ],
)
def test_what_is_no_kafka_connection_is_named_and_not_repeated(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = problem(monkeypatch, text)
    assert said in error
    assert "5ecret" not in error


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "is not supported"),
        ({"sasl.mechanism": "NTLM", "sasl.password": "5ecret"}, "NTLM is not supported"),
        ({"ssl.key.location": "/nowhere/key"}, "/nowhere/key, which cannot be read: No such file"),
    ],
)
def test_what_cannot_be_translated_is_an_error(
    extra: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = problem(monkeypatch, json.dumps({"conn_type": "kafka", "extra": extra}))
    assert said in error
    assert "5ecret" not in error


def test_the_variable_is_airflows() -> None:
    assert connection_variable("my_kafka") == "AIRFLOW_CONN_MY_KAFKA"
