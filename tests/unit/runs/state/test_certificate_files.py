"""Certificates in the state folder have places of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.certificates import CertificateError
from kafka_ferry.runs.state.certificate_files import certificate_files, newest_file, save_file
from kafka_ferry.state import StateFolder
from tests.unit.certificates.builders import a_chain


@pytest.mark.parametrize("name", ["00000009.jsonl", "2.jsonl", "a copy of 2.jsonl"])
def test_a_file_in_the_place_of_another_is_named(tmp_path: Path, name: str) -> None:
    state, chain = StateFolder(str(tmp_path)), a_chain(3)
    for one in chain:
        save_file(state, one)
    assert [one.header.serial for one in certificate_files(state)] == [1, 2, 3]
    (tmp_path / "certificates" / name).write_bytes(chain[1].content())

    with pytest.raises(CertificateError) as raised:
        certificate_files(state)

    assert f"{name} holds certificate 2 of left->right, whose place is 00000002.jsonl" in str(
        raised.value
    )


def test_an_old_certificate_in_the_place_of_the_newest_is_not_followed(tmp_path: Path) -> None:
    state, chain = StateFolder(str(tmp_path)), a_chain(3)
    save_file(state, chain[2])
    (tmp_path / "certificates" / "00000003.jsonl").write_bytes(chain[0].content())

    with pytest.raises(CertificateError, match="holds certificate 1"):
        newest_file(state)
