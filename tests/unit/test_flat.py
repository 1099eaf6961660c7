"""Dataclasses of parts are stored flat, as JSON and in Python."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError

from kafka_ferry.flat import Flat, columns_of


class Why(StrEnum):
    LATE = "too late"
    LOST = "gone"


@dataclass(frozen=True, slots=True)
class Counts:
    read: int
    written: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    name: str = "all"


@dataclass(frozen=True, slots=True)
class Log(Flat):
    STORED: ClassVar = ("double",)
    NESTED: ClassVar = ("options",)

    name: str
    counts: Counts
    options: Options = Options()
    reasons: Counter[Why] = field(default_factory=Counter, hash=False)
    sizes: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.counts.read


@dataclass(frozen=True, slots=True)
class Logs:
    logs: tuple[Log, ...]


LOG = Log("a", Counts(3, 2), Options("some"), Counter({Why.LOST: 4}), (1, 2))
FLAT: dict[str, Any] = {
    "double": 6,
    **{"name": "a", "read": 3, "written": 2, "options": {"name": "some"}},
    **{"late": 0, "lost": 4, "sizes": [1, 2]},
}
LOGS = TypeAdapter(Logs)


def read(**values: Any) -> Log:
    """What is read of the stored form, which is the same of JSON and of Python's values."""
    log: Log = LOGS.validate_json(json.dumps({"logs": [values]})).logs[0]
    assert LOGS.validate_python({"logs": [values]}).logs[0] == log
    return log


def test_values_of_parts_and_derived_ones_are_stored_as_the_whole_s_own() -> None:
    assert json.loads(LOGS.dump_json(Logs((LOG,)))) == {"logs": [FLAT]}
    assert read(**FLAT) == LOG


def test_objects_are_taken_as_they_are() -> None:
    assert LOGS.validate_python({"logs": [LOG]}).logs[0] is LOG


def test_what_is_not_stored_has_its_default_and_what_is_unknown_is_left_out() -> None:
    assert read(name="a", read=3, unheard_of=1) == Log("a", Counts(3))


@pytest.mark.parametrize("wrong", [{"name": "a"}, {"name": "a", "read": "many"}])
def test_a_part_without_what_it_must_have_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="read"):
        read(**wrong)


def test_columns_are_the_values_of_the_parts() -> None:
    values = {name: value(LOG) for name, value in columns_of(Log).items()}
    assert values["options"] == Options("some")
    assert (values["read"], values["lost"], values["double"]) == (3, 4, 6)
