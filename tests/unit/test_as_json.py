from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from pydantic import BaseModel, ValidationError

from kafka_ferry import as_json
from kafka_ferry.as_json import AsJson, FirstErrorOnly, read_json
from kafka_ferry.errors import FerryError


@dataclass(frozen=True)
class Boat(AsJson):
    WHAT: ClassVar = "a boat"
    name: str
    seats: int = 2


@dataclass(frozen=True)
class Fleet(AsJson):
    WHAT: ClassVar = "a fleet"
    boats: tuple[Boat, ...] = ()
    type: dict[str, int] = field(default_factory=dict)


class Harbour(FirstErrorOnly, BaseModel):
    fleet: list[Fleet]


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


MANY = ",".join(["{}"] * 1000)


@pytest.mark.parametrize("text", [f'{{"boats": [{MANY}]}}', '{"type": {"a": "b", "c": "d"}}'])
def test_only_the_first_wrong_member_is_an_error(text: str) -> None:
    """Each error has objects of its own: of some KB of members, all would take gigabytes."""
    with pytest.raises(FerryError, match="Not a fleet: ") as caught:
        Fleet.from_json(text)
    assert isinstance(caught.value.__cause__, ValidationError)
    assert caught.value.__cause__.error_count() == 1
    with pytest.raises(ValidationError) as in_model:
        Harbour.model_validate_json(f'{{"fleet": [{text}, {text}]}}')
    assert in_model.value.error_count() == 1


@pytest.mark.parametrize("members", ['{"a":1}', "[0]", "{}"])
def test_a_text_whose_values_would_take_far_more_memory_than_its_length_is_refused(
    members: str,
) -> None:
    text = f'{{"boats": [{",".join([members] * (24 * 2**20 // (len(members) + 1)))}]}}'
    for read in (Fleet.from_json, read_json):
        with pytest.raises((FerryError, ValueError), match="too many values for its length"):
            read(text)


def test_a_long_text_is_read_as_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet((Boat("ä", 4),), {"a": 1})
    monkeypatch.setattr(as_json, "SMALL", 0)
    assert Fleet.from_json(fleet.to_json()) == fleet
    for text, why in (
        ("{", "EOF"),
        ('{"boats": [{}]}', "Field required"),
        ("[" * 1000, "recursion"),
    ):
        with pytest.raises(FerryError, match=f"Not a fleet: .*{why}"):
            Fleet.from_json(text)
