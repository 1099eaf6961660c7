"""Which groups a flow moves, and which of them may be written to."""

from __future__ import annotations

import pytest

from kafka_ferry.model.groups import (
    Group,
    chosen_groups,
    slow_names_notes,
    unused_patterns,
    unused_patterns_notes,
)
from tests.unit.plan.builders import a_flow


@pytest.mark.parametrize(
    ("name", "is_chosen"),
    [
        ("app", True),
        ("ferryman", True),
        # MirrorMaker 2's defaults.
        ("console-consumer-1", False),
        ("connect-sink", False),
        ("__amazon_msk", False),
        # Those of Kafka Ferry, of any flow.
        ("ferry.primary.backup", False),
        ("ferry-ledger-reader", False),
    ],
)
def test_groups_of_tools_and_its_own_are_left_out(name: str, is_chosen: bool) -> None:
    assert bool(chosen_groups([Group(name)], a_flow().group_filter)) == is_chosen


def test_its_own_are_left_out_whatever_the_flow_says() -> None:
    everything = a_flow(groups=["ferry.*", "app"], groups_exclude=[])
    groups = [Group("ferry.a"), Group("ferryman"), Group("app"), Group("other")]
    assert [it.name for it in chosen_groups(groups, everything.group_filter)] == ["app", "ferryman"]


@pytest.mark.parametrize(
    ("state", "idle"),
    [
        ("Empty", True),
        ("Dead", True),
        ("Stable", False),
        ("PreparingRebalance", False),
        ("", False),  # brokers before 2.6 do not say
    ],
)
def test_only_a_group_that_certainly_has_no_members_is_idle(state: str, idle: bool) -> None:
    assert Group("app", state=state).idle == idle


def test_patterns_that_match_no_group_are_told() -> None:
    groups = [Group("app"), Group("two\nlines")]
    assert unused_patterns([it.name for it in groups], [".*"]) == []
    assert unused_patterns([], [".*", "app"]) == ["app"]
    names = [it.name for it in groups]
    assert unused_patterns(names, ["app", "two.*", "ap", "other.*"]) == ["ap", "other.*"]
    assert [*unused_patterns_notes("east", names, ["ap"])] == [
        "groups has 'ap', which matches no group of east that the flow may see. Did you mean 'app'?"
    ]


def test_ids_that_take_too_long_are_told_of() -> None:
    wanted = a_flow(groups=(".*-.*-app",)).group_filter
    (note,) = slow_names_notes("east", ["a-b-app", "-" * 32_000, "other", "-" * 31_000], wanted)
    assert note.startswith("Groups of east are left out whose ids take too long for groups and")
    assert "- and 1 more. " in note
    assert len(note) < 300
    assert list(slow_names_notes("east", ["a-b-app", "other"], wanted)) == []
