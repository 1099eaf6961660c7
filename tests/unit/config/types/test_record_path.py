from __future__ import annotations

import pytest

from kafka_ferry.config.types.record_path import RecordPath, read_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("key", RecordPath("key")),
        (" value ", RecordPath("value")),
        ("value.address.city", RecordPath("value", ("address", "city"))),
        ("key._id", RecordPath("key", ("_id",))),
        ("value.`first name`.x", RecordPath("value", ("first name", "x"))),
        ("headers['region']", RecordPath("headers", ("region",))),
        ("headers['a.b c']", RecordPath("headers", ("a.b c",))),
    ],
)
def test_a_path_names_a_part_of_a_record_or_a_field_in_it(text: str, path: RecordPath) -> None:
    assert read_path(text) == path


@pytest.mark.parametrize(
    "text",
    [
        *("", "topic", "values", "value.", "value.1st", "value.a-b", "value..a"),
        *("headers", "headers.region", "headers['']", 'headers["a"]', "value.``"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"must be key, value, a field such as value\.address\.city"
    ):
        read_path(text)


def test_a_single_name_is_taken_for_a_field_of_the_value() -> None:
    with pytest.raises(ValueError, match=r"Did you mean value\.email\?$"):
        read_path("email")
    with pytest.raises(ValueError, match=r"headers\['name'\]$"):
        read_path("other.email")


def test_a_path_is_shown_as_it_is_written() -> None:
    for text in ("key", "value.address.city", "headers['region']"):
        assert str(read_path(text)) == text
