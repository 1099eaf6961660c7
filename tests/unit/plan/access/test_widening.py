"""Which ACLs of the target give a client more than it has on the source."""

from __future__ import annotations

from kafka_ferry.config.types.principal_mapping import PrincipalRules
from kafka_ferry.plan.access.authorizer import OTHER
from kafka_ferry.plan.access.widening import ExcessRight, ResourcePair, SourceRights
from tests.support.brokers.access import an_acl, some_acls

ORDERS = ResourcePair("TOPIC", "orders", "primary.orders")
HR = ResourcePair("TOPIC", "hr", "primary.hr")


def excesses(
    source: list[str], target: list[str], *rules: str, exempt: str = ""
) -> dict[str, tuple[str, str, str]]:
    rights = SourceRights(some_acls(*source), PrincipalRules(rules), {exempt})
    found = rights.excesses(some_acls(*target), [HR, ORDERS])
    return {str(acl): (it.principal, it.operation, it.resource.remote) for acl, it in found.items()}


def test_what_the_source_allows_too_is_no_excess() -> None:
    assert not excesses(
        ["topic orders: anna ALLOW ALL", "topic *: bob ALLOW READ", "topic hr: bob DENY WRITE"],
        ["topic primary.orders: anna ALLOW READ", "prefixed topic primary.: bob ALLOW READ"],
    )


def test_an_acl_is_judged_with_those_that_deny() -> None:
    source = ["topic *: * ALLOW READ", "prefixed topic h: bob DENY READ"]
    allowed = "prefixed topic primary.: * ALLOW READ"
    assert excesses(source, [allowed]) == {
        str(an_acl(allowed)): ("User:bob", "READ", "primary.hr"),
    }
    assert not excesses(source, [allowed, "topic primary.hr: bob DENY READ"])


def test_each_topic_is_looked_at_although_most_are_alike() -> None:
    target = ["topic primary.orders: anna ALLOW READ", "topic primary.hr: anna ALLOW READ"]
    assert len(excesses([], target)) == 2


def test_addresses_count() -> None:
    source = ["topic orders: anna ALLOW READ from 10.0.0.1"]
    assert not excesses(source, ["topic primary.orders: anna ALLOW READ from 10.0.0.1"])
    assert excesses(source, ["topic primary.orders: anna ALLOW READ"])


def test_a_principal_has_the_rights_of_all_that_bear_its_name_on_the_target() -> None:
    source = ["topic orders: anna ALLOW READ", "topic orders: bob ALLOW WRITE"]
    rules = "RULE:User:(anna|bob)/User:both/", "DEFAULT"
    allowed = ["topic primary.orders: both ALLOW READ", "topic primary.orders: both ALLOW WRITE"]
    assert not excesses(source, allowed, *rules)
    # On the target, anna is another one.
    (excess,) = excesses(source, ["topic primary.orders: anna ALLOW WRITE"], *rules).values()
    assert excess == ("User:anna", "WRITE", "primary.orders")


def test_the_flows_own_principals_may_have_more() -> None:
    target = ["topic primary.orders: ferry ALLOW ALL"]
    assert excesses([], target)
    assert not excesses([], target, exempt="User:ferry")


def test_clients_that_no_acl_names_are_looked_at() -> None:
    rights = SourceRights(some_acls("topic orders: anna ALLOW READ"), PrincipalRules(), set())
    (acl,) = allowed = some_acls("topic primary.orders: * ALLOW READ")
    assert rights.excesses(allowed, [ORDERS]) == {acl: ExcessRight(OTHER, "DESCRIBE", ORDERS)}
