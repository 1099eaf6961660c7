"""What is said of a copy under way: counted from ledger entries, without Kafka."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from kafka_ferry.ledger.record import Entry
from kafka_ferry.model.waits import NO_WAITS, Waits
from kafka_ferry.runs.mirror.progress_counts import CopiedCounts, ProgressCounts
from kafka_ferry.runs.progress import _Lines, progress_bar, progress_line, summary_lines
from tests.unit.runs.copying import FLOW, PLAN, entry


def test_what_a_run_waits_for_is_told_while_it_copies(
    ledger: list[tuple[int, Entry]], caplog: pytest.LogCaptureFixture
) -> None:
    tally = ProgressCounts(FLOW, PLAN)
    lines = _Lines("flow", tally, FLOW)
    told = [Waits(10, 9, 1, 0, 0.1, 0), Waits(10, 0, 10, 0, 0.1, 0), NO_WAITS]
    with caplog.at_level("INFO"):
        for number, waits in enumerate(told):
            copied = entry("orders", 0, 10 * number, 10 * number + 20)
            ledger.append((100 + number, copied.model_copy(update={"waits": waits})))
            tally.update()
            lines.write()
    source, target = FLOW.source.alias, FLOW.target.alias
    ends = [line.partition("left")[2] for line in caplog.messages if line.startswith("flow:")]
    assert ends == [
        f" (90 % waiting for {source} (100 ms away), 10 % waiting for {target})",
        f" (100 % waiting for {target})",
        "",
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_is_drawn_on_a_terminal_and_not_in_a_pipe(
    ledger: list[tuple[int, Entry]], *, is_terminal: bool
) -> None:
    ledger.append((100, entry("orders", 0, 0, 20)))
    drawn = StringIO()
    console = Console(file=drawn, force_terminal=is_terminal, width=120)
    with progress_bar(FLOW, PLAN, console):
        pass
    assert ("offsets" in drawn.getvalue()) == is_terminal


@pytest.mark.parametrize(
    ("copied", "rate", "left_s", "line"),
    [
        (
            CopiedCounts(100, 43, 1_234, 3 * 1024**3, 1),
            85.06 * 1024**2,
            121.0,
            "a: 43 %, 1,234 records, 3.0 GiB, 85.1 MiB/s, about 2 min 1 s left",
        ),
        (
            CopiedCounts(100, 99, 5, 10, 1),
            0.0,
            42.4,
            "a: 99 %, 5 records, 10 bytes, 0 bytes/s, about 42 s left",
        ),
        (
            CopiedCounts(100, 1, 5, 10, 1),
            1.0,
            9e6,
            "a: 1 %, 5 records, 10 bytes, 1 bytes/s, about 104 d 4 h left",
        ),
        (
            CopiedCounts(100, 0, 0, 0, 1),
            0.0,
            None,
            "a: 0 %, 0 records, 0 bytes, nothing copied yet",
        ),
        (CopiedCounts(100, 100, 90, 10, 1), 7.0, 0.0, "a: 100 %, 90 records, 10 bytes, done"),
    ],
)
def test_a_line_says_how_far_it_is_how_fast_and_how_long_yet(
    copied: CopiedCounts, rate: float, left_s: float | None, line: str
) -> None:
    assert progress_line("a", copied, rate, left_s) == line


def test_the_table_at_the_end_has_the_largest_topics_first_and_their_sum() -> None:
    topics = {"a": CopiedCounts(10, 10, 9, 100, 1), "b": CopiedCounts(10, 4, 3, 2048, 2)}
    assert [line.split() for line in summary_lines(topics)] == [
        ["topic", "partitions", "records", "bytes", "offsets", "left"],
        ["b", "2", "3", "2.0", "KiB", "6"],
        ["a", "1", "9", "100", "bytes", "0"],
        ["together", "3", "12", "2.1", "KiB", "6"],
    ]


def test_the_table_at_the_end_stays_short() -> None:
    one = CopiedCounts(10, 10, 9, 100, 1)
    topics = {f"topic-{n:03}": replace(one, bytes=n) for n in range(120)}
    lines = list(summary_lines(topics))
    assert len(lines) == 53
    assert lines[-2].split()[:3] == ["70", "others", "70"]
