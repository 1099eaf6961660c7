"""Java's own key store format (JKS), which neither Kafka client can read.

Specified only by the JDK's code: ``sun.security.provider.JavaKeyStore`` (the file) and
``sun.security.provider.KeyProtector`` (the encryption of private keys). All numbers are
big-endian::

    FEEDFEED  version (1 or 2)  number of entries  entries ...  SHA-1 over password and all of it

An entry is a private key with its certificates (tag 1), or a certificate that is trusted (tag 2).
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
"""How such a file begins."""

_PRIVATE_KEY: Final = 1
_TRUSTED: Final = 2
_DIGEST: Final = 20  # bytes of a SHA-1
_PEPPER: Final = b"Mighty Aphrodite"
_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04


class JksError(ValueError):
    """The bytes are not a JKS store; the message repeats none of them."""


class WrongPassword(JksError):
    """The store, or a key in it, does not open with the password."""


class JksEntry(NamedTuple):
    """A private key with its certificates, its own first; or a trusted certificate alone.

    Attributes:
        certificates: in DER.
        locked_key: the private key, encrypted as in the store; None for a trusted certificate.
    """

    certificates: tuple[bytes, ...]
    locked_key: bytes | None = None

    def key(self, password: str) -> bytes:
        """The private key in DER (PKCS #8).

        Raises:
            WrongPassword: it does not open with ``password``.
        """
        assert self.locked_key is not None
        algorithm_and_rest = _content(self.locked_key, _SEQUENCE)[0]
        _, rest = _content(algorithm_and_rest, _SEQUENCE)
        hidden, _ = _content(rest, _OCTETS)
        salt, body, check = hidden[:_DIGEST], hidden[_DIGEST:-_DIGEST], hidden[-_DIGEST:]
        secret = password.encode("utf-16-be")
        key = bytes(a ^ b for a, b in zip(body, _stream(secret, salt), strict=False))
        if not hmac.compare_digest(_sha1(secret + key), check):
            raise WrongPassword("the key does not open with the password")
        return key

    def __repr__(self) -> str:
        return f"JksEntry({'key' if self.locked_key else 'trusted'})"


def read_jks(data: bytes, password: str | None) -> list[JksEntry]:
    """The entries of a store, in its order.

    Args:
        data: the file's bytes.
        password: the store's; with None, the file's integrity is not checked.

    Raises:
        WrongPassword: the store was not signed with ``password``, or was changed since.
    """
    body, seal = data[:-_DIGEST], data[-_DIGEST:]
    if not body.startswith(MAGIC):
        raise JksError("it is no JKS store")
    if password is not None:
        expected = _sha1(password.encode("utf-16-be") + _PEPPER + body)
        if not hmac.compare_digest(expected, seal):
            raise WrongPassword("the password is wrong, or the file was changed")
    try:
        return list(_entries(_Reader(body, len(MAGIC))))
    except struct.error:
        raise JksError("the JKS store ends too early") from None


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return int(value)

    def take(self, length_kind: str) -> bytes:
        """The bytes after their length."""
        size = self.number(length_kind)
        (value,) = struct.unpack_from(f">{size}s", self._data, self._at)
        self._at += size
        return bytes(value)


def _entries(reader: _Reader) -> Iterator[JksEntry]:
    version = reader.number("I")
    if version not in (1, 2):
        raise JksError(f"it is a JKS store of an unknown version ({version})")

    def certificate() -> bytes:
        if version > 1 and reader.take("H") != b"X.509":
            raise JksError("it holds a certificate that is not X.509")
        return reader.take("I")

    for _ in range(reader.number("I")):
        tag = reader.number("I")
        reader.take("H")  # the alias
        reader.number("Q")  # when it was added
        if tag == _PRIVATE_KEY:
            locked = reader.take("I")
            yield JksEntry(tuple(certificate() for _ in range(reader.number("I"))), locked)
        elif tag == _TRUSTED:
            yield JksEntry((certificate(),))
        else:
            raise JksError(f"it holds an entry of an unknown kind ({tag})")


def _stream(secret: bytes, salt: bytes) -> Iterator[int]:
    block = salt
    while True:
        block = _sha1(secret + block)
        yield from block


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _content(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of a DER value with that tag, and what follows it."""
    if len(der) < 2 or der[0] != tag:
        raise JksError("a key in it is damaged")
    at, size = 2, der[1]
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(der[2:at], "big")
    return der[at : at + size], der[at + size :]
