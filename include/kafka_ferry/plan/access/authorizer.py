"""What a client may do by a cluster's ACLs: Kafka's own decision. Pure.

As ``StandardAuthorizerData.findAclRule`` decides, and ``AclAuthorizer`` on brokers with ZooKeeper:

(a) An ACL applies to a resource of its type by the whole name, by a prefix, or as ``LITERAL *``.
(b) It applies to its principal, or as ``User:*`` to each, and to its host, or as ``*`` to each.
(c) ALL stands for each operation. An ACL that allows READ, WRITE, DELETE or ALTER allows DESCRIBE too,
    one that allows ALTER_CONFIGS also DESCRIBE_CONFIGS; one that denies them denies nothing else.
(d) DENY wins over ALLOW, whichever pattern is the more exact one.
(e) What no ACL allows is denied.

Not decided here: super users, and resources without any ACL on brokers with
``allow.everyone.if.no.acl.found``. What is ``UNKNOWN`` about an ACL is taken for the narrowest meaning: it
denies, and on each resource of its type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from kafka_ferry.model.changes import EVERYBODY, Acl
from kafka_ferry.model.rights import EVERY, IMPLIED_BY

UNKNOWN: Final = "UNKNOWN"
"""An operation, permission or pattern type for which Kafka Ferry has no name."""

OTHER: Final = ""
"""The principal, or the host, that no ACL names."""

OPERATIONS: Final = frozenset(
    {
        *("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS"),
        *("DESCRIBE_TOKENS", "TWO_PHASE_COMMIT", UNKNOWN),
    }
)
"""What a client may ask for (``org.apache.kafka.common.acl.AclOperation``)."""


class Authorizer:
    """Decides by these ACLs."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._acls: dict[tuple[str, str, str], list[Acl]] = defaultdict(list)
        for acl in acls:
            if acl.pattern_type != UNKNOWN:
                self._acls[acl.resource_type, acl.pattern_type, acl.name].append(acl)
            elif acl.permission != "ALLOW":
                self._acls[acl.resource_type, UNKNOWN, ""].append(acl)

    def acls_on(self, resource_type: str, name: str) -> Iterator[Acl]:
        """The ACLs that apply to a resource, whichever client asks."""
        keys = [("LITERAL", EVERY)] if name != EVERY else []
        keys += [("LITERAL", name), *(("PREFIXED", name[:end]) for end in range(len(name) + 1))]
        keys += [(UNKNOWN, "")]
        for pattern_type, of_name in keys:
            yield from self._acls.get((resource_type, pattern_type, of_name), ())

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, name: str
    ) -> bool:
        """Whether a client may do this.

        Args:
            principal: such as ``User:anna``; ``OTHER`` for one that no ACL names.
            host: the client's address; ``OTHER`` for one that no ACL names.
            operation: one of ``OPERATIONS``.
            resource_type: the resource's type.
            name: its name.
        """
        return operation in ResourceRights(self.acls_on(resource_type, name)).of(principal, host)


class ResourceRights:
    """Each client's rights on one resource.

    Args:
        covering: the ACLs that apply to the resource.
    """

    def __init__(self, covering: Iterable[Acl]) -> None:
        self._allowed: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._denied: dict[tuple[str, str], set[str]] = defaultdict(set)
        for acl in covering:
            side = self._allowed if acl.permission == "ALLOW" else self._denied
            side[acl.principal, acl.host] |= operations_of(acl)

    @property
    def principals(self) -> set[str]:
        """The principals that the ACLs name, other than ``User:*``."""
        return {name for name, _ in (*self._allowed, *self._denied)} - {EVERYBODY}

    @property
    def hosts(self) -> set[str]:
        """The addresses that the ACLs name, other than ``*``."""
        return {host for _, host in (*self._allowed, *self._denied)} - {EVERY}

    def of(self, principal: str, host: str) -> set[str]:
        """The operations that a client may do."""
        allowed, denied = set[str](), set[str]()
        for name in (principal, EVERYBODY):
            for address in (host, EVERY):
                allowed |= self._allowed.get((name, address), set())
                denied |= self._denied.get((name, address), set())
        return allowed - denied


def operations_of(acl: Acl) -> frozenset[str]:
    """The operations that an ACL allows or denies."""
    return _operations(acl.operation, acl.permission == "ALLOW")


@cache
def _operations(operation: str, allows: bool) -> frozenset[str]:
    if operation == "ALL":
        return OPERATIONS
    implied = (name for name, by in IMPLIED_BY.items() if operation in by) if allows else ()
    return frozenset({operation, *implied})
