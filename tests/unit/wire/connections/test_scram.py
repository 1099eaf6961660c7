"""Which messages of a broker are SCRAM's: those of RFC 5802's grammar, and no other that something reads as one."""

from __future__ import annotations

import pytest

from kafka_ferry.wire.connections.scram import check_final, check_nonce, iterations_of

FIRST = b"r=clientserver,s=c2FsdA==,i="


@pytest.mark.parametrize(
    ("message", "iterations"),
    [
        (FIRST + b"4096", 4096),
        (FIRST + b"1", 1),
        (b"r=!+~,s=QSXCR+Q6sek8bf92,i=8192", 8192),
        (FIRST + b"9" * 5000, 9_999_999_999),
    ],
)
def test_the_iterations_are_a_number_of_plain_digits(message: bytes, iterations: int) -> None:
    assert iterations_of(message) == iterations


@pytest.mark.parametrize(
    "message",
    [
        *(
            FIRST + written
            for written in (
                b"0000000001", b"+1", b" 1", b"1 ", b"1_0", b"\xd9\xa1", b"-1", b"0", b"", b"1e4", b"0x1000",
                b"4096,i=1", b"4096,", b"4096,x=1", b"4096\n", b"4096\x00", b"4096.0",
            )
        ),
        b"i=4096,r=clientserver,s=c2FsdA==", b"r=a,r=b,s=c2FsdA==,i=4096", b"r=a,s=c2FsdA==,s=eA==,i=4096",
        b"m=x," + FIRST + b"4096", b" " + FIRST + b"4096", b"r=,s=c2FsdA==,i=4096", b"r=a b,s=c2FsdA==,i=4096",
        b"r=a,s=,i=4096", b"r=a,s=c2FsdA=,i=4096", b"r=a,s=c2F\nsdA==,i=4096", b"r=a,s=c2FsdA==", b"", b"\xff",
        b"R=a,S=c2FsdA==,I=4096",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="RFC 5802"):
        iterations_of(message)


@pytest.mark.parametrize("nonce", [b"client", b"other", b"clien", b"Clientserver"])
def test_a_nonce_that_does_not_continue_the_clients_is_refused(nonce: bytes) -> None:
    message = b"r=%b,s=c2FsdA==,i=4096" % nonce
    with pytest.raises(ValueError, match="nonce"):
        check_nonce(message, b"client")
    check_nonce(FIRST + b"4096", b"client")


def test_a_last_message_is_a_signature_or_a_reason() -> None:
    check_final(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")
    check_final(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=,x=more")
    with pytest.raises(ValueError, match=r"^invalid-proof$"):
        check_final(b"e=invalid-proof")
    for message in (b"v=", b"v=a", b"x=1,v=eA==", b"v=eA==,v", b" v=eA==", b"", b"v=e\nA=="):
        with pytest.raises(ValueError, match="RFC 5802"):
            check_final(message)
