"""Which last records are compared where nothing else tells of a source that was restored."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kafka_ferry.batches import Segment, split_batches
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.last_records import CopyEnd, LastRecord, NewestRanges
from kafka_ferry.ledger.rows import CopiedPartition
from kafka_ferry.model import LogBounds, Position, Topic, TopicPartition
from kafka_ferry.runs.provenance import diverged_logs as module
from kafka_ferry.runs.provenance.diverged_logs import (
    DivergedLogs,
    diverged_logs,
    find_diverged_logs,
)
from kafka_ferry.wire.partitions import at_offset
from tests.support.records import batches as build

PARTITIONS = 40
NAMES = {"orders": "a.orders"}
CLUSTERS: Any = SimpleNamespace(alias="primary"), SimpleNamespace(alias="backup")
LEDGER: Any = None


class Source:
    """A source whose partitions were copied in the order of their numbers, up to offset 10.

    Attributes:
        replaced: the partitions that hold another record at offset 9.
        aborted: those that were copied up to offset 12, the last two without a record.
        filled: those that hold a record there now.
        cleaned: those whose cleaner has taken the record at offset 9, and left the one at 8.
        batches: those whose last batch is told apart by its CRC, and whether it is the one that was copied.
        alone: those whose last batch does not come together with others.
        epochs: where partitions part by their epochs.
        leaderless: those without a leader.
        errors: those that cannot be read.
        seconds: how long it takes to compare one.
    """

    def __init__(self) -> None:
        self.replaced: set[int] = set()
        self.aborted: set[int] = set()
        self.filled: set[int] = set()
        self.cleaned: set[int] = set()
        self.batches: dict[int, bool] = {}
        self.alone: set[int] = set()
        self.epochs: dict[int, int] = {}
        self.leaderless: set[int] = set()
        self.errors: dict[int, Exception] = {}
        self.seconds, self.now, self.looked = 0.0, 0.0, list[int]()
        self.asked: list[int] = []

    def compare(self, *arguments: Any, **_: Any) -> bool | None:
        """Whether a log still has a record."""
        number = arguments[1].number
        self.now += self.seconds
        self.looked.append(number)
        if number in self.errors:
            raise self.errors[number]
        if number in self.cleaned and arguments[2] == 9:
            return None
        return number not in self.replaced

    def newest(self, *arguments: Any) -> int | None:
        """The newest record of a log between two offsets."""
        _, log, start, _ = arguments
        if start == 10:
            return 10 if log.number in self.filled else None
        return 8

    def look(self, *, whole: bool, grown: int = PARTITIONS) -> DivergedLogs:
        """``diverged_logs``, or ``find_diverged_logs`` where so many partitions have something new."""
        copied = {
            tp(number): Position(12 if number in self.aborted else 10, "id", "id")
            for number in range(PARTITIONS)
        }
        if whole:
            return diverged_logs(*CLUSTERS, LEDGER, copied, NAMES, NAMES.values(), whole=True)
        bounds = {it: LogBounds(0, at.offset + (it.partition < grown)) for it, at in copied.items()}
        here, there = ({name: Topic(name, "id", PARTITIONS)} for name in ("orders", "a.orders"))
        remote = {tp(it.partition, "a.orders"): at for it, at in copied.items()}
        return find_diverged_logs(*CLUSTERS, LEDGER, bounds, here, NAMES, there, remote)


class Log(NamedTuple):
    """A partition's log."""

    number: int
    end: int = 20
    batch: str | None = "read"


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source()

    partitions = [CopiedPartition("orders", "id", n, "a.orders", "id") for n in range(PARTITIONS)]

    def newest(*_: Any) -> NewestRanges:
        with_records = {partition: n for n, partition in enumerate(partitions)}
        aborted = {partitions[n]: PARTITIONS + n for n in source.aborted}
        return NewestRanges(with_records | aborted, with_records)

    def last(_: Any, chosen: Any) -> list[LastRecord]:
        numbers = sorted((at for at, _ in chosen), reverse=True)
        segments = (Segment(5, 5, 5),)
        return [LastRecord(tp(n), 9, tp(n, "a.orders"), 9, False, segments) for n in numbers]

    def ends(*_: Any) -> Any:
        aborted = [CopyEnd(tp(n), 10, 12, is_ended=True) for n in sorted(source.aborted)]
        told = [CopyEnd(tp(n), 10, 10, crc=1) for n in source.batches]
        return [(partitions[end.source.partition], end) for end in (*aborted, *told)]

    def has_same_batch(_: Any, log: Log, *__: Any) -> bool:
        source.asked.append(log.number)
        return source.batches[log.number]

    def led(_: Any, partitions: Any) -> dict[TopicPartition, Any]:
        return {
            it: Log(it.partition, batch=None if it.partition in source.alone else "read")
            for it in partitions
            if it.partition not in source.leaderless
        }

    def epochs(*_: Any) -> dict[TopicPartition, int]:
        return {tp(number): offset for number, offset in source.epochs.items()}

    monkeypatch.setattr(module, "newest_ranges", newest)
    monkeypatch.setattr(module, "last_records", last)
    monkeypatch.setattr(module, "copy_ends", ends)
    monkeypatch.setattr(module, "newest_record_between", source.newest)
    monkeypatch.setattr(module, "diverged_epochs", epochs)
    monkeypatch.setattr(module, "connect", lambda _: nullcontext())
    monkeypatch.setattr(module, "led_logs", led)
    monkeypatch.setattr(module, "with_batches", lambda _, logs, offsets: logs)
    monkeypatch.setattr(module, "has_same_batch", has_same_batch)
    monkeypatch.setattr(module, "has_copied", source.compare)
    monkeypatch.setattr(module.time, "monotonic", lambda: source.now)
    return source


def test_a_plan_looks_at_the_newest_one_and_a_sample_of_those_with_something_new(
    source: Source,
) -> None:
    assert source.look(whole=False, grown=30) == DivergedLogs({})
    assert source.looked == [39, *range(29, 13, -1)]


def test_a_last_batch_that_is_another_one_needs_no_look_at_the_record(source: Source) -> None:
    """Where it is the same, the copy may still be another one."""
    source.batches = {number: number > 3 for number in range(PARTITIONS)}
    assert source.look(whole=True) == DivergedLogs({tp(number): -1 for number in range(4)})
    assert sorted(source.looked) == [*range(4, PARTITIONS)]


def test_a_plan_compares_the_last_batches_that_come_together(source: Source) -> None:
    """Also where the last record is the one that was copied; one that comes alone is asked for in the sample only."""
    source.batches = {3: False, **dict.fromkeys(range(4, PARTITIONS), True)}
    source.alone = {3, 20, PARTITIONS - 1}
    assert source.look(whole=False, grown=0) == DivergedLogs({})
    assert sorted(source.asked) == [*{*range(4, PARTITIONS)} - {20}]
    source.alone = set()
    assert source.look(whole=False, grown=0) == DivergedLogs({tp(3): -1})


@pytest.mark.parametrize("sign", ["a record", "an epoch"])
def test_once_one_log_is_another_one_a_plan_looks_at_all(source: Source, sign: str) -> None:
    """What a backup lacks, it lacks in partitions outside of any sample too."""
    source.replaced = {0, 3}
    if sign == "a record":
        source.replaced |= {39}
    else:
        source.epochs = {39: 5}
    found = source.look(whole=False)
    assert found.offsets == {tp(0): -1, tp(3): -1, tp(39): -1 if sign == "a record" else 5}
    assert sorted(source.looked) == list(range(PARTITIONS if sign == "a record" else 39))


def test_where_aborted_records_came_last_the_source_has_no_record_since(source: Source) -> None:
    """A restored source may have written records there, and the last one before them is as it was."""
    source.aborted = {0, 3}
    assert source.look(whole=False) == DivergedLogs({})
    source.filled = {0}
    assert source.look(whole=False) == DivergedLogs({tp(0): -1})
    assert source.look(whole=True) == DivergedLogs({tp(0): -1})


def test_where_the_last_record_is_cleaned_away_the_newest_one_that_is_left_tells(
    source: Source,
) -> None:
    source.cleaned = {0, 3}
    assert source.look(whole=True) == DivergedLogs({})
    source.replaced = {0}
    assert source.look(whole=True) == DivergedLogs({tp(0): -1})


@pytest.mark.parametrize(
    ("stored", "has"),
    [
        ([build.a_batch(2, at=9), build.a_batch(at=8)], False),
        ([build.a_batch(at=10), build.a_batch(2, at=8)], False),
        ([build.a_batch(at=10), build.a_batch(2, at=9)], None),
        ([build.a_batch(2, at=9, deltas=[0, 3])], None),
        ([], None),
    ],
    ids=["another batch", "another one of it alone", "made for an answer", "cleaned", "nothing"],
)
def test_the_batch_in_which_copying_ended_is_known_by_its_crc_where_a_log_keeps_its_batches(
    monkeypatch: pytest.MonkeyPatch, stored: list[bytes], has: bool | None
) -> None:
    """The batch at the offset, and the one that is found at the offset before it."""
    batches = [next(iter(split_batches(it))) for it in stored]
    answers = iter([*batches, None])
    monkeypatch.setattr(at_offset, "batch_at", lambda *_: next(answers))
    log: Any = SimpleNamespace(start=0, end=20)
    assert at_offset.has_same_batch(CLUSTERS[0], log, 10, 1) is has
    for batch in batches[:1]:
        answers = iter(batches)
        assert at_offset.has_same_batch(CLUSTERS[0], log, 10, batch.header.crc)


def test_lag_and_failover_look_at_all_and_name_what_they_had_no_time_for(source: Source) -> None:
    source.replaced = {0}
    assert source.look(whole=True) == DivergedLogs({tp(0): -1})
    source.replaced, source.seconds = set(), 0.5
    found = source.look(whole=True)
    assert found.offsets == {}
    (sentence,) = found.unknown
    assert sentence.startswith("Whether primary still holds the records that were copied last is")
    assert "orders-0; orders-1; " in sentence
    assert "and 19 more: there was no time to look at more." in sentence


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ({"leaderless": {39}}, "orders-39 has no leader."),
        ({"errors": {39: FerryError("Not allowed.")}}, "Not allowed."),
    ],
    ids=["no leader", "refused"],
)
def test_one_that_cannot_be_looked_at_hides_no_other(
    source: Source, spoil: dict[str, Any], why: str
) -> None:
    """Formerly nothing was said of any."""
    source.replaced = {2}
    for name, value in spoil.items():
        setattr(source, name, value)
    found = source.look(whole=True)
    assert found.offsets == {tp(2): -1}
    assert found.unknown == (
        "Whether primary still holds the records that were copied last is unknown of orders-39: "
        + why,
    )
