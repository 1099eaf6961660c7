from pathlib import Path

import pytest

from kafka_ferry.errors import FerryError
from kafka_ferry.plan import (
    Creation,
    Growth,
    Note,
    Plan,
    Range,
    Refusal,
    Skipped,
    read_plan,
    save_plan,
)
from kafka_ferry.state import StateFolder

from .builders import NOW, a_source, found, planned


def test_a_plan_says_whose_it_is() -> None:
    plan = planned(found(a_source(), ledger_end=77))
    assert (plan.flow, plan.run, plan.at) == ("primary->backup", "run-1", NOW)
    assert (plan.source_cluster_id, plan.target_cluster_id, plan.ledger_end) == ("S", "T", 77)


def test_the_same_state_gives_the_same_plan() -> None:
    topics = [a_source(name, 2) for name in ("b", "a", "c")]
    assert planned(found(*topics)) == planned(found(*reversed(topics)))
    assert [r.topic for r in planned(found(*topics)).ranges] == ["a", "a", "b", "b", "c", "c"]


FULL = Plan(
    flow="primary->backup",
    run="run-1",
    at=NOW,
    source_cluster_id="S",
    target_cluster_id="T",
    ledger_end=5,
    ranges=(Range("orders", 0, 10, 2**62, "id", "primary.orders", 3),),
    creations=(Creation("primary.orders", 3, -1, {"cleanup.policy": "compact"}),),
    growths=(Growth("primary.payments", 4),),
    skipped=(Skipped("__x", 'an "internal" topic'),),
    refused=(Refusal("täglich", None, "whole", ""), Refusal("orders", 1, "part", "Do it.")),
    notes=(Note("täglich", None, "whole"), Note("orders", 1, "part")),
)


@pytest.mark.parametrize("plan", [FULL, planned(found()), planned(found(a_source()))])
def test_a_plan_is_read_from_json_as_it_was_written(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan.to_json().encode()) == plan


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", FULL.to_json()[:-2], FULL.to_json().replace("10", '"x"')]
)
def test_anything_else_is_no_plan(text: str) -> None:
    with pytest.raises(FerryError, match="Not a plan"):
        Plan.from_json(text)


def test_a_plan_is_stored_in_its_runs_folder(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path))
    with pytest.raises(FerryError, match="Plan the run first"):
        read_plan(folder)
    save_plan(folder, FULL)
    assert read_plan(folder) == FULL


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (Refusal("orders", 3, "It is gone.", "Look."), "orders-3: It is gone. Look."),
        (Refusal("orders", None, "It is gone.", ""), "orders: It is gone."),
        (Note("orders", 3, "It is gone."), "orders-3: It is gone."),
        (Note("orders", None, "It is gone."), "orders: It is gone."),
    ],
)
def test_what_a_plan_has_to_say_reads_as_a_sentence(said: Refusal | Note, text: str) -> None:
    assert str(said) == text
