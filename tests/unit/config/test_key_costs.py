"""Keys and stores that would take hours or the machine's memory to open are refused by their own numbers."""

from __future__ import annotations

import base64
import subprocess
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from kafka_ferry.config.client.pem import PemError, pem_key
from kafka_ferry.config.key_costs import TooCostly, check_costs

PASSWORD = b"password"
KEY = ec.generate_private_key(ec.SECP256R1())
PBKDF2, SCRYPT, PBE = "1.2.840.113549.1.5.12", "1.3.6.1.4.1.11591.4.11", "1.2.840.113549.1.12.1.3"


def value(tag: int, content: bytes) -> bytes:
    """A value in DER."""
    size = len(content)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, *([size] if size < 128 else [0x80 | len(long), *long])]) + content


def number(of: int) -> bytes:
    return value(2, of.to_bytes(of.bit_length() // 8 + 1, "big"))


def name(of: str) -> bytes:
    """An object identifier."""
    first, second, *parts = map(int, of.split("."))
    content = bytes([40 * first + second])
    for part in parts:
        digits = [part & 0x7F]
        while part := part >> 7:
            digits.insert(0, part & 0x7F | 0x80)
        content += bytes(digits)
    return value(6, content)


def salted(algorithm: str, *numbers: int) -> bytes:
    """How a key is made of a password."""
    given = value(4, b"saltsalt") + b"".join(map(number, numbers))
    return value(0x30, name(algorithm) + value(0x30, given))


def locked_key(how: bytes) -> bytes:
    """A private key (PKCS8) that is locked that way, by PBES2."""
    cipher = value(0x30, name("2.16.840.1.101.3.4.1.42") + value(4, bytes(16)))
    both = value(0x30, name("1.2.840.113549.1.5.13") + value(0x30, how + cipher))
    return value(0x30, both + value(4, bytes(64)))


def store(rounds: int) -> bytes:
    """A PKCS12 store with a key."""
    kind = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(rounds)
    kind = kind.key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC).hmac_hash(hashes.SHA256())
    return pkcs12.serialize_key_and_certificates(b"a", KEY, None, None, kind.build(PASSWORD))


@pytest.mark.parametrize(
    ("der", "why"),
    [
        (locked_key(salted(PBKDF2, 5_000_000)), ""),
        (locked_key(salted(PBKDF2, 5_000_001)), "asks for 5,000,001 iterations"),
        (locked_key(salted(PBKDF2, 2**31)), "iterations"),
        (locked_key(salted(PBKDF2, 2**63)), "iterations"),
        (locked_key(salted(PBKDF2)), "does not say in DER"),
        (value(0x30, salted(PBE, 2**31)), "iterations"),
        (locked_key(salted(SCRYPT, 2**14, 8, 1)), ""),
        (locked_key(salted(SCRYPT, 2**22, 8, 1)), "more than 64 MiB"),
        (locked_key(salted(SCRYPT, 2**14, 8, 2**30)), "more than 64 MiB"),
    ],
)
def test_what_a_key_asks_for_is_bounded(der: bytes, why: str) -> None:
    if not why:
        check_costs(der)
        return
    with pytest.raises(TooCostly, match=why):
        check_costs(der)


def test_what_libraries_write_is_read(tmp_path: Path) -> None:
    made = tmp_path / "made.p12"
    keytool = [
        "keytool",
        "-genkeypair",
        "-alias",
        "a",
        "-keyalg",
        "EC",
        "-dname",
        "CN=a",
        "-storetype",
        "PKCS12",
    ]
    secret = ["-storepass", PASSWORD.decode(), "-keystore", str(made)]
    subprocess.run([*keytool, *secret], check=True, capture_output=True)
    locked = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD))
    for der in (made.read_bytes(), store(20_000), locked):
        check_costs(der)


@pytest.mark.parametrize("where", ["checksum", "key"])
def test_a_stores_own_iterations_are_seen(where: str) -> None:
    """Three bytes in place of three, so that all lengths stay right."""
    few, many = number(70_000), number(8_000_000)
    data = store(70_000) if where == "key" else b""
    if where == "checksum":
        content = value(0x30, name("1.2.840.113549.1.7.1"))
        seal = value(0x30, value(0x30, b"") + value(4, b"salt") + few)
        data = value(0x30, number(3) + content + seal)
    with pytest.raises(TooCostly, match="iterations"):
        check_costs(data.replace(few, many))


def test_a_pem_key_that_would_take_hours_is_refused_at_once() -> None:
    der = locked_key(salted(PBKDF2, 2**31))
    began = time.process_time()
    with pytest.raises(PemError, match="iterations"):
        pem_key(armoured(der), "password")
    with pytest.raises(PemError, match="more than 10,240 bytes"):
        pem_key(armoured(bytes(30_000)), None)
    with pytest.raises(PemError, match="no private key in PEM"):
        pem_key("-----BEGIN A-----\n" * 100_000, None)
    assert time.process_time() - began < 1


def armoured(der: bytes) -> str:
    """A locked private key's DER as PEM."""
    label = "ENCRYPTED PRIVATE KEY-----"
    return f"-----BEGIN {label}\n{base64.encodebytes(der).decode()}-----END {label}\n"
