"""What ACLs can name of a flow's patterns: enough for everything that a pattern matches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config.types.name_filter import compile_patterns
from kafka_ferry.plan.topics.resources import Resource, remote_resources, resources_of
from tests.unit.plan.builders import a_flow

EVERY = Resource("*")


def prefix(name: str) -> Resource:
    return Resource(name, prefixed=True)


@pytest.mark.parametrize(
    ("pattern", "resources"),
    [
        ("orders", [Resource("orders")]),
        ("eu.orders-v2_x", [Resource("eu.orders-v2_x")]),
        (r"eu\.orders", [Resource("eu.orders")]),
        ("payments.*", [prefix("payments")]),
        (r"payments\..*", [prefix("payments.")]),
        ("eu.orders-.*", [prefix("eu.orders-")]),
        ("orders?", [prefix("order")]),
        ("orders-[0-9]+", [prefix("orders-")]),
        (r"orders-\d", [prefix("orders-")]),
        ("a|b.*", [Resource("a"), prefix("b")]),
        ("orders(-eu|-us)", [EVERY]),
        (".*", [EVERY]),
        ("o?rders", [EVERY]),
        ("(?i)orders", [EVERY]),
        ("[a-z]+", [EVERY]),
    ],
)
def test_a_pattern_is_a_name_a_prefix_or_everything(
    pattern: str, resources: list[Resource]
) -> None:
    assert list(resources_of([pattern])) == resources


PARTS = st.sampled_from(["a", "b", "-", r"\.", ".", ".*", "a+", "b?", "a{2}", "[ab]", "(a|b)", "|"])


@given(st.lists(PARTS, min_size=1, max_size=5).map("".join), st.text("ab-", max_size=4))
def test_whatever_a_pattern_matches_is_covered_but_where_a_dot_stands_for_another_letter(
    pattern: str, name: str
) -> None:
    if compile_patterns([pattern]).fullmatch(name):
        covered = any(
            found.name == "*"
            or (name.startswith(found.name) if found.prefixed else name == found.name)
            for found in resources_of([pattern])
        )
        assert covered or "." in pattern


def test_several_patterns_are_named_once_each_and_flags_hold_for_those_that_follow() -> None:
    assert resources_of(["orders", "b.*", "orders"]) == (Resource("orders"), prefix("b"))
    assert resources_of(["(?i)a", "orders"]) == (EVERY,)


@pytest.mark.parametrize(
    ("options", "resources"),
    [
        ({"topics": ["orders", "b.*"]}, [Resource("primary.orders"), prefix("primary.b")]),
        ({"topics": [".*"]}, [prefix("primary.")]),
        ({"topics": [".*"], "replication_policy_class": "IdentityReplicationPolicy"}, [EVERY]),
        (
            {"topics": ["o.*"], "topics_rename": {"orders": "sales", "other": "x", "pay": "y"}},
            [prefix("primary.o"), Resource("sales"), Resource("x")],
        ),
    ],
)
def test_remote_topics_have_the_names_that_the_policy_gives_them(
    options: dict[str, Any], resources: list[Resource]
) -> None:
    assert list(remote_resources(a_flow(**options))) == resources
