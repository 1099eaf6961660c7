"""Which ACLs, quotas and users a plan changes, and what it says of those that it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kafka_ferry.model import Plan
from kafka_ferry.model.changes import Acl
from kafka_ferry.model.cluster_state import Access
from tests.support.brokers.access import an_acl, some_acls
from tests.unit.plan.builders import (
    a_flow,
    a_flow_that_logs_in,
    a_remote,
    a_source,
    a_state,
    applied_here,
    planned,
    said,
)


def plan_with(
    source: Iterable[str] = (),
    target: Iterable[str] = (),
    applied: Iterable[str] = (),
    topics: Iterable[str] = ("orders", "app-1", "app-2"),
    **options: Any,
) -> Plan:
    access = Access(source_acls=some_acls(*source), target_acls=some_acls(*target))
    state = a_state(
        *map(a_source, topics), access=access, applied=applied_here(acls=some_acls(*applied))
    )
    return planned(state, a_flow(**{"topics": ["orders", "app-.*"]} | options))


def granted(plan: Plan) -> frozenset[Acl]:
    return frozenset(it.acl for it in plan.access.acl_changes if it.change == "grant")


def revoked(plan: Plan) -> frozenset[Acl]:
    return frozenset(it.acl for it in plan.access.acl_changes if it.change == "revoke")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("topic orders: anna ALLOW READ", "topic primary.orders: anna ALLOW READ"),
        ("topic orders: anna ALLOW ALL", "topic primary.orders: anna ALLOW READ"),
        ("topic orders: anna ALLOW WRITE", None),
        ("topic orders: anna DENY WRITE", "topic primary.orders: anna DENY WRITE"),
        ("topic orders: anna DENY ALL", "topic primary.orders: anna DENY ALL"),
        ("topic orders: anna ALLOW ALTER", "topic primary.orders: anna ALLOW ALTER"),
        (
            "topic orders: anna ALLOW READ from 10.0.0.1",
            "topic primary.orders: anna ALLOW READ from 10.0.0.1",
        ),
        ("topic not-there-yet: anna ALLOW READ", None),  # not selected
        ("topic app-later: anna ALLOW READ", "topic primary.app-later: anna ALLOW READ"),
        ("topic __consumer_offsets: anna ALLOW READ", None),
        ("prefixed topic orders: anna ALLOW READ", None),
        ("topic *: anna ALLOW READ", None),
        ("group readers: anna ALLOW READ", None),
        ("cluster kafka-cluster: anna ALLOW ALTER", None),
        ("transactional_id writer: anna ALLOW WRITE", None),
    ],
)
def test_read_only_is_mirror_maker_2s_mode(source: str, target: str | None) -> None:
    assert granted(plan_with([source])) == (some_acls(target) if target else frozenset())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("topic orders: anna ALLOW WRITE", "topic primary.orders: anna ALLOW WRITE"),
        ("topic orders: anna ALLOW ALL", "topic primary.orders: anna ALLOW ALL"),
        ("topic secrets: anna ALLOW READ", None),
        ("prefixed topic app-: anna DENY READ", "prefixed topic primary.app-: anna DENY READ"),
        ("prefixed topic hr-: anna ALLOW READ", None),  # the flow copies nothing below it
        ("topic *: anna ALLOW READ", "prefixed topic primary.: anna ALLOW READ"),
        ("group readers: anna ALLOW READ", "group readers: anna ALLOW READ"),
        ("prefixed group app-: anna ALLOW READ", "prefixed group app-: anna ALLOW READ"),
        ("group ferry.a->b: anna ALLOW READ", None),
        ("group ferry.a->b: anna DENY READ", "group ferry.a->b: anna DENY READ"),
        ("group ferry.a->b: * DENY READ", None),  # the flow is one of all
        ("transactional_id ferry.a->b.run: anna ALLOW WRITE", None),
        ("transactional_id writer: anna ALLOW WRITE", "transactional_id writer: anna ALLOW WRITE"),
        ("cluster kafka-cluster: anna ALLOW ALTER", "cluster kafka-cluster: anna ALLOW ALTER"),
    ],
)
def test_exact_follows_the_source(source: str, target: str | None) -> None:
    plan = plan_with([source], **{"acls.mode": "exact"})
    assert granted(plan) == (some_acls(target) if target else frozenset())


@pytest.mark.parametrize("other", ["primary.eu", "primary"])
@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
def test_a_prefix_that_covers_copies_from_another_source_becomes_acls_by_name(
    other: str, permission: str
) -> None:
    alias = {"primary.eu": "primary", "primary": "primary.eu"}[other]
    state = a_state(
        *(a_source(topic) for topic in ("orders", "app-1")),
        access=Access(
            source_acls=some_acls(f"topic *: anna {permission} READ"),
            target_acls=some_acls(f"prefixed topic {alias}.: anna {permission} READ"),
            other_sources=frozenset({other, "another"}),
        ),
        applied=applied_here(acls=some_acls(f"prefixed topic {alias}.: anna {permission} READ")),
    )
    flow = a_flow(**{"topics": ["orders", "app-.*"], "acls.mode": "exact"})
    flow = flow.model_copy(update={"source": flow.source.model_copy(update={"alias": alias})})
    plan = planned(state, flow)
    assert granted(plan) == some_acls(
        *(f"topic {alias}.{topic}: anna {permission} READ" for topic in ("orders", "app-1"))
    )
    assert revoked(plan) == some_acls(f"prefixed topic {alias}.: anna {permission} READ")
    assert f"would cover copies from {other} too" in said(plan)


IDENTITY = {"acls.mode": "exact", "replication.policy.class": "IdentityReplicationPolicy"}


@pytest.mark.parametrize(
    "text",
    [
        "topic orders: anna ALLOW READ",
        "prefixed topic app-: anna ALLOW READ",
        "topic *: anna ALLOW READ",
    ],
)
def test_exact_with_kept_names_keeps_acls_as_they_are(text: str) -> None:
    assert granted(plan_with([text], **IDENTITY)) == some_acls(text)


def test_a_renamed_topic_below_a_prefix_has_an_acl_of_its_own() -> None:
    plan = plan_with(
        ["prefixed topic app-: anna ALLOW READ"],
        **{"acls.mode": "exact", "topics.rename": {"app-1": "billing"}},
    )
    assert granted(plan) == some_acls(
        "prefixed topic primary.app-: anna ALLOW READ", "topic billing: anna ALLOW READ"
    )
    assert said(plan) == ""


def test_a_prefix_that_would_allow_more_on_the_target_becomes_acls_by_name() -> None:
    plan = plan_with(
        ["prefixed topic app-: anna ALLOW READ"],
        ["prefixed topic primary.app-: anna ALLOW READ"],
        ["prefixed topic primary.app-: anna ALLOW READ"],
        **{"acls.mode": "exact", "topics.rename": {"orders": "primary.app-orders"}},
    )
    assert granted(plan) == some_acls(
        "topic primary.app-1: anna ALLOW READ", "topic primary.app-2: anna ALLOW READ"
    )
    assert revoked(plan) == some_acls("prefixed topic primary.app-: anna ALLOW READ")
    assert "Held back: ALLOW READ on the topic with the prefix primary.app- to User:anna." in said(
        plan
    )
    assert "let User:anna DESCRIBE primary.app-orders, which primary does not" in said(plan)


def test_a_prefix_that_denies_more_on_the_target_is_named() -> None:
    plan = plan_with(
        ["prefixed topic app-: anna DENY READ"],
        **{"acls.mode": "exact", "topics.rename": {"orders": "primary.app-orders"}},
    )
    assert granted(plan) == some_acls("prefixed topic primary.app-: anna DENY READ")
    assert "covers primary.app-orders too" in said(plan)


def test_a_prefix_of_an_asterisk_is_no_wildcard() -> None:
    source = ["prefixed topic *: anna ALLOW READ", "prefixed topic *: bob DENY READ"]
    for mode in ("exact", "read-only"):
        plan = plan_with(source, **{"acls.mode": mode})
        assert (granted(plan), said(plan)) == (frozenset(), "")


@pytest.mark.parametrize("denied", ["topic *", "prefixed topic app-", "topic app-1"])
@pytest.mark.parametrize("mode", ["read-only", "exact"])
def test_what_is_denied_by_whatever_pattern_is_denied_on_each_copy(mode: str, denied: str) -> None:
    source = "topic app-1: * ALLOW READ", f"{denied}: bob DENY READ"
    plan = plan_with(source, **{"acls.mode": mode})
    assert an_acl("topic primary.app-1: * ALLOW READ") in granted(plan)
    (denial, *_) = (
        acl for acl in granted(plan) if acl.covers("primary.app-1") and acl.permission == "DENY"
    )
    assert (denial.principal, denial.operation) == ("User:bob", "READ")
    assert said(plan) == ""


def test_denials_cover_topics_that_do_not_exist_yet_where_something_is_allowed() -> None:
    source = "topic app-later: * ALLOW READ", "prefixed topic app-l: bob DENY READ"
    assert granted(plan_with(source)) == some_acls(
        "topic primary.app-later: * ALLOW READ", "topic primary.app-later: bob DENY READ"
    )
    assert granted(plan_with(source, **{"acls.mode": "exact"})) == some_acls(
        "topic primary.app-later: * ALLOW READ", "prefixed topic primary.app-l: bob DENY READ"
    )


def test_producers_that_are_shut_out_of_all_of_the_source_do_not_shut_the_flow_out() -> None:
    assert not plan_with(["topic *: * DENY WRITE"]).access.acl_changes


@pytest.mark.parametrize("is_described", [True, False])
def test_denials_stay_on_copies_that_the_flow_no_longer_writes(is_described: bool) -> None:
    """Also on one that the target does not describe: it is not gone."""
    source = some_acls("topic *: * ALLOW READ", "topic orders: bob DENY READ")
    remote = a_remote("primary.orders")
    state = a_state(
        a_source("orders"),
        a_source("app-1"),
        target=[remote] if is_described else [],
        target_refused={} if is_described else {remote.name: "may not be described."},
        copied={"orders": remote.name},
        access=Access(source_acls=source, target_acls=frozenset()),
    )
    plan = planned(state, a_flow(**{"topics": ["app-1"], "acls.mode": "exact"}))
    assert granted(plan) == some_acls(
        "prefixed topic primary.: * ALLOW READ", "topic primary.orders: bob DENY READ"
    )


@pytest.mark.parametrize("rule", ["RULE:User:(a.*)/User:dr-$1/", "RULE:User:(bob)/User:dr-$1/"])
def test_a_denied_principal_with_another_name_or_none_is_no_exception_to_what_all_may(
    rule: str,
) -> None:
    source = "topic orders: * ALLOW READ", "topic orders: bob DENY READ"
    plan = plan_with(source, **{"acls.principals": [rule]})
    assert some_acls(
        "topic primary.orders: * ALLOW READ", "topic primary.orders: bob DENY READ"
    ) <= granted(plan)
    # A principal that takes bob's name over is another one.
    taken = {"acls.principals": ["RULE:User:anna/User:bob/", "RULE:User:bob/User:robert/"]}
    plan = plan_with([*source, "topic orders: anna ALLOW READ"], **taken)
    assert granted(plan) == some_acls(
        "topic primary.orders: * ALLOW READ",
        "topic primary.orders: robert DENY READ",
        "topic primary.orders: bob ALLOW READ",
    )


def test_a_rule_that_makes_a_principal_of_all_gives_them_nothing() -> None:
    rules = {"acls.principals": ["RULE:User:anna/User:*/"]}
    for mode in ("exact", "read-only"):
        plan = plan_with(["topic orders: anna ALLOW READ"], **rules | {"acls.mode": mode})
        assert not plan.access.acl_changes
        assert "let other principals DESCRIBE primary.orders" in said(plan)


def test_all_is_not_allowed_where_an_unknown_operation_is_denied() -> None:
    source = "topic orders: anna ALLOW ALL", "topic orders: anna DENY UNKNOWN"
    plan = plan_with(source, **{"acls.mode": "exact"})
    assert not plan.access.acl_changes
    assert "Held back: ALLOW ALL on the topic primary.orders to User:anna" in said(plan)


def test_the_flows_own_principals_can_be_named() -> None:
    source = ["topic orders: CN=ferry DENY WRITE", "topic orders: * DENY READ"]
    plan = plan_with(source, **{"acls.own.principals": ["User:CN=ferry"]})
    assert granted(plan) == some_acls("topic primary.orders: * DENY READ")
    assert "rights on backup from the flow itself" in said(plan)


def test_a_plan_names_the_denials_that_its_changes_rely_on() -> None:
    denials = ["topic primary.orders: bob DENY READ", "topic primary.app-1: bob DENY READ"]
    plan = plan_with(
        ["topic orders: * ALLOW READ", "topic *: bob DENY READ"],
        [*denials, "topic primary.app-2: bob DENY READ"],
    )
    assert granted(plan) == some_acls("topic primary.orders: * ALLOW READ")
    assert plan.access.relied_on == tuple(some_acls(denials[0]))


@pytest.mark.parametrize("policy", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
def test_read_only_says_once_which_acls_on_many_topics_it_leaves_out(policy: str) -> None:
    plan = plan_with(
        [
            "topic *: anna ALLOW READ",
            "topic *: bob ALLOW READ",
            "prefixed topic app-: anna ALLOW READ",
            "prefixed topic hr-: anna ALLOW READ",
        ],
        **{"replication.policy.class": policy},
    )
    assert not plan.access.acl_changes
    on_all, by_prefix = map(str, plan.remarks.notes)
    assert "User:anna" in on_all
    assert "User:bob" in on_all
    assert "app-" in by_prefix
    assert "hr-" not in by_prefix


@pytest.mark.parametrize(
    ("source", "target", "applied", "change"),
    [
        # Each side of the comparison: wanted, there, created by the flow.
        (True, False, False, "grant"),
        (True, False, True, "grant"),
        (True, True, False, None),
        (True, True, True, None),
        (False, True, True, "revoke"),
        (False, True, False, None),
        (False, False, True, None),
        (False, False, False, None),
    ],
)
def test_only_what_the_flow_created_is_ever_deleted(
    source: bool, target: bool, applied: bool, change: str | None
) -> None:
    remote = "topic primary.orders: anna ALLOW READ"
    plan = plan_with(
        ["topic orders: anna ALLOW READ"] if source else [],
        [remote] if target else [],
        [remote] if applied else [],
    )
    assert [(it.change, it.acl) for it in plan.access.acl_changes] == (
        [(change, an_acl(remote))] if change else []
    )


def test_the_way_back_from_exact_takes_rights_away_again() -> None:
    exact = ["group readers: anna ALLOW READ", "topic primary.orders: anna ALLOW WRITE"]
    plan = plan_with(["topic orders: anna ALLOW WRITE"], exact, exact)
    assert revoked(plan) == some_acls(*exact)


def test_principals_are_renamed_and_those_that_no_rule_matches_named() -> None:
    plan = plan_with(
        [
            "topic orders: anna ALLOW READ",
            "topic orders: bob ALLOW READ",
            "topic app-1: * DENY READ",
        ],
        **{"acls.principals": ["RULE:User:(a.*)/User:dr-$1/"]},
    )
    assert granted(plan) == some_acls(
        "topic primary.orders: dr-anna ALLOW READ", "topic primary.app-1: * DENY READ"
    )
    assert "No rule of acls.principals matches User:bob" in said(plan)


def test_no_acl_takes_rights_from_the_flow_itself() -> None:
    source = some_acls("topic orders: ferry DENY WRITE", "topic orders: * DENY WRITE")
    access = Access(source_acls=source, target_acls=frozenset())
    plan = planned(a_state(a_source(), access=access), a_flow_that_logs_in())
    assert granted(plan) == some_acls("topic primary.orders: * DENY WRITE")
    left_out, binding = map(str, plan.remarks.notes)
    assert "User:ferry" in left_out
    assert "apply to the flow itself" in binding


def test_acls_whose_operation_has_no_name_here_are_named() -> None:
    plan = plan_with(["transactional_id writer: anna ALLOW UNKNOWN"], **{"acls.mode": "exact"})
    assert not plan.access.acl_changes
    assert "User:anna on the transactional id writer" in said(plan)


def test_who_may_write_to_a_topic_with_preserved_offsets_is_named() -> None:
    source = some_acls("prefixed topic or: anna ALLOW WRITE", "topic orders: ferry ALLOW ALL")
    access = Access(source_acls=source, target_acls=frozenset())
    flow = a_flow_that_logs_in(**{"acls.mode": "exact", "offsets": "preserved"})
    plan = planned(a_state(a_source(), access=access), flow)
    assert len(granted(plan)) == 2
    (note,) = plan.remarks.notes
    assert note.topic == "orders"
    assert "User:anna write to primary.orders" in str(note)
    assert "ferry" not in str(note)


def test_without_both_sides_nothing_changes() -> None:
    mine = some_acls("topic primary.orders: anna ALLOW READ")
    for access in (
        Access(source_acls=None, target_acls=mine, notes=("primary has no authorizer.",)),
        Access(source_acls=some_acls("topic orders: anna ALLOW READ"), target_acls=None),
        Access(),
    ):
        plan = planned(a_state(a_source(), access=access, applied=applied_here(acls=mine)))
        assert not plan.access.acl_changes
        assert [str(note) for note in plan.remarks.notes] == list(access.notes)


def test_a_plan_with_changed_acls_can_be_stored() -> None:
    plan = plan_with(["topic orders: anna ALLOW READ"])
    assert Plan.from_json(plan.to_json()) == plan


SPARE = ("topic orders: anna ALLOW READ", "topic spare: anna ALLOW READ")


def plan_beside(*there: str, topics: Iterable[str] = ("orders",), **more: Any) -> Plan:
    """A plan of a source with an ACL on the topic ``spare``, which may not exist; ``there`` is what the target has."""
    options = {
        name: more.pop(name) for name in ("acls_mode", "replication_policy_class") if name in more
    }
    access = Access(
        source_acls=some_acls(*SPARE),
        target_acls=more.pop("target_acls", frozenset()),
        target_topics=frozenset(there),
        other_sources=more.pop("other_sources", frozenset()),
    )
    target = list(map(a_remote, there))
    state = a_state(*map(a_source, topics), target=target, access=access, **more)
    return planned(state, a_flow(topics=["orders", "spare"], **options))


@pytest.mark.parametrize("mode", ["read-only", "exact"])
@pytest.mark.parametrize(
    ("policy", "prefix"),
    [("DefaultReplicationPolicy", "primary."), ("IdentityReplicationPolicy", "")],
)
def test_nothing_is_allowed_on_a_topic_of_the_target_that_the_flow_does_not_copy_to(
    mode: str, policy: str, prefix: str
) -> None:
    how = {"acls_mode": mode, "replication_policy_class": policy}
    orders, spare = f"{prefix}orders", f"{prefix}spare"
    right = some_acls(f"topic {spare}: anna ALLOW READ")
    both = some_acls(f"topic {orders}: anna ALLOW READ") | right

    # A topic's ACLs may exist before the topic does.
    assert granted(plan_beside(orders, **how)) == both
    plan = plan_beside(orders, spare, **how)
    assert granted(plan) == both - right
    assert f"{spare} is on backup, and this flow does not copy to it" in said(plan)
    # Nor if the plan refuses it, since it holds another producer's records.
    refused = plan_beside(
        orders, spare, topics=("orders", "spare"), foreign=frozenset({spare}), **how
    )
    assert granted(refused) == both - right
    # It was allowed before.
    earlier = plan_beside(
        *(orders, spare), target_acls=both, applied=applied_here(acls=both), **how
    )
    assert (granted(earlier), revoked(earlier)) == (frozenset(), right)

    assert granted(plan_beside(orders, spare, topics=("orders", "spare"), **how)) == both
    assert granted(plan_beside(orders, spare, copied={"spare": spare}, **how)) == both


def test_nothing_is_allowed_on_what_will_be_a_copy_from_another_source() -> None:
    acl = "topic eu.orders: anna ALLOW READ"
    access = Access(
        source_acls=some_acls(acl), target_acls=frozenset(), other_sources=frozenset({"primary.eu"})
    )
    state = a_state(a_source(), access=access)
    flow = a_flow(topics=["orders", "eu.orders"])
    plan = planned(state, flow)
    assert granted(plan) == frozenset()
    assert "primary.eu.orders may be a copy from primary.eu" in said(plan)
    assert granted(planned(a_state(a_source(), a_source("eu.orders"), access=access), flow))
