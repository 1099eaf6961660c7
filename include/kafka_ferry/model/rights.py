"""Rights of a principal on a cluster's resources: how they are named, and the command that grants them.

Whatever a broker refuses, the error names the right in these words: operation, resource, command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, Self

ResourceType = Literal["TOPIC", "GROUP", "TRANSACTIONAL_ID", "CLUSTER"]

EVERY: Final = "*"
"""The resource name that stands for all resources of its type."""
CLUSTER_NAME: Final = "kafka-cluster"

# A broker's error code says on what kind of resource a right is missing (``org.apache.kafka.common.protocol.Errors``).
_DENIED: Final[Mapping[int, ResourceType]] = {
    29: "TOPIC",
    30: "GROUP",
    31: "CLUSTER",
    53: "TRANSACTIONAL_ID",
}
IMPLIED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}
"""By operation, those that a principal may only be allowed together with it (``StandardAuthorizerData``)."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """An operation that a principal may do on a resource.

    Attributes:
        resource_type: the resource's type.
        name: its name, the prefix of names, or ``*``.
        operation: such as ``READ``.
        prefixed: whether the right is on all resources whose names begin with ``name``.
    """

    resource_type: ResourceType
    name: str
    operation: str
    prefixed: bool = False

    @classmethod
    def topic(cls, operation: str, name: str) -> Self:
        """A right on a topic."""
        return cls("TOPIC", name, operation)

    @classmethod
    def group(cls, operation: str, name: str) -> Self:
        """A right on a group."""
        return cls("GROUP", name, operation)

    @classmethod
    def transactional_id(cls, operation: str, name: str) -> Self:
        """A right on a transactional id."""
        return cls("TRANSACTIONAL_ID", name, operation)

    @classmethod
    def cluster(cls, operation: str) -> Self:
        """A right on the cluster itself."""
        return cls("CLUSTER", CLUSTER_NAME, operation)

    @property
    def pattern_type(self) -> Literal["LITERAL", "PREFIXED"]:
        """How ``name`` is meant (``org.apache.kafka.common.resource.PatternType``)."""
        return "PREFIXED" if self.prefixed else "LITERAL"

    @property
    def resource(self) -> str:
        """The resource, for people."""
        kind = self.resource_type.lower().replace("_", " ")
        if self.resource_type == "CLUSTER":
            return "the cluster"
        if self.prefixed:
            return f"{kind}s with the prefix {self.name}"
        return f"all {kind}s" if self.name == EVERY else f"the {kind} {self.name}"

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}"

    def implies(self, other: Right) -> bool:
        """Whether a principal with this right needs no ``other``."""
        operations = (other.operation, *IMPLIED_BY.get(other.operation, ()))
        return (
            self.resource_type == other.resource_type
            and self.operation in operations
            and self._covers(other)
        )

    def _covers(self, other: Right) -> bool:
        if self.prefixed:
            return other.name.startswith(self.name) and (other.prefixed or other.name != EVERY)
        return self.name == EVERY or (self.name == other.name and not other.prefixed)


def grant_commands(
    rights: Iterable[Right],
    *,
    principal: str = "User:NAME",
    bootstrap: str = "BROKER",
    config: str = "",
) -> Iterator[str]:
    """The commands that grant rights, one for each resource.

    Operations are named as the tool does it (``org.apache.kafka.common.utils.SecurityUtils.operationName``).

    Args:
        rights: the rights.
        principal: who gets them, such as ``User:ferry``.
        bootstrap: the cluster's brokers.
        config: the file with an administrator's client properties, "" for none.
    """
    begin = ["kafka-acls.sh", "--bootstrap-server", bootstrap]
    begin += ["--command-config", config] if config else []
    begin += ["--add", "--allow-principal", principal]

    def resource(right: Right) -> tuple[ResourceType, str, bool]:
        return right.resource_type, right.name, right.prefixed

    for (kind, name, prefixed), some in groupby(sorted(set(rights), key=resource), key=resource):
        operations = [
            word
            for granted in sorted(some)
            for word in ("--operation", granted.operation.title().replace("_", ""))
        ]
        option = f"--{kind.lower().replace('_', '-')}"
        which = [option] if kind == "CLUSTER" else [option, name]
        pattern = ["--resource-pattern-type", "prefixed"] if prefixed else []
        yield shlex.join([*begin, *operations, *which, *pattern])


def how_to_grant(*rights: Right) -> str:
    """What is missing and the command that grants it, as an error's advice."""
    listed = " and ".join(map(str, rights))
    commands = " and ".join(f"`{command}`" for command in grant_commands(rights))
    return f"Grant {listed}: {commands}."


def missing_rights(code: int, needed: Iterable[Right]) -> tuple[Right, ...]:
    """The rights among ``needed`` that a broker's error code refuses; none if it refuses no right."""
    kind = _DENIED.get(code)
    return tuple(right for right in needed if right.resource_type == kind)


def advice_on(code: int, needed: Iterable[Right]) -> str:
    """How to grant the rights among ``needed`` that a broker's error code refuses, "" if it refuses none."""
    missing = missing_rights(code, needed)
    return how_to_grant(*missing) if missing else ""
