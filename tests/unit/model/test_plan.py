"""What a plan would change, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import (
    AdvisedAcl,
    Creation,
    Estimate,
    Growth,
    Note,
    OffsetsChoice,
    Plan,
    Range,
    Refusal,
    Risk,
    Skipped,
)
from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    ConfigChange,
    Drift,
    QuotaChange,
    Retirement,
    UserChange,
)

AT = 1_000_000
PLAN = Plan("primary->backup", "run-1", AT, "A", "B")
RANGE = Range("orders", 0, 5, 9, "I", "primary.orders", 3)
ACL = Acl("TOPIC", "primary.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")
GONE = Retirement("old", "primary.old", "id", AT - 10, AT)
DRIFT = Drift("orders", "primary.orders", "retention.ms", "7", "5", False)

CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"creations": (Creation("primary.orders", 3, 1, {}),)}, "topics to create"),
    ({"growths": (Growth("primary.orders", 4),)}, "topics to grow"),
    (
        {"config_changes": (ConfigChange("orders", "primary.orders", "retention.ms", "7", "5"),)},
        "configs to change",
    ),
    ({"retirements": (GONE,)}, "topics to delete"),
    ({"acl_changes": (AclChange(ACL, "revoke"),)}, "ACLs to change"),
    ({"quota_changes": (QuotaChange((("user", None),), "k", 1.0, None),)}, "quotas to change"),
    ({"user_changes": (UserChange("anna", "SCRAM-SHA-512", 4096, "create"),)}, "users to change"),
]
OTHER_DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"ranges": (RANGE,)}, "partitions to copy"),
    ({"ranges": (replace(RANGE, start=9, log_start=9),)}, "partitions to copy"),
    ({"refused": (Refusal("old", None, "it was recreated.", "Rename it."),)}, "refused"),
]
NOTHING: list[dict[str, Any]] = [
    {},
    {"ranges": (replace(RANGE, start=9),)},
    {"ranges": (replace(RANGE, start=0, end=0, log_start=0),)},
    {"skipped": (Skipped("mm2-offsets.internal", "internal"),)},
    {"notes": (Note("orders", None, "odd."),)},
    {"choices": (OffsetsChoice("orders", "primary.orders", True, "offsets: preserved."),)},
    {"advised_acls": (AdvisedAcl("primary.orders", "User:ferry", "WRITE", "ALLOW"),)},
    {"drifts": (DRIFT,)},
    {"retirements": (replace(GONE, due=AT + 1),)},
    {"risks": (Risk("orders", 0, 1, 4, "it may go.", "Hurry."),)},
    {"estimates": (Estimate("orders", 0, 4, None),)},
]


@pytest.mark.parametrize(("what", "kind"), CHANGES, ids=[kind for _, kind in CHANGES])
def test_what_changes_the_target_beside_records_is_a_change_and_a_difference(
    what: dict[str, Any], kind: str
) -> None:
    plan = replace(PLAN, **what)
    assert plan.changes == plan.differences == {kind: 1}


@pytest.mark.parametrize(("what", "kind"), OTHER_DIFFERENCES)
def test_records_and_refusals_are_differences_and_change_nothing_else(
    what: dict[str, Any], kind: str
) -> None:
    plan = replace(PLAN, **what)
    assert (plan.changes, plan.differences) == ({}, {kind: 1})


@pytest.mark.parametrize("what", NOTHING, ids=lambda what: next(iter(what), "nothing"))
def test_what_a_run_only_says_or_refreshes_is_no_difference(what: dict[str, Any]) -> None:
    assert replace(PLAN, **what).differences == {}


def test_a_plan_is_the_same_after_it_was_stored() -> None:
    plan = PLAN
    for what, _ in CHANGES + OTHER_DIFFERENCES:
        plan = replace(plan, **what)
    for what in NOTHING[4:]:
        plan = replace(plan, **what)
    assert Plan.from_json(plan.to_json()) == plan


def test_a_risk_names_its_worst_partition_and_how_many_there_are() -> None:
    risk = Risk("orders", 7, 3, 400, "offsets [1, 300) may be deleted.", "Hurry.")
    assert str(risk) == (
        "orders-7: offsets [1, 300) may be deleted. So in 3 of its partitions. Hurry."
    )
    assert "partitions" not in str(replace(risk, partitions=1))
