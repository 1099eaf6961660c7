"""Stores of every kind become the same PEM text; whatever is wrong with one is told without its secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from kafka_ferry.config.client.keystores import (
    key_pair,
    trusted_certificates,
    without_stores,
    wrong_stores,
)
from kafka_ferry.config.client.pem import KeyPair
from kafka_ferry.errors import ConfigError
from kafka_sandbox.logins.secure import Authority, Identity
from tests.support.brokers.secure import KINDS, PASSWORD, key_store, keytool, trust_store

FILE = "flow.yaml: primary"
WRONG = "wr0ng-password"


@pytest.fixture(scope="module")
def stores(
    tmp_path_factory: pytest.TempPathFactory, root: Authority, identity: Identity
) -> dict[str, dict[str, str]]:
    """By kind, the properties of a key store and a trust store."""
    folder = tmp_path_factory.mktemp("stores")
    return {
        kind: key_store(kind, folder, identity) | trust_store(kind, folder, root) for kind in KINDS
    }


def problem_of(properties: dict[str, str], *secrets: str) -> ConfigError:
    """What is wrong with the stores; no secret is in it."""
    with pytest.raises(ConfigError) as caught:
        trusted_certificates(properties, FILE)
        key_pair(properties, FILE)
    assert caught.value.file == FILE
    for secret in (PASSWORD, WRONG, *secrets):
        assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def expected(identity: Identity) -> KeyPair:
    return KeyPair(identity.key_pem, identity.chain_pem)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_store_becomes_the_same_text(
    stores: dict[str, dict[str, str]], kind: str, root: Authority, identity: Identity
) -> None:
    assert trusted_certificates(stores[kind], FILE) == root.pem
    assert key_pair(stores[kind], FILE) == expected(identity)
    assert identity.key_pem not in repr(key_pair(stores[kind], FILE))


@pytest.mark.parametrize("called", ["JKS", "PKCS12", None])
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_jks_and_pkcs12_are_told_apart_by_what_the_file_holds(
    stores: dict[str, dict[str, str]], kind: str, called: str | None, identity: Identity
) -> None:
    properties = {k: v for k, v in stores[kind].items() if not k.endswith(".type")}
    if called:
        properties |= {"ssl.keystore.type": called, "ssl.truststore.type": called.lower()}

    assert key_pair(properties, FILE) == expected(identity)
    assert trusted_certificates(properties, FILE)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_wrong_password_is_named_with_its_store(
    stores: dict[str, dict[str, str]], kind: str, store: str
) -> None:
    error = problem_of(stores[kind] | {f"ssl.{store}.password": WRONG})

    assert error.key == f"ssl.{store}.password"
    assert stores[kind][f"ssl.{store}.location"] in error.reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_missing_file_is_named(stores: dict[str, dict[str, str]], kind: str, store: str) -> None:
    error = problem_of(stores[kind] | {f"ssl.{store}.location": "/nowhere/store"})

    assert error.key == f"ssl.{store}.location"
    assert "/nowhere/store cannot be read: No such file or directory" in str(error)


@pytest.mark.parametrize(
    ("kind", "called", "key", "reason"),
    [
        ("PEM", "JKS", "ssl.truststore.type", "is JKS, but .* is PEM"),
        ("JKS", "PEM", "ssl.truststore.type", "is PEM, but .* is not PEM"),
        ("PKCS12", "BCFKS", "ssl.truststore.type", "must be one of PEM, PKCS12, JKS"),
    ],
)
def test_a_store_of_another_type_is_named(
    stores: dict[str, dict[str, str]], kind: str, called: str, key: str, reason: str
) -> None:
    error = problem_of(stores[kind] | {"ssl.truststore.type": called})

    assert error.key == key
    assert re.search(reason, error.reason)


def test_what_shows_without_a_password_is_named_and_nothing_else(
    stores: dict[str, dict[str, str]],
) -> None:
    for kind in KINDS:
        assert [*wrong_stores(stores[kind] | {"ssl.keystore.password": "${env:X}"})] == []
    untyped = {key: it for key, it in stores["PEM"].items() if "truststore.type" not in key}
    (wrong,) = wrong_stores(untyped)
    assert wrong.key == "ssl.truststore.type"
    assert wrong.reason.startswith("is not given, which means JKS, but /")
    assert wrong.advice == "Write ssl.truststore.type: PEM"
    for location in ("/nowhere/store", "${env:STORE}"):
        assert [*wrong_stores(untyped | {"ssl.truststore.location": location})] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_store_is_named(kind: str, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.write_text("-----BEGIN NOTHING-----" if kind == "PEM" else "nothing")

    for store in ("truststore", "keystore"):
        error = problem_of({f"ssl.{store}.type": kind, f"ssl.{store}.location": str(nothing)})
        assert error.key == f"ssl.{store}.location"
        assert str(nothing) in error.reason


def test_a_trust_store_that_is_damaged_is_named(
    stores: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    for kind in ("JKS", "PKCS12"):
        cut = tmp_path / kind
        cut.write_bytes(Path(stores[kind]["ssl.truststore.location"]).read_bytes()[:-40])
        error = problem_of(stores[kind] | {"ssl.truststore.location": str(cut)})
        assert str(cut) in error.reason


def test_the_key_of_a_jks_store_may_have_a_password_of_its_own(
    tmp_path: Path, identity: Identity
) -> None:
    properties = key_store("JKS", tmp_path, identity)
    new = tmp_path / "new"
    new.write_text("k3y-password")
    keytool(
        *("-keypasswd", "-alias", "ferry", "-keystore", properties["ssl.keystore.location"]),
        *("-storepass:file", "PASSWORD", "-keypass:file", "PASSWORD", "-new:file", str(new)),
        folder=tmp_path,
    )

    assert key_pair(properties | {"ssl.key.password": "k3y-password"}, FILE) == expected(identity)
    assert problem_of(properties).key == "ssl.keystore.password"
    assert problem_of(properties | {"ssl.key.password": WRONG}).key == "ssl.key.password"


@pytest.mark.parametrize("where", ["file", "configuration"])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_pem_key_is_unlocked(
    where: str, form: PrivateFormat, tmp_path: Path, identity: Identity
) -> None:
    locked = identity.key.private_bytes(
        Encoding.PEM, form, BestAvailableEncryption(PASSWORD.encode())
    ).decode()
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": locked,
        "ssl.keystore.certificate.chain": identity.chain_pem,
    }
    if where == "file":
        file = tmp_path / "keys.pem"
        file.write_text(locked + identity.chain_pem)
        properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}

    unlocked = key_pair(properties | {"ssl.key.password": PASSWORD}, FILE)

    assert unlocked == expected(identity)
    for password in (WRONG, ""):
        error = problem_of(properties | {"ssl.key.password": password})
        assert error.key == "ssl.key.password"


def test_a_key_that_is_not_encrypted_needs_no_password(identity: Identity) -> None:
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem,
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.key.password": "of no use",
    }
    assert key_pair(properties, FILE) == expected(identity)


def test_pem_may_stand_on_one_line(root: Authority, identity: Identity) -> None:
    def line(pem: str) -> str:
        return " ".join(pem.split("\n"))

    properties = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": line(root.pem * 2),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": line(identity.key_pem),
        "ssl.keystore.certificate.chain": line(identity.chain_pem),
    }
    assert trusted_certificates(properties, FILE) == root.pem
    assert key_pair(properties, FILE) == expected(identity)


@pytest.mark.parametrize("given", ["ssl.keystore.key", "ssl.keystore.certificate.chain"])
def test_a_key_and_its_certificates_go_together(given: str) -> None:
    error = problem_of({"ssl.keystore.type": "PEM", given: WRONG})
    assert "go together" in error.reason


def test_a_key_needs_a_certificate_of_its_own(root: Authority, identity: Identity) -> None:
    error = problem_of(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": identity.key_pem,
            "ssl.keystore.certificate.chain": root.pem,
        }
    )
    assert error.key == "ssl.keystore.certificate.chain"
    assert "holds no certificate of its private key" in error.reason


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ssl.truststore.certificates", WRONG, "holds no certificate"),
        (
            "ssl.truststore.certificates",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "cannot be read",
        ),
    ],
)
def test_text_that_is_no_certificate_is_refused(key: str, value: str, reason: str) -> None:
    error = problem_of({"ssl.truststore.type": "PEM", key: value}, "AAAA")
    assert error.key == key
    assert reason in error.reason


def test_text_in_the_configuration_must_be_called_pem(root: Authority) -> None:
    error = problem_of({"ssl.truststore.certificates": root.pem})
    assert error.key == "ssl.truststore.type"
    assert "must be PEM" in error.reason


def test_a_key_stores_own_certificates_are_no_reason_for_an_error_as_trust_store(
    tmp_path: Path, identity: Identity
) -> None:
    for kind in ("JKS", "PKCS12"):
        folder = tmp_path / kind
        folder.mkdir()
        keys = key_store(kind, folder, identity)
        found = trusted_certificates(
            {name.replace("keystore", "truststore"): value for name, value in keys.items()}, FILE
        )
        assert found
        assert found.startswith(identity.chain_pem[:200])


def test_a_store_without_a_key_is_no_key_store(stores: dict[str, dict[str, str]]) -> None:
    for kind in KINDS:
        trust = {k: v for k, v in stores[kind].items() if "truststore" in k}
        error = problem_of({k.replace("truststore", "keystore"): v for k, v in trust.items()})
        assert error.key == "ssl.keystore.location"
        assert "holds no private key" in error.reason


def test_a_pkcs12_file_as_java_8_wrote_it_is_read(tmp_path: Path, identity: Identity) -> None:
    (tmp_path / "new").mkdir()
    new = key_store("PKCS12", tmp_path / "new", identity)["ssl.keystore.location"]
    old = tmp_path / "old.p12"
    keytool(
        *("-J-Dkeystore.pkcs12.legacy", "-importkeystore", "-srckeystore", new),
        *("-srcstorepass:file", "PASSWORD", "-destkeystore", str(old), "-deststoretype", "PKCS12"),
        *("-deststorepass:file", "PASSWORD"),
        folder=tmp_path,
    )
    properties = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(old),
        "ssl.keystore.password": PASSWORD,
    }
    assert key_pair(properties, FILE) == expected(identity)


def test_a_store_that_another_tool_wrote_is_trusted_whole(
    tmp_path: Path, root: Authority, identity: Identity
) -> None:
    """OpenSSL writes certificates without Java's mark of trust."""
    file = tmp_path / "trust.p12"
    lock = BestAvailableEncryption(PASSWORD.encode())
    certificates = [root.identity.certificate, *identity.issuers]
    file.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, certificates, lock))
    found = trusted_certificates(
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(file),
            "ssl.truststore.password": PASSWORD,
        },
        FILE,
    )
    assert found is not None
    assert found.count("BEGIN CERTIFICATE") == 2


def test_stores_are_replaced_by_what_is_in_them(
    stores: dict[str, dict[str, str]], root: Authority, identity: Identity
) -> None:
    properties = {"security.protocol": "ssl", "client.id": "x", **stores["JKS"]}

    whole = without_stores(properties, FILE)

    assert whole == {
        "security.protocol": "ssl",
        "client.id": "x",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": root.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem,
        "ssl.keystore.certificate.chain": identity.chain_pem,
    }
    assert key_pair(whole, FILE) == key_pair(properties, FILE)


def test_stores_that_are_not_used_are_not_read() -> None:
    properties = {"ssl.truststore.location": "/nowhere", "security.protocol": "SASL_PLAINTEXT"}
    assert without_stores(properties, FILE) == {"security.protocol": "SASL_PLAINTEXT"}
