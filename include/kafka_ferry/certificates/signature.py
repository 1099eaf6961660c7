"""Ed25519 signatures (RFC 8032) of certificates, and the keys in PEM files."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import BaseModel, ConfigDict

from kafka_ferry.errors import InputError

_PEM = re.compile(rb"-----BEGIN [^-]+-----.*?-----END [^-]+-----", re.DOTALL)
_MAKE = "Make one with openssl genpkey -algorithm ed25519"


class Signature(BaseModel):
    """A signature of a certificate's first line.

    Attributes:
        algorithm: always ``Ed25519``.
        key: ``key_id`` of the public key.
        value: the signature's 64 bytes in Base64.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    algorithm: str
    key: str
    value: str

    def is_of(self, key: Ed25519PublicKey, message: bytes) -> bool:
        """Whether the owner of ``key`` has signed ``message``."""
        if self.key != key_id(key):
            return False
        try:
            value = base64.b64decode(self.value, validate=True)
            key.verify(value, message)
        except (InvalidSignature, binascii.Error):
            return False
        # Base64 has several forms of the same bytes.
        is_canonical = base64.b64encode(value).decode() == self.value
        return is_canonical and self.algorithm == "Ed25519"


def sign_message(key: Ed25519PrivateKey, message: bytes) -> Signature:
    """The signature of ``message``."""
    value = base64.b64encode(key.sign(message)).decode()
    return Signature(algorithm="Ed25519", key=key_id(key.public_key()), value=value)


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the key's DER form (SubjectPublicKeyInfo, RFC 8410), 64 hexadecimal digits."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def private_key(pem: str, at: str) -> Ed25519PrivateKey:
    """The private key in a PEM text (PKCS#8, without a password).

    Args:
        pem: the text.
        at: where it came from, for errors, which never hold any of it.

    Raises:
        InputError: if it is no such key.
    """
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{at} is not a private Ed25519 key in PEM, without a password", advice=f"{_MAKE}."
        )
    return key


def public_pem(pem: str, at: str) -> bytes:
    """The PEM of the public key of a private key; arguments and errors as of ``private_key``."""
    key = private_key(pem, at).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public_keys(pem: bytes, at: str) -> tuple[Ed25519PublicKey, ...]:
    """The public keys in a PEM text, in its order, one at least; arguments and errors as of ``private_key``."""
    try:
        keys = [load_pem_public_key(one) for one in _PEM.findall(pem)]
    except (ValueError, UnsupportedAlgorithm):
        keys = []
    public_keys = tuple(key for key in keys if isinstance(key, Ed25519PublicKey))
    if not public_keys or len(public_keys) < len(keys):
        advice = "Get it from the private key with openssl pkey -pubout."
        raise InputError(f"{at} is not a public Ed25519 key in PEM", advice=advice)
    return public_keys
