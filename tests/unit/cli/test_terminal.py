from __future__ import annotations

import io

import pytest

from kafka_ferry.cli.terminal import (
    _Terminal,
    messages,
    show_table,
    show_that_rules_are_read,
)


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


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_person_who_waits_is_told_that_spark_starts(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_force_terminal", is_terminal)
    show_that_rules_are_read()
    told = capsys.readouterr()
    assert ("Spark starts" in told.err, told.out) == (is_terminal, "")
