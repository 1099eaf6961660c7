"""Which subjects belong to a flow's topics, and what they are called on the target."""

from __future__ import annotations

import pytest

from kafka_ferry.schemas.subjects import SubjectNames, chosen_subjects, parts_with_ids
from tests.unit.config.builders import a_flow

THERE = [
    "",
    ".",
    ":.:",
    "geo.City",
    "orders-archive-value",
    "orders-key",
    "orders-value",
    "other-value",
]


@pytest.mark.parametrize(
    ("subject", "remote"),
    [
        ("orders-value", "p.orders-value"),
        ("orders-com.acme.Order", "p.orders-com.acme.Order"),
        ("orders-archive-key", "archive-key"),
        ("geo.City", "geo.City"),
        ("orders", "orders"),
    ],
)
def test_a_subject_that_is_named_after_a_topic_is_named_after_the_remote_topic(
    subject: str, remote: str
) -> None:
    names = SubjectNames({"orders": "p.orders", "orders-archive": "archive"})
    assert names.remote(subject) == remote


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ((), ["orders-key", "orders-value"]),
        (("geo[.].*",), ["geo.City", "orders-key", "orders-value"]),
        # Settings of the first three would be those of the whole registry.
        ((".*",), THERE[3:]),
    ],
)
def test_subjects_of_topics_are_chosen_and_those_that_are_named(
    patterns: tuple[str, ...], chosen: list[str]
) -> None:
    assert chosen_subjects(a_flow(schemas_subjects=patterns), ["orders"], THERE) == chosen


@pytest.mark.parametrize(
    ("said", "topic", "parts"),
    [
        ("subjects", "orders", ("key", "value")),
        ("subjects", "orders-archive", ("value",)),
        ("subjects", "clicks", ()),
        ("both", "clicks", ("key", "value")),
        ("value", "orders", ("value",)),
        ("none", "orders", ()),
        ({"cl.*": "key"}, "clicks", ("key",)),
        ({"cl.*": "key"}, "orders", ("key", "value")),
    ],
)
def test_the_parts_with_ids_are_those_with_a_subject_unless_the_flow_says_more(
    said: object, topic: str, parts: tuple[str, ...]
) -> None:
    assert parts_with_ids(a_flow(schemas_ids_in=said), topic, THERE) == parts
