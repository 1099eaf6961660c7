from __future__ import annotations

import io

import pytest

from kafka_ferry.cli.terminal import _Terminal, show_table


def test_a_name_from_a_cluster_cannot_rewrite_the_terminal() -> None:
    written = io.StringIO()
    terminal = _Terminal(file=written, soft_wrap=True)
    terminal.print("group \x1b[2J\x1b[1;1Hverified")
    assert written.getvalue() == "group \\x1b[2J\\x1b[1;1Hverified\n"


def test_a_row_of_a_table_is_one_line_with_whole_names(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 249
    rows = [(long, 7, f"primary.{long}"), ("[b]a:key:\x1b[2J", 10, None)]
    show_table(("TOPIC", "OFFSET", "TO TOPIC"), rows, numbers=("OFFSET",))
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["TOPIC", "OFFSET", "TO", "TOPIC"],
        [long, "7", f"primary.{long}"],
        [r"[b]a:key:\x1b[2J", "10", "-"],
    ]
