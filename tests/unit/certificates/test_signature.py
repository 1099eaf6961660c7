"""Keys and signatures."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kafka_ferry.certificates.signature import Signature, private_key, public_keys, sign_message
from kafka_ferry.errors import FerryError
from tests.unit.certificates.builders import KEY

PKCS8 = (Encoding.PEM, PrivateFormat.PKCS8)
PRIVATE = KEY.private_bytes(*PKCS8, NoEncryption()).decode()
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_signature_is_of_one_key_and_one_message() -> None:
    signature = sign_message(private_key(PRIVATE, "a file"), b"message")
    other = Ed25519PrivateKey.generate().public_key()

    assert all(signature.is_of(key, b"message") for key in public_keys(PUBLIC * 2, "a file"))
    assert not signature.is_of(KEY.public_key(), b"another message")
    assert not signature.is_of(other, b"message")
    assert not signature.model_copy(update={"key": "another"}).is_of(KEY.public_key(), b"message")
    assert not Signature(algorithm="Ed25519", key=signature.key, value="no Base64!").is_of(
        KEY.public_key(), b"message"
    )


@pytest.mark.parametrize(
    "pem",
    [
        "a secret that is no key",
        PUBLIC.decode(),
        KEY.private_bytes(*PKCS8, BestAvailableEncryption(b"password")).decode(),
        generate_private_key(65537, 2048).private_bytes(*PKCS8, NoEncryption()).decode(),
    ],
    ids=["no PEM", "a public key", "with a password", "RSA"],
)
def test_a_private_key_of_another_kind_is_refused_without_showing_it(pem: str) -> None:
    with pytest.raises(FerryError, match="is not a private Ed25519 key") as raised:
        private_key(pem, "signing.pem")

    assert "signing.pem" in str(raised.value)
    assert pem.splitlines()[-1] not in str(raised.value)
    assert pem.splitlines()[0] not in str(raised.value)


def test_a_public_key_of_another_kind_is_refused() -> None:
    for pem in (PRIVATE.encode(), b"", PUBLIC + PRIVATE.encode()):
        with pytest.raises(FerryError, match=r"public\.pem is not a public Ed25519 key"):
            public_keys(pem, "public.pem")
