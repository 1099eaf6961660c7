"""Certificates as bytes."""

from __future__ import annotations

import json

import pytest

from kafka_ferry.certificates import CertificateError, read_certificate
from tests.unit.certificates.builders import a_certificate, a_range


@pytest.mark.parametrize("signed", [True, False])
def test_a_certificate_is_read_as_it_was_written(signed: bool) -> None:
    written = a_certificate() if signed else a_certificate(key=None)

    read = read_certificate(written.content(), "a file")

    assert read.content() == written.content()
    assert read.header == written.header
    assert read.ranges() == written.ranges()
    assert read.signature == written.signature
    assert (read.signature is not None) == signed


def test_large_offsets_and_names_of_other_alphabets_survive() -> None:
    far = a_range(0, 2**62, 2**62 + 1) | {"topic": "заказы"}

    read = read_certificate(a_certificate(1, None, far).content(), "a file")

    assert read.ranges() == [far]
    assert "заказы".encode() in read.content()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a certificate"),
        (a_certificate().content()[:-1], "whole line"),
        (b"a file of something else\n", "is not a certificate"),
        (b"[]\n", "is not a certificate"),
        (b"1\n", "is not a certificate"),
        (b"{" + b" " * 2**20 + b"}\n", "is not a certificate: serial: Field required"),
        (b'{"format":"another"}\n', "format"),
        (a_certificate().content().replace(b'"version":1', b'"version":2'), "version"),
        (a_certificate().content().replace(b'"serial":1', b'"serial":0'), "serial"),
        (a_certificate().content().replace(b'"value":"', b'"other":"'), "not a signature"),
    ],
)
def test_what_is_no_certificate_is_refused_by_name(content: bytes, said: str) -> None:
    with pytest.raises(CertificateError, match=said) as raised:
        read_certificate(content, "some.jsonl")

    assert "some.jsonl" in str(raised.value)


def test_ranges_that_are_no_json_are_refused() -> None:
    broken = a_certificate().content().replace(b'{"topic"', b'{topic"', 1)

    with pytest.raises(CertificateError, match="range line"):
        read_certificate(broken, "a file").ranges()


def test_fields_of_later_releases_are_passed_over() -> None:
    line = json.dumps(json.loads(a_certificate().line) | {"later": 1}).encode()

    assert read_certificate(line + b"\n", "a file").header == a_certificate().header
