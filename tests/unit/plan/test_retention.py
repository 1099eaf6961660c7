"""Remote topics that delete what the source still keeps are named, unless the flow asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.model.changes import Applied
from tests.unit.plan.builders import DAY, a_flow, a_remote, a_source, a_state, planned

WEEK = str(7 * DAY)
OURS = "primary.orders deletes records that the source keeps, copied and proved or not: it keeps "


def notes(source: dict[str, str], remote: dict[str, str], **options: Any) -> list[str]:
    topic = a_source(configs={name.replace("_", "."): value for name, value in source.items()})
    state = a_state(topic, target=[a_remote(**remote)])
    return [note.message for note in planned(state, a_flow(**options)).remarks.notes]


@pytest.mark.parametrize(
    ("source", "remote", "limits"),
    [
        (
            {"retention_ms": WEEK},
            {"retention_ms": "30000"},
            "30 s (retention.ms=30000), the source 7 d 0 h",
        ),
        (
            {"retention_ms": "-1"},
            {"retention_ms": WEEK},
            f"7 d 0 h (retention.ms={WEEK}), the source all",
        ),
        (
            {"cleanup_policy": "compact", "retention_ms": WEEK},
            {"cleanup_policy": "compact,delete", "retention_ms": WEEK},
            f"7 d 0 h (retention.ms={WEEK}), the source all",
        ),
        (
            {"retention_ms": "5", "retention_bytes": "-1"},
            {"retention_ms": "5", "retention_bytes": "1000"},
            "1,000 bytes of each partition (retention.bytes), the source all",
        ),
        (
            {"retention_ms": "6000", "retention_bytes": "2000"},
            {"retention_ms": "5000", "retention_bytes": "1000"},
            "5.0 s (retention.ms=5000), the source 6.0 s and 1,000 bytes of each partition (retention.bytes), "
            "the source 2,000 bytes of each partition",
        ),
    ],
)
def test_a_remote_topic_that_deletes_sooner_is_named(
    source: dict[str, str], remote: dict[str, str], limits: str
) -> None:
    (message,) = notes(source, remote)
    assert message.startswith(f"{OURS}{limits}. Set retention.")


@pytest.mark.parametrize(
    ("source", "remote", "options"),
    [
        ({"retention_ms": WEEK}, {"retention_ms": WEEK}, {}),
        ({"retention_ms": WEEK}, {"retention_ms": "-1"}, {}),
        (
            {"retention_ms": WEEK, "retention_bytes": "9"},
            {"retention_ms": WEEK, "retention_bytes": "-1"},
            {},
        ),
        ({"retention_ms": WEEK}, {"retention_ms": "1", "cleanup_policy": "compact"}, {}),
        (
            {"retention_ms": WEEK},
            {"retention_ms": "1000"},
            {"topics.configs": {".*": {"retention.ms": "1000"}}},
        ),
    ],
)
def test_what_keeps_as_much_or_was_asked_for_is_not(
    source: dict[str, str], remote: dict[str, str], options: dict[str, Any]
) -> None:
    assert notes(source, remote, **options) == []


def test_what_the_run_is_about_to_change_is_looked_at_when_it_has() -> None:
    source = a_source(configs={"retention.ms": WEEK}, overrides=frozenset({"retention.ms"}))
    remote = a_remote(retention_ms="1000")
    applied = Applied(configs={remote.topic_id: {}})
    plan = planned(a_state(source, target=[remote], applied=applied), a_flow())
    assert [str(it) for it in plan.topics.config_changes] == [
        f"primary.orders: set retention.ms={WEEK}"
    ]
    assert plan.remarks.notes == ()
