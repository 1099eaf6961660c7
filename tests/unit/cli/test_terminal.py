from __future__ import annotations

import io

import pytest

from kafka_ferry.cli.terminal import _Terminal, plain_table, show_table


def test_a_name_from_a_cluster_cannot_rewrite_the_terminal() -> None:
    written = io.StringIO()
    terminal = _Terminal(file=written, soft_wrap=True)
    terminal.print("group \x1b[2J\x1b[1;1Hverified", markup=False)
    assert written.getvalue() == "group \\x1b[2J\\x1b[1;1Hverified\n"


def test_a_row_of_a_table_is_one_line_with_whole_names(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("TOPIC", "OFFSET", "TO TOPIC", numbers=("OFFSET",))
    long = "x" * 249
    table.add_row(long, "7", f"primary.{long}")
    table.add_row("a\x1b[2J", "10", "-")
    show_table(table)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["TOPIC", "OFFSET", "TO", "TOPIC"],
        [long, "7", f"primary.{long}"],
        [r"a\x1b[2J", "10", "-"],
    ]
