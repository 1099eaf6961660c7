"""Which ACLs would give a client more rights on the target than it has on the source. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kafka_ferry.config.types.principal_mapping import PrincipalRules
from kafka_ferry.model.changes import EVERYBODY, Acl
from kafka_ferry.plan.access.authorizer import OTHER, Authorizer, ResourceRights, operations_of


@dataclass(frozen=True, slots=True, order=True)
class ResourcePair:
    """A resource of the source, and the one of the target that stands for it.

    Attributes:
        resource_type: its type.
        name: its name on the source.
        remote: its name on the target.
    """

    resource_type: str
    name: str
    remote: str


@dataclass(frozen=True, slots=True)
class ExcessRight:
    """A right that a client would have on the target only.

    Attributes:
        principal: the principal on the target; ``OTHER`` for those that no ACL names.
        operation: what it may not do on the source.
        resource: where.
    """

    principal: str
    operation: str
    resource: ResourcePair


class SourceRights:
    """The rights of each principal of the target, as the source has them.

    A principal of the target has the rights of all principals that ``acls.principals`` gives this
    name. One without such principals has those of the principal that is called the same on the source.

    Args:
        acls: the source's ACLs.
        rules: the principals' names on the target.
        exempt: principals of the target that may have more rights: the flow's own.
    """

    def __init__(
        self, acls: Collection[Acl], rules: PrincipalRules, exempt: AbstractSet[str]
    ) -> None:
        self._source, self._exempt = Authorizer(acls), exempt
        self._remote: dict[str, str] = {}
        self._called: dict[str, list[str]] = defaultdict(list)
        for principal in {acl.principal for acl in acls} - {EVERYBODY}:
            if name := rules.name_of(principal):
                self._remote[principal] = name
                self._called[name].append(principal)

    def is_given(self, principal: str) -> bool:
        """Whether a principal of the source has this name on the target."""
        return principal in self._called

    def excesses(
        self, acls: Iterable[Acl], resources: Iterable[ResourcePair]
    ) -> dict[Acl, ExcessRight]:
        """The ALLOWs among the target's ``acls`` that give a client a right that it lacks on the source."""
        target, excesses = Authorizer(acls), dict[Acl, ExcessRight]()
        known: dict[tuple[frozenset[object], ...], bool] = {}
        for resource in sorted(resources):
            target_acls = list(target.acls_on(resource.resource_type, resource.remote))
            source_acls = list(self._source.acls_on(resource.resource_type, resource.name))
            # Most resources have the ACLs of another one, except for the name.
            kind = (_without_name(source_acls), _without_name(target_acls))
            if known.get(kind, True):
                wider = list(self._wider(source_acls, target_acls))
                for acl, principal, operation in wider:
                    excesses.setdefault(acl, ExcessRight(principal, operation, resource))
                known[kind] = bool(wider)
        return excesses

    def _wider(
        self, source_acls: Collection[Acl], target_acls: Collection[Acl]
    ) -> Iterator[tuple[Acl, str, str]]:
        source, target = ResourceRights(source_acls), ResourceRights(target_acls)
        hosts = sorted(source.hosts | target.hosts | {OTHER})
        principals = source.principals | target.principals | {OTHER}
        principals |= {self._remote[name] for name in source.principals & self._remote.keys()}
        for principal in sorted(principals - self._exempt):
            called = self._called.get(principal, [principal])
            for host in hosts:
                excess = target.of(principal, host)
                excess = excess.difference(*(source.of(name, host) for name in called))
                for acl in target_acls if excess else ():
                    if _applies(acl, principal, host) and (more := operations_of(acl) & excess):
                        yield acl, principal, min(more)


def _without_name(acls: Iterable[Acl]) -> frozenset[object]:
    return frozenset((acl.principal, acl.host, acl.operation, acl.permission) for acl in acls)


def _applies(acl: Acl, principal: str, host: str) -> bool:
    """Whether it allows a client something."""
    return (
        acl.permission == "ALLOW"
        and acl.principal in (principal, EVERYBODY)
        and acl.host in (host, "*")
    )
