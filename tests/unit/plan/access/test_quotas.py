"""Which quotas a plan sets or deletes on the target, and what it says of those that it leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from kafka_ferry.model import Plan
from kafka_ferry.model.changes import Entity, QuotaChange, QuotaEnd
from kafka_ferry.model.cluster_state import Access
from tests.unit.plan.builders import a_flow, a_source, a_state, applied_here, planned

ANNA = (("user", "anna"),)
RATE = "producer_byte_rate"


def quotas_of(
    source: float | None,
    target: float | None,
    ours: Iterable[float | None] = (),
    entity: Entity = ANNA,
    **options: Any,
) -> Plan:
    what = entity, RATE
    access = Access(
        source_quotas={} if source is None else {what: source},
        target_quotas={} if target is None else {what: target},
    )
    applied = applied_here(quotas={what: frozenset(ours)} if ours else {})
    return planned(a_state(a_source(), access=access, applied=applied), a_flow(**options))


@pytest.mark.parametrize(
    ("source", "target", "has"),
    [
        (math.inf, None, "primary has inf, backup has none"),
        (math.nan, 5.0, "primary has nan, backup has 5.0"),
        (math.nan, math.nan, "primary has nan, backup has nan"),
        (5.0, math.inf, "primary has 5.0, backup has inf"),
    ],
)
def test_a_quota_without_a_limit_is_named_and_kept(
    source: float, target: float | None, has: str
) -> None:
    # Brokers take infinity and NaN; JSON has neither, so that a plan would say that it is to be deleted.
    plan = quotas_of(source, target, [5.0], **{"on.config.drift": "overwrite"})
    assert plan.access.quota_changes == ()
    (note,) = plan.remarks.notes
    assert has in str(note)


def test_a_quota_without_a_limit_of_the_targets_own_is_kept_silently() -> None:
    plan = quotas_of(None, math.inf)
    assert (plan.access.quota_changes, plan.remarks.notes) == ((), ())


@pytest.mark.parametrize(
    ("source", "target", "ours", "becomes"),
    [
        (5.0, None, [], "set"),
        (5.0, 5.0, [], None),  # another client set the same
        (5.0, 5.0, [5.0], None),
        (6.0, 5.0, [5.0], "set"),
        (None, 5.0, [5.0], "set"),  # to nothing: the source has it no more
        (None, 5.0, [], None),  # the target's own
        (None, 7.0, [5.0], None),  # by now the target's own
        (None, None, [5.0], None),
        (6.0, 7.0, [5.0], "drift"),
        (5.0, 7.0, [5.0], "drift"),
        (5.0, 7.0, [], "drift"),
        (5.0, None, [5.0], "drift"),  # another client deleted it
        # Killed between the ledger and the change.
        (6.0, 5.0, [5.0, 6.0], "set"),
        (5.0, None, [None, 5.0], "set"),
        (None, 5.0, [5.0, None], "set"),
    ],
)
@pytest.mark.parametrize("policy", ["keep", "overwrite"])
def test_a_quota_is_set_unless_another_client_set_it(
    source: float | None,
    target: float | None,
    ours: list[float | None],
    becomes: str | None,
    policy: str,
) -> None:
    plan = quotas_of(source, target, ours, **{"on.config.drift": policy})
    changed = becomes == "set" or (becomes == "drift" and policy == "overwrite")
    expected = (QuotaChange(ANNA, RATE, source, before=target),) if changed else ()
    assert plan.access.quota_changes == expected
    assert len(plan.remarks.notes) == (becomes == "drift")
    # Neither the source's nor as the flow has set it: a client that sets the same value later has set it.
    ended = source is None and bool(ours) and target not in ours
    assert plan.access.ended_quotas == ((QuotaEnd(ANNA, RATE),) if ended else ())


def test_drift_of_a_quota_says_who_has_what() -> None:
    (note,) = quotas_of(10_485_760.0, 1024.0).remarks.notes
    assert str(note) == (
        "producer_byte_rate of the user anna: primary has 10,485,760, backup has 1,024, changed "
        "by another client. It stays (on.config.drift)."
    )


@pytest.mark.parametrize(
    ("entity", "mapped"),
    [
        (ANNA, (("user", "dr-anna"),)),
        ((("client-id", "app"), ("user", "anna")), (("client-id", "app"), ("user", "dr-anna"))),
        ((("client-id", "anna"),), (("client-id", "anna"),)),
        ((("user", None),), (("user", None),)),
        ((("ip", "10.0.0.1"),), (("ip", "10.0.0.1"),)),
        ((("user", "bob"),), None),
    ],
)
def test_users_of_quotas_are_called_as_in_access_rules(
    entity: Entity, mapped: Entity | None
) -> None:
    plan = quotas_of(
        5.0, None, entity=entity, **{"acls.principals": "RULE:User:anna/User:dr-anna/"}
    )
    assert [it.entity for it in plan.access.quota_changes] == ([mapped] if mapped else [])


def test_a_plan_with_changed_quotas_can_be_stored() -> None:
    plan = quotas_of(5.0, None)
    assert Plan.from_json(plan.to_json()) == plan
