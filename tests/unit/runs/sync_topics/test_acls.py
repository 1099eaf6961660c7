"""The order in which ACLs are changed, and what is held back when one of them fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.model.changes import Acl
from kafka_ferry.runs.sync_topics.acls import _change_acls, _sentences
from tests.support.brokers.access import an_acl, some_acls


class Target:
    """Takes every ACL but those that it refuses, and remembers the order."""

    def __init__(self, *refused: str) -> None:
        self.refused = some_acls(*refused)
        self.done: list[tuple[str, Acl]] = []

    def grant(self, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        return self._take("grant", acls)

    def revoke(self, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        return self._take("revoke", acls)

    def _take(self, what: str, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        listed = list(acls)
        self.done += [(what, acl) for acl in listed if acl not in self.refused]
        return {acl: FerryError(f"No {acl}.") for acl in listed if acl in self.refused}


def changed(target: Any, grants: Iterable[str] = (), revokes: Iterable[str] = ()) -> set[Acl]:
    """What failed."""
    return set(_change_acls(target, some_acls(*grants), some_acls(*revokes)))


def test_what_denies_comes_first_and_goes_last_and_no_principal_is_without_in_between() -> None:
    target = Target()
    new = ["topic t: anna ALLOW READ", "topic t: anna DENY WRITE"]
    old = ["topic t: anna DENY READ", "topic t: bob ALLOW READ"]

    assert not changed(target, new, old)

    assert [(what, acl.permission) for what, acl in target.done] == [
        ("grant", "DENY"),
        ("grant", "ALLOW"),
        ("revoke", "ALLOW"),
        ("revoke", "DENY"),
    ]


@pytest.mark.parametrize(
    ("denied", "allowed", "is_held"),
    [
        ("topic t: anna DENY READ", "topic t: anna ALLOW READ", True),
        ("topic t: anna DENY READ", "topic t: anna ALLOW ALL", True),
        ("topic t: anna DENY READ", "topic t: * ALLOW READ", True),
        ("topic t: * DENY READ", "topic t: anna ALLOW READ", True),
        ("topic tt: anna DENY READ", "prefixed topic t: anna ALLOW READ", True),
        ("prefixed topic t: anna DENY READ", "topic tt: anna ALLOW READ", True),
        ("prefixed topic tt: anna DENY READ", "prefixed topic t: anna ALLOW READ", True),
        ("topic *: anna DENY READ", "topic t: anna ALLOW READ", True),
        ("topic t: anna DENY READ", "topic *: anna ALLOW READ", True),
        ("topic t: anna DENY READ", "topic t: bob ALLOW READ", False),
        ("topic t: anna DENY READ", "topic tt: anna ALLOW READ", False),
        ("prefixed topic t: anna DENY READ", "prefixed topic u: anna ALLOW READ", False),
        ("group t: anna DENY READ", "topic t: anna ALLOW READ", False),
    ],
)
def test_nothing_is_granted_that_a_refused_acl_was_to_narrow(
    denied: str, allowed: str, is_held: bool
) -> None:
    failed = changed(Target(denied), [denied, allowed])
    assert failed == some_acls(denied, *([allowed] if is_held else []))


def test_an_acl_that_denies_stays_while_one_that_allows_the_same_cannot_go() -> None:
    allowed, denied = "topic t: anna ALLOW READ", "topic t: anna DENY READ"
    target = Target(allowed)
    assert changed(target, revokes=[allowed, denied, "topic t: bob DENY READ"]) == some_acls(
        allowed, denied
    )
    assert target.done == [("revoke", an_acl("topic t: bob DENY READ"))]


def test_nothing_is_widened_that_a_deleted_acl_was_to_narrow() -> None:
    deleted = some_acls("topic t: bob DENY READ")
    grants = some_acls("topic t: * ALLOW READ", "topic u: * ALLOW READ")
    revokes = some_acls("topic *: bob DENY READ", "topic *: anna DENY READ")
    target = Target()
    failed = _change_acls(cast(Any, target), grants, revokes, deleted)
    assert set(failed) == deleted | some_acls("topic t: * ALLOW READ", "topic *: bob DENY READ")
    assert "was deleted on the target since the run was planned" in str(failed[min(deleted)])
    assert target.done == [
        ("grant", an_acl("topic u: * ALLOW READ")),
        ("revoke", an_acl("topic *: anna DENY READ")),
    ]


def test_a_refused_grant_holds_no_other_back() -> None:
    allowed = "topic t: anna ALLOW READ"
    target = Target(allowed)
    failed = changed(target, [allowed, "topic t: bob ALLOW READ"], ["topic t: anna DENY READ"])
    assert failed == some_acls(allowed)
    assert len(target.done) == 2


def test_a_missing_right_is_told_once_and_of_many_errors_the_first() -> None:
    denied = {number: AccessDenied(f"No {number}.", advice="Grant it.") for number in range(3)}
    (said,) = _sentences(denied, "ACLs", "backup")
    assert said == "backup refuses 3 changes of ACLs. No 0. Grant it."
    others = {number: FerryError(f"No {number}.") for number in range(30)}
    *first, more = _sentences(others, "ACLs", "backup")
    assert len(first) == 20
    assert more == "10 more changes of ACLs of backup failed."
