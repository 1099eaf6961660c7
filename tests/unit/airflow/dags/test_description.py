"""What a flow's DAG says of itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafka_ferry_airflow.dags.description import describe
from tests.unit.plan.builders import a_flow


def row(name: str, **options: Any) -> str:
    """A row of the table, without its name."""
    (line,) = [
        it for it in describe(a_flow(**options)).splitlines() if it.startswith(f"| {name} |")
    ]
    return line.removeprefix(f"| {name} | ").removesuffix(" |")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"schedule": None}, "none: you trigger it"),
        ({"schedule": "@daily"}, "`@daily` (UTC)"),
        ({"schedule": "0 6 * * *", "timezone": "Europe/Berlin"}, "`0 6 * * *` (Europe/Berlin)"),
        ({"schedule": "15 minutes"}, "every `15 minutes`"),
        (
            {"schedule": None, "schedule_assets": ["a", "s3://b/c"]},
            "when all of `a`, `s3://b/c` were updated",
        ),
        (
            {"schedule": "@daily", "schedule_assets": ["a"], "schedule_assets_when": "any"},
            "`@daily` (UTC), or when any of `a` were updated",
        ),
    ],
)
def test_its_timetable_is_told(options: dict[str, Any], told: str) -> None:
    assert row("timetable", **options) == told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "`primary.<topic>`"),
        ({"replication_policy_separator": "-"}, "`primary-<topic>`"),
        (
            {"replication_policy_class": "IdentityReplicationPolicy", "topics_rename": {"a": "b"}},
            "the same as on the source; 1 by `topics.rename`",
        ),
        ({"replication_policy_class": "acme.names.Policy"}, "by `acme.names.Policy`"),
    ],
)
def test_names_on_the_target_are_told(options: dict[str, Any], told: str) -> None:
    assert row("names on the target", **options) == told


def test_a_pattern_does_not_end_the_cell_of_the_table() -> None:
    assert row("left out", topics_exclude=["a|b", "c"]) == r"`a\|b`, `c`"
    assert row("left out", topics_exclude=[]) == "nothing"


def test_no_text_of_the_file_is_markup_or_longer_than_people_read() -> None:
    told = row("timetable", schedule=None, schedule_assets=["a`\n\n# ok [b](https://c)"])
    assert told == r"when all of `` a`\n\n# ok [b](https://c) `` were updated"
    assert row("left out", topics_exclude=["``a``"]) == "``` ``a`` ```"
    assert row("left out", topics_exclude=["a"] * 102).endswith(", `a` and 2 more")


def test_a_deadline_says_since_when_it_counts() -> None:
    assert row("deadline") == "none"
    told = row("deadline", deadline=timedelta(minutes=90), deadline_from="logical-date")
    assert told == "1:30:00 (hours:minutes:seconds) after its logical date"


def test_keys_of_the_file_without_effect_are_listed_at_the_end() -> None:
    ignored = a_flow().model_copy(update={"ignored": (("tasks.max", "writers says it"),)})
    assert describe(ignored).endswith(
        "In the file, but without effect here:\n\n- `tasks.max`: writers says it\n"
    )
