"""Changes that are too many for one request."""

from __future__ import annotations

import pytest

from kafka_ferry.control.portions import ask_in_portions
from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError

POLICY_VIOLATION = 44


class Controller:
    """Takes so many records in a request, and some topics in none."""

    def __init__(self, most: int, *, refuses: str = "", denies: str = "") -> None:
        self.most, self.refuses, self.denies = most, refuses, denies
        self.records: dict[str, int] = {}
        self.made: list[str] = []
        self.silent_about: set[str] = set()
        self.asked: list[list[str]] = []

    def ask(self, some: list[str]) -> dict[str, FerryError]:
        self.asked.append([*some])
        if sum(self.records[name] for name in some) > self.most:
            return dict.fromkeys(some, _refusal())
        self.made += [name for name in some if name not in (self.refuses, self.denies)]
        errors: dict[str, FerryError] = {}
        if self.refuses in some:
            errors[self.refuses] = _refusal()
        if self.denies in some:
            errors[self.denies] = AccessDenied("no")
        silent = self.silent_about & {*some}
        self.silent_about -= silent
        return errors | dict.fromkeys(silent, ClusterUnreachable("timed out"))


def _refusal() -> BrokerError:
    return BrokerError("too much", code=POLICY_VIOLATION, name="POLICY_VIOLATION", transient=False)


def asked_of(controller: Controller, records: dict[str, int]) -> dict[str, FerryError]:
    controller.records = records
    return ask_in_portions(records, controller.ask)


def test_many_small_changes_are_one_request() -> None:
    controller = Controller(10_000)
    assert asked_of(controller, {f"t{number}": 3 for number in range(100)}) == {}
    assert len(controller.asked) == 1


@pytest.mark.parametrize("most", [10_000, 3_000, 700, 99])
def test_each_is_made_once_however_little_a_controller_takes(most: int) -> None:
    records = {f"t{number}": 1 + number % 97 for number in range(400)}
    controller = Controller(most)
    assert asked_of(controller, records) == {}
    assert controller.made == list(records)


def test_one_that_is_refused_by_itself_is_named_and_costs_the_others_nothing() -> None:
    records = {f"t{number}": 20 for number in range(50)}
    controller = Controller(10_000, refuses="t7", denies="t9")
    errors = asked_of(controller, records)
    assert {name: type(error) for name, error in errors.items()} == {
        "t7": BrokerError,
        "t9": AccessDenied,
    }
    assert sorted(controller.made) == sorted(records.keys() - {"t7", "t9"})


def test_nothing_is_asked_for_nothing() -> None:
    controller = Controller(10)
    assert asked_of(controller, {}) == {}
    assert controller.asked == []


def test_what_has_no_answer_is_asked_for_again_alone() -> None:
    controller = Controller(10_000, denies="t3")
    controller.silent_about = {"t1", "t2"}
    assert [*asked_of(controller, {f"t{number}": 1 for number in range(5)})] == ["t3"]
    assert controller.asked == [["t0", "t1", "t2", "t3", "t4"], ["t1", "t2"]]
