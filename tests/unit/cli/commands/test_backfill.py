"""The moments of a backfill's window, as people write them."""

from __future__ import annotations

import pytest

from kafka_ferry.cli.commands import backfill
from kafka_ferry.cli.commands.backfill import moment_ms, window_of
from kafka_ferry.errors import InputError
from kafka_ferry.model import Window

NOW = 1_700_000_000_000
HOUR = 60 * 60 * 1000


@pytest.fixture(autouse=True)
def at_a_fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "now_ms", lambda: NOW)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-02", 24 * HOUR),
        ("1970-01-01T02:00", 2 * HOUR),
        ("1970-01-01T02:00+01:00", HOUR),
        ("-3h", NOW - 3 * HOUR),
        ("-7d", NOW - 7 * 24 * HOUR),
        ("-0d", NOW),
        ("PT3H", NOW - 3 * HOUR),
    ],
)
def test_a_moment_is_a_day_a_time_or_so_long_ago(text: str, moment: int) -> None:
    assert moment_ms("--since", text) == moment


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("7d", "is not a moment"),
        ("-7", "is not a moment"),
        ("latest", "is not a moment"),
        ("2026-02-30", "is in no calendar"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=f"--since {text} {why}"):
        moment_ms("--since", text)


def test_a_window_ends_after_it_begins() -> None:
    assert window_of("-2h", "-1h") == Window(NOW - 2 * HOUR, NOW - HOUR)
    with pytest.raises(InputError, match="is not after"):
        window_of("-1h", "-2h")
