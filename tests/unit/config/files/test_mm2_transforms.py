"""Connect's transforms as rules: what has an equal, and what is wrong with the others."""

from __future__ import annotations

import pytest

from kafka_ferry.config.files.mm2_transforms import remote_topic_of, transform_rules

REMOTE = "concat('a.', topic)"
DROP = {"transforms": "drop", "transforms.drop.type": "Filter"}
TESTED = {"transforms.drop.predicate": "p", "predicates": "p"}
HEADERS = {
    "transforms": "one, two",
    "transforms.one.type": "org.apache.kafka.connect.transforms.DropHeaders",
    "transforms.one.headers": "cookie, trace",
    "transforms.two.type": "InsertHeader",
    "transforms.two.header": "trace",
    "transforms.two.value.literal": r"it's a \ b",
}


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, None),
        ({"transforms": "", "predicates": ""}, None),
        (DROP, {"where": "false"}),
        (
            DROP | TESTED | {"predicates.p.type": "RecordIsTombstone"},
            {"where": "not (value is null)"},
        ),
        (
            DROP
            | TESTED
            | {
                "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
                "predicates.p.name": "it's",
                "transforms.drop.negate": "true",
            },
            {"where": r"not (not (map_contains_key(headers, 'it\'s')))"},
        ),
        (
            DROP
            | TESTED
            | {"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": r"a\.x|b"},
            {"where": rf"not ({REMOTE} rlike '\\A(?:a\\.x|b)\\z')"},
        ),
        (
            HEADERS,
            {"set": {"headers['trace']": r"'it\'s a \\ b'"}, "drop": ["headers['cookie']"]},
        ),
        (HEADERS | {"transforms": "two, one"}, {"drop": ["headers['cookie']", "headers['trace']"]}),
    ],
)
def test_a_chain_of_transforms_is_one_rule_for_all_topics(
    settings: dict[str, str], rule: dict[str, object] | None
) -> None:
    expected = [{"topics": [".*"], **rule}] if rule else []
    assert transform_rules(settings, REMOTE) == (expected, [])


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ({"transforms": "x"}, "transforms.x.type", "is required"),
        ({"transforms.x.type": "Filter"}, "transforms.x.type", "which transforms does not list"),
        (
            {"transforms": "x", "transforms.x.type": "RegexRouter"},
            "transforms.x.type",
            "RegexRouter renames topics",
        ),
        (
            {"transforms": "x", "transforms.x.type": "o.a.k.c.transforms.MaskField$Value"},
            "transforms.x.type",
            "MaskField$Value needs fields",
        ),
        (
            {"transforms": "x", "transforms.x.type": "company.Own"},
            "transforms.x.type",
            "Own cannot run here",
        ),
        (
            DROP | {"transforms.drop.predicate": "q"},
            "transforms.drop.predicate",
            "names 'q', which predicates does not list",
        ),
        (
            DROP | TESTED | {"predicates.p.type": "HasHeaderKey"},
            "predicates.p.name",
            "is required",
        ),
        (
            DROP | TESTED | {"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "("},
            "predicates.p.pattern",
            "not a valid regular expression",
        ),
        (
            DROP
            | TESTED
            | {"predicates.p.type": "RecordIsTombstone", "transforms.drop.negate": "x"},
            "transforms.drop.negate",
            "must be true or false",
        ),
        (
            HEADERS | {"transforms.one.predicate": "p"},
            "transforms.one.predicate",
            "only a Filter can have a predicate here",
        ),
        (
            HEADERS
            | DROP
            | TESTED
            | {
                "transforms": "one, two, drop",
                "predicates.p.type": "HasHeaderKey",
                "predicates.p.name": "cookie",
            },
            "predicates.p.name",
            "after another transform has changed it",
        ),
    ],
)
def test_what_has_no_equal_is_named(settings: dict[str, str], key: str, reason: str) -> None:
    rules, (problem,) = transform_rules(settings, REMOTE, lambda name: f"a->b.{name}")

    assert rules == []
    assert problem.key == f"a->b.{key}"
    assert reason in problem.reason


def test_a_topics_name_cannot_be_tested_under_a_policy_of_ones_own() -> None:
    tested = {"predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "x"}
    settings = DROP | TESTED | tested
    _, (problem,) = transform_rules(settings, remote_topic_of("company.Own", ".", "a"))
    assert "which here only your own policy knows" in problem.reason
