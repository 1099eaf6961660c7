"""Which transform rules a flow's file may have, and what identifies them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import ValidationError

from kafka_ferry.config.options.transform import TransformOptions, TransformRule, with_secrets


def of(*rules: dict[str, Any], **options: Any) -> TransformOptions:
    return TransformOptions.model_validate(
        {"transform": [{"topics": ["t"], **rule} for rule in rules], **options}
    )


def a_rule(**rule: Any) -> TransformRule:
    return of(rule).transform[0]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({}, "must have where, set, drop or function"),
        ({"function": "masks"}, "should match pattern"),
        ({"function": "masks.f", "where": "true"}, "it must have nothing else than topics"),
        ({"topics": [], "where": "true"}, "at least 1 item"),
        ({"topics": ["("], "where": "true"}, "not a valid regular expression"),
        ({"set": {"value.a": "1"}}, "needs format: {value: json}"),
        ({"set": {"partition": "1"}}, "must be key, value"),
        ({"set": {"value": "1"}, "drop": ["value"]}, "twice"),
        ({"drop": ["value"]}, "set it to null"),
        (
            {"format": {"value": "json"}, "set": {"value": "1", "value.a": "1"}},
            "which is a part of it",
        ),
        (
            {"format": {"value": "xml"}, "where": "true"},
            "'bytes', 'string', 'json', 'avro' or 'protobuf'",
        ),
        (
            {"format": {"value": "avro"}, "types": {"value.a": "int"}, "where": "true"},
            "only fields of JSON have one",
        ),
        ({"types": {"value": "int"}, "where": "true"}, "cannot give value a type"),
        ({"where": "key = secret('salt')"}, "transform.0: uses secret..salt... which"),
        ({"were": "true"}, "has no"),
    ],
)
def test_what_makes_no_sense_is_refused(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        of(rule)


def test_a_rule_of_many_paths_is_read_at_once() -> None:
    """A file may hold a hundred thousand of them, and the square of that is minutes of Airflow's processes."""
    began = time.process_time()
    drop = [f"value.a{number}" for number in range(20_000)]
    assert TransformRule(topics=["x"], format={"value": "json"}, drop=drop).drop[-1] == drop[-1]
    assert time.process_time() - began < 5


def test_secrets_are_references() -> None:
    with pytest.raises(ValidationError, match="salt must be a config provider's reference"):
        of(**{"transform.secrets": {"salt": "pepper"}})
    found = of({"where": "key = secret('s')"}, **{"transform.secrets": {"s": "${env:S}"}})
    assert found.transform[0].secrets == {"s"}


def test_an_expression_names_its_secrets_and_does_not_hold_them() -> None:
    assert (
        with_secrets('sha2(value || SECRET( "a b" ), 256)')
        == "sha2(value || `secret()`['a b'], 256)"
    )


def test_the_first_rule_that_matches_a_topic_counts() -> None:
    found = of({"topics": ["a.*"], "where": "1=1"}, {"topics": [".*b"], "where": "2=2"})

    assert [
        it.where if (it := found.transform_of(name)) else None for name in ("ab", "bb", "c")
    ] == [
        "1=1",
        "2=2",
        None,
    ]


def test_a_fingerprint_changes_with_what_a_rule_does_and_not_with_its_topics() -> None:
    rule = a_rule(where="true")

    assert rule.fingerprint() == a_rule(where="true", topics=["other"]).fingerprint()
    assert rule.fingerprint() != a_rule(where="false").fingerprint()
    assert rule.fingerprint() != a_rule(where="true", format={"value": "string"}).fingerprint()


def test_null_is_an_expression() -> None:
    assert a_rule(set={"value": None}).set == (("value", "null"),)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("true", set()),
        ("headers['a'] = 'x' or HEADERS[ \"b-c\" ] is null", {"a", "b-c"}),
        ("element_at(headers, 'a') is null", None),
        ("headers['a'] is null or size(headers) > 1", None),
        ("headers['a'] is null or size(header_list) > 1", None),
        ("headers[concat('a', 'b')] is null", None),
        (r"headers['a\'b'] is null", None),
        ("`headers`['a'] is null", None),
    ],
)
def test_it_names_the_headers_that_its_expressions_use_if_they_use_no_others(
    expression: str, named: set[str] | None
) -> None:
    rule = TransformRule(topics=("t",), where="headers['w'] = '1'", set=(("value", expression),))

    assert rule.named_headers == (None if named is None else {"w", *named})
