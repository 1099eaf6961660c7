"""What a copy waited for, in words."""

from __future__ import annotations

import pytest

from kafka_ferry.model.waits import NO_WAITS, Waits


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        (NO_WAITS, ""),
        (Waits(10, 0.05, 0.05, 0.05), ""),
        (
            Waits(10, 1, 5, 2),
            "50 % waiting for backup, 20 % waiting for the rate limit, 10 % waiting for primary",
        ),
        (Waits(10, 7, 0, 0, 0.1021, 0.0003), "70 % waiting for primary (102 ms away)"),
        (Waits(10, 0, 7, 0, 0.0, 0.2), "70 % waiting for backup (200 ms away)"),
    ],
)
def test_what_took_most_comes_first_and_distance_is_told(waits: Waits, said: str) -> None:
    assert waits.text("primary", "backup") == said


def test_tasks_are_added_up() -> None:
    assert Waits(10, 1, 2, 3, 0.1, 0.2) + Waits(5, 1, 1, 1, 0.3, 0.1) == Waits(
        15, 2, 3, 4, 0.3, 0.2
    )
