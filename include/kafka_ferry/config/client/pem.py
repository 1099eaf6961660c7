"""Keys and certificates in PEM, from files and from the configuration itself."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import regex
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from kafka_ferry.config.key_costs import MOST_KEY_BYTES, TooCostly, check_costs
from kafka_ferry.errors import FerryError

UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm)
"""The errors of ``cryptography`` for bytes that it cannot read, or not with that password."""

_BLOCK: Final = regex.compile(
    # What is between has no such mark: else each beginning without an end would be looked for in all of the text.
    r"-----BEGIN (?P<label>[A-Z0-9 ]{1,64})-----(?P<body>(?:[^-]|-(?!----))*+)-----END (?P=label)-----"
)
_LINE: Final = 64
_CERTIFICATES: Final = frozenset({"CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"})


class PemError(FerryError):
    """The text is invalid; the message repeats nothing of it."""


class LockedKey(PemError):
    """The private key does not open with the password, or needs one."""


class KeyPair(NamedTuple):
    """A client's identity: a private key and its certificates.

    Attributes:
        key: in PEM (PKCS #8), not encrypted.
        certificates: in PEM, the key's own first and each issuer after what it has issued.
    """

    key: str
    certificates: str

    def __repr__(self) -> str:
        return "KeyPair(...)"


def pem_certificates(text: str) -> list[x509.Certificate]:
    """All certificates in ``text``, in its order.

    Raises:
        PemError: one of them is damaged.
    """
    try:
        return [
            x509.load_pem_x509_certificate(_frame("CERTIFICATE", body).encode())
            for label, body in _blocks(text)
            if label in _CERTIFICATES
        ]
    except UNREADABLE:
        raise PemError("holds a certificate that cannot be read") from None


def pem_key(text: str, password: str | None) -> Any:
    """The first private key in ``text``; ``password`` counts where the key is encrypted.

    Raises:
        LockedKey: the key needs another password.
        PemError: there is no key, or it is damaged.
    """
    key_block = next((block for block in _blocks(text) if block[0].endswith("PRIVATE KEY")), None)
    if key_block is None:
        raise PemError("holds no private key in PEM")
    label, body = key_block
    _check_costs(body)
    locked = "ENCRYPTED" in label or "ENCRYPTED" in body
    if locked and not password:
        raise LockedKey("is required: the private key is encrypted")
    try:
        unlock = password.encode() if locked and password else None
        return load_pem_private_key(_frame(label, body).encode(), unlock)
    except UNREADABLE:
        if locked:
            raise LockedKey("does not open the private key") from None
        raise PemError("holds a private key that cannot be read") from None


def _check_costs(body: str) -> None:
    """Does nothing if a key can be opened in seconds.

    Raises:
        PemError: it cannot.
    """
    if len(body) > 2 * MOST_KEY_BYTES:
        raise PemError(f"holds a private key of more than {MOST_KEY_BYTES:,} bytes")
    # Headers, which an older kind of encryption has, know one iteration.
    if ":" not in body:
        try:
            der = base64.b64decode("".join(body.split()), validate=True)
        except ValueError:
            return
        try:
            check_costs(der)
        except TooCostly as error:
            raise PemError(f"holds a private key that {error}") from None


def as_pem(certificates: Iterable[x509.Certificate]) -> str:
    """The certificates as text, none of them twice."""
    return "".join(dict.fromkeys(c.public_bytes(Encoding.PEM).decode() for c in certificates))


def key_pair_of(key: Any, certificates: Sequence[x509.Certificate]) -> KeyPair:
    """The key with its own certificate and that one's issuers, as far as they are in ``certificates``.

    Raises:
        PemError: none of them is the key's own, or the key of one cannot be read.
    """
    chain = [certificate for certificate in certificates if _public(certificate) == _public(key)][
        :1
    ]
    if not chain:
        raise PemError("holds no certificate of its private key")
    left = [certificate for certificate in certificates if certificate not in chain]
    while issuer := next((c for c in left if c.subject == chain[-1].issuer), None):
        chain.append(issuer)
        left.remove(issuer)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return KeyPair(text, as_pem(chain))


def _public(of: Any) -> bytes:
    try:
        key = of.public_key()
    except UNREADABLE as error:
        raise PemError(f"holds a certificate whose key cannot be read: {error}") from None
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for match in _BLOCK.finditer(text):
        yield match["label"], match["body"]


def _frame(label: str, body: str) -> str:
    """A PEM block in lines of 64 characters, as OpenSSL requires; Java also accepts it on one line."""
    # Headers, which an older kind of encryption has, are lines of their own.
    if ":" in body:
        lines = body.strip()
    else:
        text = "".join(body.split())
        lines = "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
