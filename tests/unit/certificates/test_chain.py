"""A changed byte is found anywhere, and a missing link is named; by our checker, Java's and the standalone one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.certificates import Certificate, CertificateError, read_certificate
from kafka_ferry.certificates.chain import faults_of_chain, in_order
from kafka_ferry.certificates.document import as_line
from tests.unit.certificates.builders import KEY, a_certificate, a_chain, a_range
from tests.unit.certificates.test_signature import PUBLIC

PROJECT = Path(__file__).parents[3]
STANDALONE = PROJECT / "docs" / "examples" / "check_certificates.py"
JAVA = PROJECT / "tests" / "support" / "CheckCertificates.java"


def faults(*certificates: Certificate) -> list[str]:
    return faults_of_chain(in_order(certificates), KEY.public_key())


def changed(one: Certificate, **fields: Any) -> Certificate:
    """The certificate with other fields in its header, and its old signature."""
    line = as_line(json.loads(one.line) | fields)
    return Certificate(line, one.range_lines, one.signature)


def test_a_chain_that_was_issued_holds() -> None:
    assert not faults(*a_chain(4))
    assert not faults(*a_chain(4)[2:])


@given(st.data())
def test_every_changed_byte_is_found(data: st.DataObject) -> None:
    content = bytearray(a_certificate().content())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))

    try:
        found = faults(read_certificate(bytes(content), "a file"))
    except CertificateError:
        return
    assert found


@pytest.mark.parametrize(
    ("certificates", "said"),
    [
        (a_chain(4)[:1] + a_chain(4)[2:], "Certificate 2 of left->right missing: 3 follows 1."),
        (a_chain(5)[:1] + a_chain(5)[3:], "Certificates 2 to 3 of left->right missing"),
        ([a_certificate(1), a_certificate(2)], "does not follow the certificate 1"),
        ([a_certificate(1), a_certificate(1, None, a_range(5))], "two different certificates 1"),
        ([a_certificate(key=None)], "is not signed"),
        ([a_certificate(key=Ed25519PrivateKey.generate())], "is not of this key"),
        ([changed(a_certificate(), run="another")], "is not of this key and these bytes"),
        ([changed(a_certificate(), records=1)], "does not sum up"),
    ],
)
def test_what_is_wrong_is_named(certificates: list[Certificate], said: str) -> None:
    assert any(said in fault for fault in faults(*certificates))


def test_ranges_that_were_moved_or_taken_away_are_found() -> None:
    one = a_certificate()
    for lines in (one.range_lines[1:], one.range_lines[::-1], [*one.range_lines, b"{}"]):
        (found,) = faults(Certificate(one.line, lines, one.signature))
        assert "do not have the root" in found


def test_signatures_are_not_looked_at_without_a_key() -> None:
    assert not faults_of_chain([a_certificate(key=None)], None)


def checked_outside(command: list[str], folder: Path, chain: list[Certificate]) -> tuple[int, str]:
    (folder / "public.pem").write_bytes(PUBLIC)
    files = [folder / f"{one.header.serial}.jsonl" for one in chain]
    for file, one in zip(files, chain, strict=True):
        file.write_bytes(one.content())
    whole = [*command, str(folder / "public.pem"), *map(str, files)]
    done = subprocess.run(whole, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [[sys.executable, str(STANDALONE)], [shutil.which("java") or "java", str(JAVA)]],
    ids=["standalone", "java"],
)
def test_checkers_that_know_only_the_format_agree(command: list[str], tmp_path: Path) -> None:
    one, two, three = a_chain(3)
    again = Certificate(one.line, one.range_lines[::-1], one.signature)

    assert checked_outside(command, tmp_path, [one, two, three])[0] == 0
    for wrong, said in (
        ([again, two, three], "root"),
        ([one, changed(two, run="forged"), three], "signature"),
        ([one, a_certificate(2, None), three], "follow|chain"),
        ([one, three], "missing|chain"),
        ([a_certificate(key=None)], "not signed|unsigned"),
    ):
        status, text = checked_outside(command, tmp_path, wrong)
        assert status == 1
        assert any(word in text for word in said.split("|")), text
