"""What it costs to open a key or a store, which its own bytes say, before anything is opened.

A password becomes a key by so many iterations (PBKDF2, PKCS12's own way) or so much memory (scrypt) as the file has
it, and OpenSSL does what it says: for hours, or with all of the machine's memory. Java's stores have the same limit
(``sun.security.pkcs12.PKCS12KeyStore``). What is encrypted within something encrypted is not seen.
"""

from __future__ import annotations

from typing import Final

import regex

MOST_ITERATIONS: Final = 5_000_000
"""Java's limit: some seconds."""
MOST_MEMORY: Final = 64 * 1024 * 1024
"""For scrypt, in bytes; OpenSSL's own tools use 16 MiB."""
MOST_KEY_BYTES: Final = 10 * 1024
"""Of a private key: one for RSA with 16,384 bits, whose check takes a minute, has 9,300."""

_OCTETS: Final = 0x04
_NUMBER: Final = 0x02
_SEQUENCE: Final = 0x30
_INDEFINITE: Final = 0x80
# The algorithms whose parameters begin with a salt and a number: PKCS5's own (PBES1, PBKDF2), PKCS12's own, scrypt.
_ALGORITHM: Final = regex.compile(
    rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05[\x01\x03\x04\x06\x0a\x0b\x0c]"
    rb"|\x06\x0a\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01[\x01-\x06]"
    rb"|(?P<scrypt>\x06\x09\x2b\x06\x01\x04\x01\xda\x47\x04\x0b)"
)


class TooCostly(ValueError):
    """To open it would take too long, or too much memory."""


def check_costs(der: bytes) -> None:
    """Does nothing if a private key (PKCS8) or a PKCS12 store in DER can be opened in seconds.

    Raises:
        TooCostly: it cannot, or its parameters are no DER.
    """
    for match in _ALGORITHM.finditer(der):
        numbers = _numbers(der, match.end())
        if not match["scrypt"]:
            _check_iterations(numbers[0])
            continue
        cost, block, parallel = (*numbers, 0, 0, 0)[:3]
        if 128 * block * (cost + parallel) > MOST_MEMORY:
            raise TooCostly(f"asks for more than {MOST_MEMORY // 2**20} MiB (scrypt)")
    if iterations := _of_seal(der):
        _check_iterations(iterations)


def _check_iterations(iterations: int) -> None:
    if iterations > MOST_ITERATIONS:
        raise TooCostly(f"asks for {iterations:,} iterations; the maximum is {MOST_ITERATIONS:,}")


def _numbers(der: bytes, at: int) -> list[int]:
    """The numbers after the salt in an algorithm's parameters, one or more."""
    tag, begin, end = _value(der, at)
    if tag != _SEQUENCE:
        raise TooCostly("does not say in DER how it is encrypted")
    tag, _, after = _value(der, begin)
    numbers = []
    while tag in (_OCTETS, _NUMBER) and after < end:
        tag, begin, after = _value(der, after)
        if tag == _NUMBER:
            numbers.append(int.from_bytes(der[begin:after], "big"))
    if not numbers:
        raise TooCostly("does not say in DER how it is encrypted")
    return numbers


def _of_seal(der: bytes) -> int:
    """The iterations of a PKCS12 store's own checksum (``MacData``), which no name precedes; 0 without one.

    Raises:
        TooCostly: it is not in DER where a store has it.
    """
    tag, begin, end = _value(der, 0)
    # ``PFX`` begins with the version 3, and a private key with 0 or with a sequence.
    if tag != _SEQUENCE or der[begin : begin + 3] != b"\x02\x01\x03":
        return 0
    _, _, after = _value(der, begin + 3)
    if after >= end:
        return 0
    tag, begin, end = _value(der, after)
    _, _, after = _value(der, begin)
    _, _, after = _value(der, after)
    if after >= end:
        return 1
    tag, begin, after = _value(der, after)
    if tag != _NUMBER:
        raise TooCostly("has no checksum in DER")
    return int.from_bytes(der[begin:after], "big")


def _value(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the value at an offset, and where its content begins and ends.

    Raises:
        TooCostly: it is no value in DER.
    """
    if at + 2 > len(der) or der[at + 1] == _INDEFINITE:
        raise TooCostly("is not in DER")
    tag, size, begin = der[at], der[at + 1], at + 2
    if size > _INDEFINITE:
        begin += size - _INDEFINITE
        size = int.from_bytes(der[at + 2 : begin], "big")
    if begin + size > len(der):
        raise TooCostly("is cut off")
    return tag, begin, begin + size
