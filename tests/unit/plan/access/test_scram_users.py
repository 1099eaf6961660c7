"""Which SCRAM users a plan creates or deletes on the target, and what it says of those that it leaves."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model import Plan
from kafka_ferry.model.changes import UserChange
from kafka_ferry.model.cluster_state import Access
from tests.unit.plan.builders import (
    a_flow,
    a_flow_that_logs_in,
    a_source,
    a_state,
    applied_here,
    planned,
    said,
)

SHA = "SCRAM-SHA-512"


def users_of(
    source: Iterable[str],
    target: Iterable[str] = (),
    applied: Iterable[str] = (),
    passwords: Iterable[str] | None = (),
    flow: Flow | None = None,
) -> Plan:
    access = Access(
        source_users={(user, SHA): 4096 for user in source},
        target_users={(user, SHA): 8192 for user in target},
        passwords=None if passwords is None else frozenset(passwords),
    )
    made = applied_here(users=frozenset((user, SHA) for user in applied))
    return planned(a_state(a_source(), access=access, applied=made), flow)


def test_a_user_with_a_known_password_is_created_and_the_others_are_named() -> None:
    plan = users_of(["anna", "bob", "carl"], ["carl"], passwords=["anna"])
    assert plan.access.user_changes == (UserChange("anna", SHA, 4096, "create"),)
    assert "bob" in said(plan)
    assert "scram.passwords.file" in said(plan)
    assert "carl" not in said(plan)


@pytest.mark.parametrize("iterations", [-5, 0, 4095, 16385, 2**31 - 1])
def test_a_user_with_iterations_that_no_broker_takes_is_named(iterations: int) -> None:
    access = Access(
        source_users={("anna", SHA): iterations}, target_users={}, passwords=frozenset(["anna"])
    )
    plan = planned(a_state(a_source(), access=access))
    assert plan.access.user_changes == ()
    assert f"anna of primary has {iterations:,} iterations" in said(plan)


def test_passwords_that_cannot_be_read_now_may_be_when_they_are_needed() -> None:
    plan = users_of(["anna"], passwords=None)
    assert plan.access.user_changes == (UserChange("anna", SHA, 4096, "create"),)


def test_only_users_that_the_flow_created_are_deleted_and_never_its_own() -> None:
    plan = users_of([], ["anna", "bob", "ferry"], ["anna", "ferry"], flow=a_flow_that_logs_in())
    assert plan.access.user_changes == (UserChange("anna", SHA, 8192, "delete"),)


def test_users_are_called_as_in_access_rules() -> None:
    flow = a_flow(**{"acls.principals": "RULE:User:anna/User:dr-anna/"})
    plan = users_of(["anna", "bob"], passwords=["dr-anna", "bob"], flow=flow)
    assert plan.access.user_changes == (UserChange("dr-anna", SHA, 4096, "create"),)


def test_a_plan_with_changed_users_can_be_stored() -> None:
    plan = users_of(["anna"], passwords=["anna"])
    assert Plan.from_json(plan.to_json()) == plan
