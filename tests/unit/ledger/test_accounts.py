"""The sums of the ledger's accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.ledger import BackfillEntry, Entry, LedgerTable, TransactionEntry
from kafka_ferry.ledger.accounts import By, accounts
from kafka_ferry.state import StateFolder
from tests.support.runs.flows import ledger_topic
from tests.unit.ledger.entries import FLOW, NOW, a_copied_range, a_run, a_verification

WITH_REASONS = {"records": 6, "reasons": {"lost": 3, "aborted": 1}, "lost": ((0, 3),)}


def transaction(run: str, at: int, *ranges: object) -> TransactionEntry:
    return TransactionEntry(flow=FLOW, run=run, at=NOW + at, writer=0, ranges=ranges)


ENTRIES: list[Entry] = [
    a_run(),
    transaction("run-1", 1, a_copied_range(0, 10, **WITH_REASONS)),
    transaction("run-1", 2, a_copied_range(0, 5, topic="payments"), a_copied_range(10, 20)),
    a_verification(3),
    # The source was truncated to 15, and 5 offsets had been copied from there on.
    transaction("run-2", 9, a_copied_range(15, 18, rewound_from=20)),
    transaction("run-2", 9, a_copied_range(0, 2, partition=1, records=0, reasons={"control": 2})),
    BackfillEntry(
        **{"flow": FLOW, "run": "fill", "at": NOW + 5, "writer": 0, "since": 0, "until": 9},
        ranges=(a_copied_range(0, 10, records=0, reasons={"copied-before": 10}),),
    ),
]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LedgerTable:
    monkeypatch.setattr(
        "kafka_ferry.ledger.projection.read_ledger", lambda *_: iter(enumerate(ENTRIES))
    )
    table = LedgerTable(StateFolder(str(tmp_path)), FLOW)
    target = object()
    table.project(target, ledger_topic("primary"))  # type: ignore[arg-type]
    return table


@pytest.mark.parametrize(
    ("by", "of", "expected"),
    [
        (
            "run",
            {},
            [
                ("run-1", False, 1, 2, 25, 21, 0, {"lost": 3, "aborted": 1}),
                ("fill", True, 5, 5, 10, 0, 0, {"copied-before": 10}),
                ("run-2", False, 9, 9, 5, 3, 5, {"control": 2}),
            ],
        ),
        (
            "topic",
            {},
            [
                ("orders", False, 1, 9, 25, 19, 5, {"lost": 3, "aborted": 1, "control": 2}),
                ("payments", False, 2, 2, 5, 5, 0, {}),
                ("orders", True, 5, 5, 10, 0, 0, {"copied-before": 10}),
            ],
        ),
        (
            "partition",
            {"topic": "orders"},
            [
                ("0", False, 1, 9, 23, 19, 5, {"lost": 3, "aborted": 1}),
                ("0", True, 5, 5, 10, 0, 0, {"copied-before": 10}),
                ("1", False, 9, 9, 2, 0, 0, {"control": 2}),
            ],
        ),
        (
            "run",
            {"topic": "orders", "partition": 1},
            [("run-2", False, 9, 9, 2, 0, 0, {"control": 2})],
        ),
        ("run", {"topic": "unheard of"}, []),
    ],
)
def test_accounts_are_sums_of_copied_records_and_each_reason(
    ledger: LedgerTable, by: By, of: dict[str, object], expected: list[tuple[object, ...]]
) -> None:
    found = accounts(ledger, by, **of)  # type: ignore[arg-type]
    told = [
        (
            *(it.name, it.backfill, it.first_at - NOW, it.last_at - NOW),
            *(it.offsets, it.copied, it.rewound, it.reasons),
        )
        for it in found
    ]
    assert told == expected
    for it in found:
        assert it.offsets == it.copied + sum(it.reasons.values())
        assert it.rewinds == bool(it.rewound)


def test_a_flow_that_has_copied_nothing_has_no_accounts(tmp_path: Path) -> None:
    assert accounts(LedgerTable(StateFolder(str(tmp_path)), FLOW), "run") == []
