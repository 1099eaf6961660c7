"""What a broker may say in a login with SCRAM: RFC 5802's grammar, section 7, and no more.

Kafka-python takes whatever Python's ``int`` and ``dict`` do. Each reading that differs from another one's is a way
around the minimum of iterations, below which the client's proof is as good as its password.
"""

from __future__ import annotations

from typing import Final

import regex

FEWEST_ITERATIONS: Final = 4096
"""``ScramMechanism.minIterations``, which Java's client requires."""
MOST_ITERATIONS: Final = 1_000_000
"""More would keep the client busy; Kafka's own tools set up to 16,384."""

_BASE64: Final = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
# An extension's value is any text without a comma. "m=", before all others, demands what no client knows.
_EXTENSIONS: Final = rb"(?:,[A-Za-z]=[^\x00,]+)*"
_FIRST: Final = regex.compile(
    rb"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=" + _BASE64 + rb",i=(?P<iterations>[1-9][0-9]*)"
)
_FINAL: Final = regex.compile(rb"v=" + _BASE64 + _EXTENSIONS)
_ERROR: Final = regex.compile(rb"e=(?P<error>[\x21-\x2b\x2d-\x7e]{1,100})" + _EXTENSIONS)


def iterations_of(message: bytes) -> int:
    """The iterations for which the broker's first message asks.

    Raises:
        ValueError: it is no ``server-first-message``, or has an extension: Kafka's brokers send none.
    """
    first = _FIRST.fullmatch(message)
    if not first:
        raise ValueError("its first message is not as RFC 5802 has it")
    # A number of thousands of digits is not converted.
    return int(first["iterations"][:10])


def check_nonce(message: bytes, client_nonce: bytes) -> None:
    """Check that the broker has added something to the client's nonce.

    Raises:
        ValueError: it has not: an answer of another exchange, or the client's own, would do.
    """
    first = _FIRST.fullmatch(message)
    if not first or not first["nonce"].startswith(client_nonce) or first["nonce"] == client_nonce:
        raise ValueError("its nonce does not continue the client's")


def check_final(message: bytes) -> None:
    """Check that the broker's last message is a ``server-final-message`` with a signature.

    Raises:
        ValueError: it is not; the message is the broker's own reason, where it has one.
    """
    if error := _ERROR.fullmatch(message):
        raise ValueError(error["error"].decode())
    if not _FINAL.fullmatch(message):
        raise ValueError("its last message is not as RFC 5802 has it")
