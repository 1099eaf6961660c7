"""What counts as an entry of a ledger's topic."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from kafka_ferry.batches import single_record
from kafka_ferry.ledger import Entry, LedgerError, RunEntry, TransactionEntry
from kafka_ferry.ledger.record import encode
from kafka_ferry.ledger.topic import ledger_values
from tests.unit.plan.builders import a_flow

from .entries import FLOW, NOW, a_copied_range

_TRANSACTIONAL = 0x10
RANGES = tuple(a_copied_range(0, 0, partition=number, segments=()) for number in range(5_000))


@pytest.mark.parametrize(
    ("entry", "is_one"),
    [
        (TransactionEntry(flow=FLOW, run="r", at=NOW, writer=0, ranges=RANGES), True),
        (RunEntry(flow=FLOW, run="r", at=NOW, writers=1, file="x" * 2**20), False),
    ],
    ids=["5,000 ranges", "a mebibyte in a kilobyte"],
)
def test_what_a_few_bytes_spread_to_many_is_no_entry(
    entry: Entry, is_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = encode(entry)[1]
    header = single_record(b"key", value, NOW).header
    header = header._replace(attributes=header.attributes | _TRANSACTIONAL)
    topic = "kafka_ferry.ledger.topic"
    monkeypatch.setattr(f"{topic}.connect", lambda _: nullcontext())
    monkeypatch.setattr(f"{topic}.committed_records", lambda *_, **__: [(header, 7, value)])

    ((at, same, read, _),) = ledger_values(a_flow().target, "ledger", 0)

    assert (at, same) == (7, value)
    if is_one:
        assert read == entry
    else:
        assert isinstance(read, LedgerError)
        assert read.message.startswith("ledger offset 7: not a ledger record: 1,048,")
