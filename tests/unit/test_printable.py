from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest

from kafka_ferry.cli.terminal import _Terminal
from kafka_ferry.memory_file import memory_file
from kafka_ferry.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("a\nb\tc", "a\nb\tc"),
        ("müller 😀", "müller 😀"),
        ("\x1b[2Jall is verified", r"\x1b[2Jall is verified"),
        ("a\rb\x00c\x7f\x9b", r"a\rb\x00c\x7f\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
    ],
)
def test_control_characters_are_shown_as_numbers(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_from_a_cluster_cannot_rewrite_the_terminal() -> None:
    written = io.StringIO()
    terminal = _Terminal(file=written, soft_wrap=True)
    terminal.print("group \x1b[2J\x1b[1;1Hverified", markup=False)
    assert written.getvalue() == "group \\x1b[2J\\x1b[1;1Hverified\n"


def test_a_file_in_memory_has_a_name_its_owners_rights_and_no_end_of_its_own() -> None:
    with memory_file("secret") as name:
        assert Path(name).read_text() == "secret"
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        assert str(Path(name).readlink()).startswith("/memfd:")
    assert not Path(name).exists()
