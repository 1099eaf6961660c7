"""Which copied offsets the source still has as they were copied."""

from __future__ import annotations

import pytest

from kafka_ferry.runs.provenance.branches import Branches


@pytest.mark.parametrize(
    ("offsets", "ledger_offset", "kept"),
    [
        ((0, 40), 1, (0, 40)),
        # Copied before the source had lost what came after 50, and again after it.
        ((40, 70), 2, (40, 50)),
        ((60, 70), 3, None),
        ((50, 70), 9, (50, 70)),
        # From 80 on it has lost what was copied then, too.
        ((70, 90), 10, (70, 80)),
        ((80, 90), 10, None),
    ],
)
def test_what_a_source_has_lost_certifies_nothing_that_took_its_offsets(
    offsets: tuple[int, int], ledger_offset: int, kept: tuple[int, int] | None
) -> None:
    branches = Branches({("id", 0): 80, ("unknown", 0): -1}, {("id", 0): [(50, 9)]})
    assert branches.kept(("id", 0), offsets, ledger_offset) == kept
    assert branches.kept(("unknown", 0), offsets, ledger_offset) is None
    assert branches.kept(("other", 0), offsets, ledger_offset) == offsets
