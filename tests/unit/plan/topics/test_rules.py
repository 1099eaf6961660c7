"""Which topics' records go through another transform rule than before."""

from __future__ import annotations

import pytest

from kafka_ferry.model import Range
from kafka_ferry.plan.topics.rules import idle_rule_changes, rule_changes
from tests.unit.config.builders import a_flow

FLOW = a_flow(transform=[{"topics": ["other"], "where": "1=1"}, {"topics": ["t"], "where": "2=2"}])
NOW = FLOW.fingerprint_of("t")


def a_range(transform: str, records: int = 1) -> Range:
    return Range("t", 0, 0, records, "id", "t", 0, transform=transform)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, NOW, f"records of t go through rule 2 ({NOW})"),
        (
            {"t": ""},
            NOW,
            f"records of t go through rule 2 ({NOW}) from now on; earlier ones stayed as they are",
        ),
        (
            {"t": "old"},
            NOW,
            f"records of t go through rule 2 ({NOW}) from now on; earlier ones went through rule old",
        ),
    ],
)
def test_a_new_rule_is_named_with_what_was_before(
    before: dict[str, str], now: str, said: str
) -> None:
    assert [str(it) for it in rule_changes(FLOW, [a_range(now)] * 2, before)] == [said]


def test_a_rule_that_is_gone_is_a_change_too() -> None:
    (change,) = rule_changes(a_flow(), [a_range("")], {"t": "old"})

    assert (
        str(change)
        == "records of t stay as they are from now on; earlier ones went through rule old"
    )


@pytest.mark.parametrize(
    ("before", "range_"),
    [({"t": NOW}, a_range(NOW)), ({"t": "old"}, a_range(NOW, records=0)), ({}, a_range(""))],
)
def test_what_stays_or_copies_nothing_is_no_change(before: dict[str, str], range_: Range) -> None:
    assert not list(rule_changes(FLOW, [range_], before))


@pytest.mark.parametrize(
    ("before", "ranges", "is_told"),
    [
        ({"t": ""}, [], True),
        ({"t": "old"}, [a_range(NOW, records=0)], True),
        ({"t": "old"}, [a_range(NOW)], False),
        ({"t": NOW}, [], False),
        ({}, [], False),
    ],
)
def test_a_rule_that_waits_for_new_records_is_a_note(
    before: dict[str, str], ranges: list[Range], is_told: bool
) -> None:
    notes = [it.message for it in idle_rule_changes(FLOW, ["t", "u"], ranges, before)]
    assert [it[:20] for it in notes] == ["Nothing is new in t:"] * is_told
