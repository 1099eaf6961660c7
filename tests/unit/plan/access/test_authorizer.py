"""What ACLs together allow; ``tests/integration/sync_topics/test_effective_rights.py`` asks Kafka as well."""

from __future__ import annotations

import pytest

from kafka_ferry.plan.access.authorizer import OTHER, Authorizer
from tests.support.brokers.access import some_acls

ANNA = "User:anna"


def may(*acls: str, operation: str = "READ", principal: str = ANNA, host: str = "10.0.0.1") -> bool:
    return Authorizer(some_acls(*acls)).allows(principal, host, operation, "TOPIC", "orders")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        (["topic orders: anna ALLOW READ"], True),
        (["topic *: anna ALLOW READ"], True),
        (["prefixed topic ord: anna ALLOW READ"], True),
        (["prefixed topic orders: anna ALLOW READ"], True),
        (["prefixed topic *: anna ALLOW READ"], False),
        (["topic ord: anna ALLOW READ"], False),
        (["group orders: anna ALLOW READ"], False),
        (["topic orders: * ALLOW READ"], True),
        (["topic orders: bob ALLOW READ"], False),
        (["topic orders: anna ALLOW READ from 10.0.0.1"], True),
        (["topic orders: anna ALLOW READ from 10.0.0.2"], False),
        (["topic orders: anna ALLOW ALL"], True),
        (["topic orders: anna ALLOW READ", "topic *: anna DENY READ"], False),
        (["topic orders: anna ALLOW READ", "prefixed topic o: * DENY ALL"], False),
        (["topic *: * ALLOW READ", "topic orders: anna DENY READ from 10.0.0.1"], False),
        (["topic *: * ALLOW READ", "topic orders: anna DENY READ from 10.0.0.2"], True),
        (["topic *: * ALLOW READ", "topic orders: anna DENY WRITE"], True),
    ],
)
def test_deny_wins_whatever_pattern_principal_and_host(acls: list[str], expected: bool) -> None:
    assert may(*acls) is expected


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_what_is_allowed_allows_to_describe_and_what_is_denied_denies_nothing_else(
    operation: str,
) -> None:
    assert may(f"topic orders: anna ALLOW {operation}", operation="DESCRIBE")
    denied = "topic orders: anna ALLOW ALL", f"topic orders: anna DENY {operation}"
    assert may(*denied, operation="DESCRIBE")


def test_altering_configs_implies_describing_them_and_creating_implies_nothing() -> None:
    assert may("topic orders: anna ALLOW ALTER_CONFIGS", operation="DESCRIBE_CONFIGS")
    assert not may("topic orders: anna ALLOW ALTER_CONFIGS", operation="DESCRIBE")
    assert not may("topic orders: anna ALLOW CREATE", operation="DESCRIBE")


def test_clients_that_no_acl_names_have_what_all_have() -> None:
    assert may("topic orders: * ALLOW READ", principal=OTHER, host=OTHER)
    assert not may("topic orders: anna ALLOW READ", principal=OTHER)
    assert not may("topic orders: * ALLOW READ from 10.0.0.1", principal=OTHER, host=OTHER)


def test_what_is_unknown_of_an_acl_is_taken_for_the_narrowest() -> None:
    allowed = "topic orders: anna ALLOW READ"
    assert not may(allowed, "topic orders: anna UNKNOWN READ")
    (odd,) = some_acls("topic elsewhere: anna DENY READ")
    object.__setattr__(odd, "pattern_type", "UNKNOWN")
    authorizer = Authorizer([*some_acls(allowed), odd])
    assert not authorizer.allows(ANNA, OTHER, "READ", "TOPIC", "orders")
