from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from kafka_ferry.as_json import AsJson, read_json
from kafka_ferry.errors import FerryError


@dataclass(frozen=True)
class Boat(AsJson):
    WHAT: ClassVar = "a boat"
    name: str
    seats: int = 2


def test_what_is_written_is_read_back() -> None:
    assert Boat.from_json(Boat("ä", 4).to_json()) == Boat("ä", 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Not a boat: Invalid JSON"),
        ("[]", "Not a boat: Input should be"),
        ('{"seats": 4}', "Not a boat: Field required"),
        ('{"name": "a", "seats": "many"}', "Not a boat: Input should be a valid integer"),
    ],
)
def test_any_other_text_is_an_error_that_says_what_was_expected(text: str, why: str) -> None:
    with pytest.raises(FerryError, match=why):
        Boat.from_json(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "NaN", "[-Infinity]", "", b"\xff", "9" * 5000])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


def test_the_text_of_somebody_else_is_read() -> None:
    assert read_json(b'{"a": [1, null]}') == {"a": [1, None]}
