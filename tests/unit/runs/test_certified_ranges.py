"""Which parts of a certificate's ranges were read back, where a person has accepted that others are missing."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.runs.certified_ranges import _parts

ROW = {"topic": "orders", "copied": 40}


@pytest.mark.parametrize(
    ("absent", "missing", "parts"),
    [
        ({}, (), [((30, 70), 0)]),
        ({"accepted": 5}, ((40, 43), (50, 52)), [
            *[((30, 40), 0), ((43, 50), 0), ((52, 70), 0)],
            *[((40, 43), 3), ((50, 52), 2)],
        ]),
        # The source has lost a part of it since.
        ({"accepted": 30}, ((60, 90),), [((30, 60), 0), ((60, 70), 10)]),
        # The certificate is older than the loss, or knows of a smaller one.
        ({}, ((40, 43),), [((30, 70), 0)]),
        ({"accepted": 2}, ((40, 43),), [((30, 70), 2)]),
        # Which ones have expired, nothing says.
        ({"accepted": 3, "expired": 1}, ((40, 43),), [((30, 70), 4)]),
        ({"compacted": 9}, (), [((30, 70), 0)]),
    ],
)  # fmt: skip
def test_of_a_range_with_accepted_losses_the_rest_counts(
    absent: dict[str, int], missing: Any, parts: list[Any]
) -> None:
    assert list(_parts({**ROW, "absent": absent}, (30, 70), missing)) == parts
