"""Which last records are compared where nothing else tells of a source that was restored."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.last_records import LastRecord
from kafka_ferry.ledger.rows import CopiedPartition
from kafka_ferry.model import LogBounds, Position, Topic, TopicPartition
from kafka_ferry.runs.provenance import diverged_logs as module
from kafka_ferry.runs.provenance.diverged_logs import DivergedLogs, diverged_logs, look_for_diverged

PARTITIONS = 40
NAMES = {"orders": "a.orders"}
CLUSTERS: Any = SimpleNamespace(alias="primary"), SimpleNamespace(alias="backup")
LEDGER: Any = None


class Source:
    """A source whose partitions were copied in the order of their numbers, up to offset 10.

    Attributes:
        replaced: the partitions that hold another record at offset 9.
        epochs: where partitions part by their epochs.
        leaderless: those without a leader.
        errors: those that cannot be read.
        seconds: how long it takes to compare one.
    """

    def __init__(self) -> None:
        self.replaced: set[int] = set()
        self.epochs: dict[int, int] = {}
        self.leaderless: set[int] = set()
        self.errors: dict[int, Exception] = {}
        self.seconds, self.now, self.looked = 0.0, 0.0, list[int]()

    def compare(self, *arguments: Any, **_: Any) -> bool:
        """Whether a log still has its last record."""
        number = arguments[1]
        self.now += self.seconds
        self.looked.append(number)
        if number in self.errors:
            raise self.errors[number]
        return number not in self.replaced

    def look(self, *, whole: bool, grown: int = PARTITIONS) -> DivergedLogs:
        """``diverged_logs``, or ``look_for_diverged`` where so many partitions have something new."""
        copied = {tp(number): Position(10, "id", "id") for number in range(PARTITIONS)}
        if whole:
            return diverged_logs(*CLUSTERS, LEDGER, copied, NAMES, NAMES.values(), whole=True)
        bounds = {it: LogBounds(0, 11 if it.partition < grown else 10) for it in copied}
        here, there = ({name: Topic(name, "id", PARTITIONS)} for name in ("orders", "a.orders"))
        remote = {tp(it.partition, "a.orders"): at for it, at in copied.items()}
        return look_for_diverged(*CLUSTERS, LEDGER, bounds, here, NAMES, there, remote)


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source()

    def newest(*_: Any) -> Any:
        return [
            (CopiedPartition("orders", "id", n, "a.orders", "id"), n) for n in range(PARTITIONS)
        ]

    def last(_: Any, chosen: Any) -> list[LastRecord]:
        numbers = sorted((at for at, _ in chosen), reverse=True)
        return [LastRecord(tp(n), 9, tp(n, "a.orders"), 9) for n in numbers]

    def led(_: Any, partitions: Any) -> dict[TopicPartition, int]:
        return {it: it.partition for it in partitions if it.partition not in source.leaderless}

    def epochs(*_: Any) -> dict[TopicPartition, int]:
        return {tp(number): offset for number, offset in source.epochs.items()}

    monkeypatch.setattr(module, "newest_records", newest)
    monkeypatch.setattr(module, "last_records", last)
    monkeypatch.setattr(module, "diverged_epochs", epochs)
    monkeypatch.setattr(module, "connect", lambda _: nullcontext())
    monkeypatch.setattr(module, "led_logs", led)
    monkeypatch.setattr(module, "has_copied", source.compare)
    monkeypatch.setattr(module.time, "monotonic", lambda: source.now)
    return source


def test_a_plan_looks_at_the_newest_one_and_a_sample_of_those_with_something_new(
    source: Source,
) -> None:
    assert source.look(whole=False, grown=30) == DivergedLogs({})
    assert source.looked == [39, *range(29, 13, -1)]


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
