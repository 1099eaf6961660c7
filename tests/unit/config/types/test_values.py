"""Values of options as files have them."""

import re
from time import process_time

import pytest
from pydantic import ValidationError

from kafka_ferry.config.types.values import (
    BYTES_PATTERN,
    MIB,
    TopicNames,
    read_bytes,
    topic_name,
    whole_number,
)
from tests.unit.config.builders import a_flow


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"orders": "eu-orders", "b": "c"}, {"orders": "eu-orders", "b": "c"}),
        ("orders:eu-orders, b : c", {"orders": "eu-orders", "b": "c"}),
        ("", {}),
        ({}, {}),
    ],
)
def test_other_names_for_topics_are_a_mapping_or_text(given: object, names: dict[str, str]) -> None:
    assert a_flow(topics_rename=given).topics_rename == names


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("orders", "'' must be a topic's name"),
        ("orders:a b", "'a b' must be a topic's name"),
        ({"orders": 1}, "1 must be a topic's name"),
        ({"x" * 250: "a"}, "must be a topic's name"),
        ("a:b, a:c", "names 'a' twice"),
        ({"a": "c", "b": "c"}, "gives 'a' and 'b' the same name 'c'"),
        (["a"], "must be a mapping"),
    ],
)
def test_other_names_that_cannot_be_are_refused(given: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        a_flow(topics_rename=given)


@pytest.mark.parametrize(
    ("given", "size"),
    [(1, 1), ("1", 1), ("12B", 12), ("64KiB", 65536), ("64MiB", 64 * MIB), (" 1 gib ", 1024 * MIB)],
)
def test_sizes_are_numbers_or_have_a_unit(given: object, size: int) -> None:
    assert a_flow(transaction_max_bytes=given).transaction_max_bytes == size


@pytest.mark.parametrize(
    ("given", "topics"),
    [(["a", "b{1,2}"], ("a", "b{1,2}")), ("a, b", ("a", "b"))],
)
def test_lists_are_lists_or_text_with_commas(given: object, topics: tuple[str, ...]) -> None:
    assert a_flow(topics=given).topics == topics


@pytest.mark.parametrize("given", ["", "64 parsecs", "1.5MiB", "-1", "1" * 20, "MiB"])
def test_other_texts_are_no_size(given: str) -> None:
    with pytest.raises(ValueError, match="must be a number of bytes, or a size such as 64KiB"):
        read_bytes(given)
    assert not re.search(BYTES_PATTERN, given) or len(given) == 20


@pytest.mark.parametrize("given", ["1" + " " * 200_000 + "!", "1" * 200_000 + "!", " " * 200_000])
def test_a_long_text_is_no_size_at_once(given: str) -> None:
    began = process_time()
    with pytest.raises(ValueError, match="must be a number of bytes"):
        read_bytes(given)
    # As Airflow looks at a form's value.
    assert not re.search(BYTES_PATTERN, given)
    assert process_time() - began < 1


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (1, 1),
        (" 10 ", 10),
        ("-1", -1),
        (-2, None),
        (11, None),
        (True, None),  # YAML's yes
        (1.0, None),
        ("1.0", None),
        ("1" * 19, None),
        (None, None),
    ],
)
def test_a_whole_number_is_within_its_bounds_or_none(given: object, number: int | None) -> None:
    assert whole_number(given, least=-1, most=10) == number


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "x" * 250])
def test_a_name_that_no_topic_may_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a topic's name"):
        topic_name(name)


def test_other_names_for_topics_are_a_value() -> None:
    names = TopicNames([("a", "b"), ("c", "d")])
    assert names == TopicNames({"c": "d", "a": "b"}) == {"a": "b", "c": "d"}
    assert len({names, TopicNames({"c": "d", "a": "b"})}) == 1
