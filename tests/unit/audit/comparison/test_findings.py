"""Records that differ become as few findings as say where each of them is."""

from __future__ import annotations

import pytest

from kafka_ferry.audit.comparison.findings import Differing, runs


def said(*differing: Differing) -> list[str]:
    return [finding.sentence for finding in runs(differing, "orders", 3, "eu.orders")]


@pytest.mark.parametrize(
    ("differing", "sentences"),
    [
        ([], []),
        (
            [Differing("missing", at, -1) for at in (12, 10, 11, 14)],
            [
                "3 records of orders-3 offsets 10 to 12 missing on the target",
                "1 record of orders-3 offset 14 missing on the target",
            ],
        ),
        # Consecutive on one side only.
        (
            [Differing("reordered", 10, 30), Differing("reordered", 11, 29)],
            [
                "1 record of orders-3 offset 10 out of order at eu.orders-3 offset 30",
                "1 record of orders-3 offset 11 out of order at eu.orders-3 offset 29",
            ],
        ),
        (
            [Differing("altered", 1, 5, ("key",)), Differing("altered", 2, 6, ("key", "value"))],
            [
                "1 record of orders-3 offset 1 altered at eu.orders-3 offset 5: key",
                "1 record of orders-3 offset 2 altered at eu.orders-3 offset 6: key and value",
            ],
        ),
        (
            [Differing("altered", 1, 5, ("partition",), 4), Differing("altered", 2, 6)],
            [
                "1 record of orders-3 offset 2 altered at eu.orders-3 offset 6: ",
                "1 record of orders-3 offset 1 altered at eu.orders-4 offset 5: partition",
            ],
        ),
        (
            [
                Differing("doubled", 4, 40),
                Differing("doubled", 5, 41),
                Differing("doubled", -1, 42),
            ],
            [
                "2 records at eu.orders-3 offsets 40 to 41 doubled: of orders-3 offsets 4 to 5",
                "1 record at eu.orders-3 offset 42 doubled: an earlier copy is on the target, and the "
                "source has deleted its record",
            ],
        ),
        (
            [Differing("foreign", -1, 7), Differing("missing", 7, -1)],
            [
                "1 record of orders-3 offset 7 missing on the target",
                "1 record at eu.orders-3 offset 7 foreign: the source does not have them",
            ],
        ),
    ],
)
def test_records_with_consecutive_offsets_are_one_finding(
    differing: list[Differing], sentences: list[str]
) -> None:
    assert said(*differing) == sentences
