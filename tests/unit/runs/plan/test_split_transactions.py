"""Whether a record was left out as aborted, by the ranges of the ledger that have its offset."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.model import TopicPartition, Window
from kafka_ferry.runs.plan import split_transactions
from tests.unit.ledger.entries import a_copied_range

AT = 3
WINDOW = Window(0, 10)


def copied(*segments: Segment, window: Window | None = None, **reasons: int) -> LedgerRange:
    """A range of ten offsets, with these segments and reasons."""
    named = {name.replace("_", "-"): offsets for name, offsets in reasons.items()}
    records = sum(it.records for it in segments)
    range_ = a_copied_range(0, 10, segments=segments, records=records, reasons=named)
    return LedgerRange(1, "run", range_, 0, window)


ALL, NOT_ALL = Segment(0, 0, 10), Segment(5, 0, 5)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        pytest.param([], None, id="the flow began after it"),
        pytest.param([copied(ALL)], False, id="copied"),
        pytest.param([copied(NOT_ALL, aborted=4, control=1)], True, id="left out"),
        pytest.param([copied(ALL), copied(NOT_ALL, aborted=5)], True, id="copied anew"),
        pytest.param([copied(NOT_ALL, filtered=5)], False, id="left out by a rule"),
        pytest.param([copied(ALL, window=WINDOW)], False, id="backfilled"),
        pytest.param([copied(NOT_ALL, window=WINDOW, aborted=5)], True, id="in no backfill"),
        pytest.param(
            [copied(ALL, window=WINDOW), copied(window=WINDOW, copied_before=10)],
            False,
            id="backfilled by an earlier one",
        ),
        pytest.param(
            [copied(NOT_ALL, window=WINDOW, aborted=2, outside_window=3)],
            None,
            id="perhaps of another time",
        ),
        pytest.param(
            [copied(NOT_ALL, aborted=5), copied(ALL, window=WINDOW)],
            True,
            id="an ordinary one first",
        ),
    ],
)
def test_whether_a_record_was_left_out_as_aborted(
    monkeypatch: pytest.MonkeyPatch, ranges: list[LedgerRange], expected: bool | None
) -> None:
    monkeypatch.setattr(split_transactions, "ranges_with", lambda *_: ranges)
    no_ledger: Any = None
    assert split_transactions._was_aborted(no_ledger, TopicPartition("orders", 0), AT) is expected
