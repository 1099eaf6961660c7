"""A ledger's topic without a cluster, and tables that are projected from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafka_ferry.config import Cluster
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.record import Entry
from kafka_ferry.state import StateFolder

from .entries import (
    FLOW,
    NOW,
    a_copied_range,
    a_run,
    a_transaction,
    a_verification,
)

TARGET = Cluster(alias="backup", properties={"bootstrap.servers": "target:9092"})
OTHER = "primary->elsewhere"
TOPIC = "ferry-ledger.primary.internal"

TRANSACTION = a_transaction(
    a_copied_range(
        0,
        10,
        reasons={"aborted": 2},
        rebuilt={"offset gaps": 1},
        lost=((3, 7),),
        leader_epoch=5,
    ),
    a_copied_range(5, 8, topic="payments", partition=3),
)
LEDGER: list[tuple[int, Entry]] = [
    (0, a_run()),
    (2, TRANSACTION),
    (4, a_transaction(a_copied_range(10, 20), flow=OTHER)),
    (6, a_transaction(a_copied_range(10, 20), at=NOW + 5)),
    (8, a_verification(7)),
    (10, a_verification(40, flow=OTHER)),
    (12, a_run("run-2", writers=8)),
    (14, a_run("run-9", flow=OTHER, writers=99)),
    (16, a_transaction(a_copied_range(20, 25), run="run-2", writer=0, at=NOW + 9)),
]


@dataclass
class Topic:
    """The ledger's topic on the target; as ``read_ledger`` it gives what was committed by now."""

    entries: list[tuple[int, Entry]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def read_ledger(self, cluster: Cluster, topic: str, start: int) -> Iterator[tuple[int, Entry]]:
        assert (cluster, topic) == (TARGET, TOPIC)
        self.starts.append(start)
        end = max((offset + 2 for offset, _ in self.entries), default=0)
        # The consumer's auto.offset.reset is earliest.
        first = start if start <= end else 0
        return iter([entry for entry in self.entries if entry[0] >= first])


def project(table: LedgerTable, ledger: Topic, entries: list[tuple[int, Entry]]) -> int:
    ledger.entries = entries
    return table.project(TARGET, TOPIC)


def a_table(folder: Path) -> LedgerTable:
    return LedgerTable(StateFolder(str(folder)), FLOW)


def projected_table(folder: Path, ledger: Topic, entries: list[tuple[int, Entry]]) -> LedgerTable:
    table = a_table(folder)
    project(table, ledger, entries)
    return table


def in_steps(table: LedgerTable, ledger: Topic, size: int) -> int:
    following = 0
    for count in range(size, len(LEDGER) + size, size):
        following = project(table, ledger, LEDGER[:count])
    return following
