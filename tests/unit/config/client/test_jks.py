"""Java's own store format, as the JDK's keytool writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config.client.jks import JksError, WrongPassword, read_jks
from kafka_sandbox.logins.secure import Authority, Identity
from tests.support.brokers.secure import PASSWORD, key_store, keytool, trust_store

KEY_PASSWORD = "another-5ecret"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, identity: Identity) -> Path:
    """A store whose key has a password of its own."""
    folder = tmp_path_factory.mktemp("keys")
    file = Path(key_store("JKS", folder, identity)["ssl.keystore.location"])
    new = folder / "new"
    new.write_text(KEY_PASSWORD)
    keytool(
        *("-keypasswd", "-alias", "ferry", "-keystore", str(file), "-storepass:file", "PASSWORD"),
        *("-keypass:file", "PASSWORD", "-new:file", str(new)),
        folder=folder,
    )
    return file


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def test_a_key_and_its_certificates_come_out_as_they_went_in(
    keys: Path, identity: Identity
) -> None:
    (entry,) = read_jks(keys.read_bytes(), PASSWORD)

    key = load_der_private_key(entry.key(KEY_PASSWORD), None)

    assert key == identity.key or key.private_numbers() == identity.key.private_numbers()  # type: ignore[union-attr]
    assert entry.certificates == (der(identity.certificate), *map(der, identity.issuers))
    assert repr(entry) == "JksEntry(key)"


def test_trusted_certificates_need_no_password(tmp_path: Path, root: Authority) -> None:
    file = Path(trust_store("JKS", tmp_path, root)["ssl.truststore.location"])

    for password in (None, PASSWORD):
        (entry,) = read_jks(file.read_bytes(), password)
        assert entry.certificates == (der(root.identity.certificate),)
        assert entry.locked_key is None


def test_the_stores_and_the_keys_password_are_two(keys: Path) -> None:
    with pytest.raises(WrongPassword):
        read_jks(keys.read_bytes(), KEY_PASSWORD)
    (entry,) = read_jks(keys.read_bytes(), PASSWORD)
    with pytest.raises(WrongPassword):
        entry.key(PASSWORD)


def test_a_store_that_was_changed_does_not_open(keys: Path) -> None:
    data = bytearray(keys.read_bytes())
    data[len(data) // 2] ^= 1

    with pytest.raises(WrongPassword, match="was changed"):
        read_jks(bytes(data), PASSWORD)


@given(at=st.floats(0, 1), cut=st.booleans(), byte=st.integers(0, 255))
def test_no_bytes_are_another_error(keys: Path, at: float, cut: bool, byte: int) -> None:
    data = bytearray(keys.read_bytes())
    place = int(at * (len(data) - 1))
    if cut:
        del data[place:]
    else:
        data[place] = byte
    try:
        for entry in read_jks(bytes(data), None):
            if entry.locked_key is not None:
                entry.key(KEY_PASSWORD)
    except JksError as error:
        assert str(error)
