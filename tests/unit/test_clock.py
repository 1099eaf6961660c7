from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafka_ferry import clock
from kafka_ferry.clock import duration_text, moment_text, ms_of, read_moment, run_id_now, until_text

AT = 1_785_578_400_000  # 2026-08-01T10:00Z
CEST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 8, 1, 10, tzinfo=UTC),
        datetime(2026, 8, 1, 12, tzinfo=CEST),
        datetime(2026, 8, 1, 10),
    ],
)
def test_a_moment_without_a_time_zone_is_in_utc(moment: datetime) -> None:
    assert ms_of(moment) == AT


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-08-01T10:00Z", AT),
        (" 2026-08-01 12:00:00+02:00 ", AT),
        ("2026-08-01", AT - 10 * 3_600_000),
        ("2026-08-01T10:00:00.001", AT + 1),
    ],
)
def test_a_moment_is_a_day_or_a_time_in_iso_8601(text: str, at: int) -> None:
    assert read_moment(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2026-13-01",
        "1.8.2026",
        "20260801",
        "20260801T100000Z",
        "2026-W31-6",
        "2026-213",
    ],
)
def test_another_text_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_moment(text)


def test_a_moment_is_shown_in_utc() -> None:
    assert moment_text(AT) == "2026-08-01 10:00:00 UTC"
    assert moment_text(AT, seconds=False) == "2026-08-01 10:00 UTC"
    for never in (2**62, -(2**63), 2**63 - 1):
        assert moment_text(never) == f"timestamp {never}"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (0.4, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (133, "2 min 13 s"),
        (3_599.6, "1 h 0 min"),
        (11_100, "3 h 5 min"),
        (172_000, "47 h 46 min"),
        (360_000, "4 d 4 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown


@pytest.mark.parametrize(
    ("moments", "shown"),
    [
        ([], ""),
        ([None, 0], ""),
        ([60_000, 120_000], "1970-01-01 00:01:00 UTC (2 min 0 s ago)"),
        ([60_000, None, 0], "1970-01-01 00:01:00 UTC (2 min 0 s ago), but for 2 partitions"),
    ],
)
def test_partitions_are_proved_until_the_oldest_moment(
    monkeypatch: pytest.MonkeyPatch, moments: list[int | None], shown: str
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: 180_000)
    assert until_text(moments) == shown


def test_two_commands_of_one_second_are_two_runs() -> None:
    ids = [run_id_now("cli") for _ in range(2)]
    assert ids[0] != ids[1]
    assert ids == sorted(ids)
