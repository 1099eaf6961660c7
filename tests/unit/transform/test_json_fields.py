"""Fields of a JSON text change, and nothing else of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config.options.transform import TransformRule
from kafka_ferry.transform import Changer
from kafka_ferry.transform.json_fields import JsonFields, NotAnObject, nest, with_fields


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ('{"a":1}', {("a",): "2"}, '{"a":2}'),
        (' { "a" : 1.50 , "b":[ 1 ] } ', {("b",): '"x"'}, ' { "a" : 1.50 , "b":"x" } '),
        ('{"a":1,"a":2}', {("a",): "0"}, '{"a":0,"a":0}'),
        ('{"a":1,"a":2,"b":3}', {("a",): None}, '{"b":3}'),
        ('{"a":1}', {("a",): None}, "{}"),
        ('{"a":1, "b":2}', {("b",): None}, '{"a":1}'),
        ("{ }", {("a",): "1"}, '{"a":1}'),
        ("{ }", {("a",): None}, "{ }"),
        ('{"b":1}', {("a",): "null"}, '{"b":1}'),
        ('{"a":{"b":1,"c":2}}', {("a", "b"): None, ("a", "c"): "3"}, '{"a":{"c":3}}'),
        ('{"a":null}', {("a", "b"): "1"}, '{"a":null}'),
        ("{}", {("a", "b"): "1"}, "{}"),
        (r'{"\u0061":1}', {("a",): "2"}, r'{"\u0061":2}'),
        ('{"a":"}{,\\""}', {("b",): "1"}, '{"a":"}{,\\"","b":1}'),
        ('{"a":1E400}', {("b",): "1"}, '{"a":1E400,"b":1}'),
        (
            '{"b":1.50, "c" :"x","d":null,"a":1,"e":true,"f":-0,"g":[]}',
            {("a",): "2"},
            '{"b":1.50, "c" :"x","d":null,"a":2,"e":true,"f":-0,"g":[]}',
        ),
        ('{"b":1,"ab":2,"a":3,"c":4}', {("a",): None}, '{"b":1,"ab":2,"c":4}'),
        (
            '{"b":1,"c":{"b":1,"c":2,"d":3},"d":4}',
            {("c", "c"): None},
            '{"b":1,"c":{"b":1,"d":3},"d":4}',
        ),
        (f'{{"b":"{"x" * 101}","a":1}}', {("a",): "2"}, f'{{"b":"{"x" * 101}","a":2}}'),
    ],
)
def test_a_field_is_set_or_dropped(
    text: str, changes: dict[tuple[str, ...], str | None], expected: str
) -> None:
    assert with_fields(text, nest(changes)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "[1]",
        '"a"',
        '{"a":1',
        '{"a" 1}',
        '{"a":1} x',
        '{"a":}',
        "{a:1}",
        '{"a":1,}',
        '{"b":1,}',
        '{"b":1,"c":02,"a":1}',
        '{"b":1,"c":"\t","a":1}',
        "{,}",
    ],
)
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(NotAnObject):
        with_fields(text, nest({("a",): "1"}))


@pytest.mark.parametrize("value", ["[{}]", "1", '"text"', "true"])
def test_a_path_through_anything_but_an_object_is_refused_instead_of_left_unmasked(
    value: str,
) -> None:
    with pytest.raises(NotAnObject, match="a is not an object"):
        with_fields(f'{{"a":{value}}}', nest({("a", "b"): "1"}))


@pytest.mark.parametrize(
    ("content", "seen"),
    [(b'{"a":1}', b'{"a":1}'), ('{"ä":1}'.encode(),) * 2, (b"no", b"no"), (b'{"\xe4":1}', b"\xff")],
)
def test_expressions_see_no_other_text_where_it_is_not_utf_8(content: bytes, seen: bytes) -> None:
    assert JsonFields().as_json(content) == seen


@pytest.mark.parametrize(
    ("content", "is_seen"),
    [
        (b'{"a":1e999,"b":2}', True),
        (b'{"a":1,"b":"1e999999999","c":[1e99999]}', True),
        (b'{"a":1e-999999999}', False),
        (b'{"c":[{"a":{"d":["1E999999999"]}}],"a":1}', False),
        (b'{"a":"1\\u0065999999999"}', False),
        (b'{"a":"1e9,9,9,9"}', False),
        ('{"a":"1e\uff19\uff19\uff19\uff19\uff19"}'.encode(), False),
        ('{"a":"ä"}'.encode(), True),
        (b'{"a":' + b"9" * 1_000 + b"}", False),
        # Spark reads what follows by a wider grammar.
        (b"{'a':1e99999}", False),
    ],
)
def test_no_decimal_with_a_far_exponent_or_many_digits_is_seen(
    content: bytes, is_seen: bool
) -> None:
    """Java takes hours for it."""
    assert JsonFields(["a"]).as_json(content) == (content if is_seen else b"\xff")


def test_rules_know_their_decimals() -> None:
    types = {"value.a": "decimal(10,2)", "value.b.c": "array<struct<n: NUMERIC>>", "value.d": "int"}
    rule = TransformRule.model_validate(
        {"topics": ["t"], "format": {"value": "json"}, "types": types, "where": "true"}
    )

    assert rule.decimals("value") == ["a", "c"]
    assert Changer(rule).formats["value"].as_json(b'{"c":1e99999}') == b"\xff"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    record=st.dictionaries(st.text(max_size=2), _VALUES, max_size=5),
    name=st.text(max_size=2),
    value=_VALUES,
    indent=st.sampled_from([None, 2]),
    is_ascii=st.booleans(),
)
def test_it_is_what_reading_changing_and_writing_gives(
    record: dict[str, Any], name: str, value: Any, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(record, indent=indent, ensure_ascii=is_ascii)

    changed = json.loads(with_fields(text, nest({(name,): json.dumps(value)})))
    dropped = json.loads(with_fields(text, nest({(name,): None})))

    is_added = name in record or value is not None
    assert changed == (record | {name: value} if is_added else record)
    assert dropped == {key: item for key, item in record.items() if key != name}
