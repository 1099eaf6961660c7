"""When a flow runs, as its file says it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from tests.unit.config.builders import a_flow

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        ("15 minutes", timedelta(minutes=15)),
        ("1 day 12 hours", timedelta(hours=36)),
        ("1hour 30minutes", timedelta(minutes=90)),
        ("2 weeks", timedelta(days=14)),
        ("90 seconds", timedelta(seconds=90)),
        ("PT15M", timedelta(minutes=15)),
        ("P1DT12H", timedelta(hours=36)),
        ("@hourly", None),
        ("*/15 * * * *", None),
        ("", None),
    ],
)
def test_a_schedule_may_be_a_span_of_time(given: str, interval: timedelta | None) -> None:
    assert a_flow(schedule=given).schedule_interval == interval


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("schedule", "0 minutes", "span of time"),
        ("schedule", "PT0S", "span of time"),
        ("schedule", "15 fortnights", "cron expression"),
        ("schedule", "-5 minutes", "cron expression"),
        ("schedule", "61 * * * *", "has '61' as its minute, which must be within 0-59"),
        ("schedule", "0 0 31 2 *", "is never due"),
        ("schedule", "0 r/5 * * *", "has R, which is another time"),
        ("schedule", "*/15 * * *", "five fields.* and not '"),
        ("schedule", "\N{ARABIC-INDIC DIGIT THREE} * * * *", "cron expression"),
        ("start_date", "0001-01-01", "between 1970 and 2999"),
        ("start_date", "9999-12-31T23:00-05:00", "between 1970 and 2999"),
        ("deadline", "soon", "span of time"),
        ("deadline", "0 hours", "span of time"),
        ("deadline_from", "start", "queued"),
        ("timezone", "Mars/Olympus", "time zone"),
        ("timezone", "../etc/passwd", "time zone"),
        ("start_date", "soon", "date"),
        ("pool", "", "1 character"),
        ("priority", 0, "greater"),
        # What is larger than the room in Airflow's database ends its scheduler.
        ("retries", 1_001, "less than or equal to 1000"),
        ("deadline", "999999999 days", "100 years"),
        ("schedule", "36501 days", "100 years"),
        ("schedule", "0" + ",0" * 73 + " * * * *", "150 characters at most, and has 155"),
        ("pool", "p" * 251, "at most 250 characters"),
        ("schedule_assets", ["a" * 1_501], "1,500 bytes at most"),
        ("schedule_assets", ["\u4e00" * 501], "1,500 bytes at most"),
        ("schedule_assets", [str(n) for n in range(101)], "has 101 names, and may have 100"),
        ("asset_events", "some", "verified"),
        ("schedule_assets_when", "one", "all"),
    ],
)
def test_what_is_no_time_is_refused(option: str, value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        a_flow(**{option: value})


@pytest.mark.parametrize(
    ("start", "zone", "begins"),
    [
        ("2026-02-03", "UTC", datetime(2026, 2, 3, tzinfo=UTC)),
        (date(2026, 2, 3), "Europe/Berlin", datetime(2026, 2, 3, tzinfo=BERLIN)),
        ("2026-02-03T06:30", "Europe/Berlin", datetime(2026, 2, 3, 6, 30, tzinfo=BERLIN)),
        ("2026-02-03T06:30Z", "Europe/Berlin", datetime(2026, 2, 3, 6, 30, tzinfo=UTC)),
        (datetime(2026, 2, 3, 6, 30), "UTC", datetime(2026, 2, 3, 6, 30, tzinfo=UTC)),
    ],
)
def test_a_timetable_begins_at_a_day_or_a_moment(
    start: object, zone: str, begins: datetime
) -> None:
    flow = a_flow(start_date=start, timezone=zone)

    assert flow.begins == begins
    assert flow.begins.utcoffset() == begins.utcoffset()


def test_a_flow_that_waits_for_assets_has_a_timetable_only_where_its_file_says_so() -> None:
    assert a_flow(schedule_assets="a, kafka://b/c").schedule is None
    assert a_flow(schedule_assets=["a"]).schedule_assets == ("a",)
    assert a_flow(schedule_assets=["a"], schedule="@daily").schedule == "@daily"
    assert a_flow(schedule_assets=[]).schedule == "@hourly"


def test_a_deadline_is_a_span_of_time_or_none() -> None:
    assert a_flow(deadline="45 minutes").deadline == timedelta(minutes=45)
    assert a_flow(deadline="").deadline is None
    assert a_flow().deadline is None
