"""What is said of a copy under way: counted from ledger entries, without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_ferry.ledger import CopiedRange, TransactionEntry
from kafka_ferry.ledger.record import Entry
from kafka_ferry.model import Plan, Range
from kafka_ferry.model.waits import NO_WAITS, Waits
from kafka_ferry.runs.mirror.progress_counts import CopiedCounts, ProgressCounts
from kafka_ferry.runs.progress import _Lines, progress_line, summary_lines
from tests.unit.plan.builders import a_flow

FLOW = a_flow()


def a_range(topic: str, partition: int, start: int, end: int, writer: int = 0) -> Range:
    return Range(topic, partition, start, end, "id", f"primary.{topic}", writer)


PLAN = Plan(
    *(FLOW.name, "run-1", 5, "S", "T", 100),
    ranges=(
        a_range("orders", 0, 10, 60),
        a_range("orders", 1, 0, 50, 1),
        a_range("payments", 0, 0, 20, 1),
        a_range("idle", 0, 7, 7),
    ),
    shards=((0,), (1,)),
)


def entry(
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    run: str = "run-1",
    flow: str = FLOW.name,
) -> TransactionEntry:
    copied = CopiedRange(
        topic=topic,
        topic_id="id",
        partition=partition,
        remote_topic=f"primary.{topic}",
        remote_topic_id="id",
        start=start,
        end=end,
        records=end - start - 1,
        bytes=(end - start) * 100,
        batches=1,
        reasons={"control": 1},
        digest="",
    )
    return TransactionEntry(flow=flow, run=run, at=5, writer=0, ranges=(copied,))


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Entry]]:
    entries: list[tuple[int, Entry]] = []

    def read(_: object, topic: str, start: int) -> Iterator[tuple[int, Entry]]:
        assert topic == "ferry-ledger.primary.internal"
        return iter([it for it in entries if it[0] >= start])

    monkeypatch.setattr("kafka_ferry.runs.mirror.progress_counts.read_ledger", read)
    return entries


def test_each_transaction_is_counted_once_and_only_those_of_the_run(
    ledger: list[tuple[int, Entry]],
) -> None:
    ledger += [
        (99, entry("orders", 0, 10, 20)),
        (100, entry("orders", 0, 10, 20)),
        (102, entry("orders", 0, 20, 60, run="run-0")),
        (104, entry("orders", 0, 20, 60, flow="primary->elsewhere")),
        (106, entry("unplanned", 0, 0, 5)),
    ]
    tally = ProgressCounts(FLOW, PLAN)
    tally.update()
    tally.update()
    assert tally.topics["orders"] == CopiedCounts(100, 10, 9, 1000, partitions=2)
    ledger.append((108, entry("orders", 1, 0, 50)))
    tally.update()
    assert tally.topics["orders"] == CopiedCounts(100, 60, 58, 6000, partitions=2)
    assert tally.whole == CopiedCounts(120, 60, 58, 6000, partitions=3)
    assert tally.whole.left == 60
    assert tally.topics.keys() == {"orders", "payments"}


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


def test_a_shard_counts_what_is_its_own(ledger: list[tuple[int, Entry]]) -> None:
    ledger += [(100, entry("orders", 0, 10, 20)), (102, entry("orders", 1, 0, 20))]
    tally = ProgressCounts(FLOW, PLAN, 1)
    tally.update()
    assert tally.topics["orders"] == CopiedCounts(50, 20, 19, 2000, partitions=1)


def test_what_is_copied_again_is_not_done_twice(ledger: list[tuple[int, Entry]]) -> None:
    """A position may be set back, where the source's log was cut."""
    ledger += [(100, entry("orders", 0, 10, 60)), (102, entry("orders", 0, 30, 60))]
    tally = ProgressCounts(FLOW, PLAN)
    tally.update()
    assert tally.topics["orders"].done == 50


@pytest.mark.parametrize(
    ("copied", "rate", "left_s", "line"),
    [
        (
            CopiedCounts(100, 43, 1_234, 3 * 1024**3, 1),
            85.06 * 1024**2,
            121.0,
            "a: 43 %, 1,234 records, 3.0 GiB, 85.1 MiB/s, about 2 min left",
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
            "a: 1 %, 5 records, 10 bytes, 1 bytes/s, about 104 d left",
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
