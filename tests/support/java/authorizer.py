"""Kafka's own authorizer, asked what clients may do by some ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from kafka_ferry.model.changes import Acl
from kafka_sandbox.java.jars import KAFKA
from tests.support.java.programs import run_java

OPERATIONS: Final = (
    *("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
)
"""What clients are asked about."""

Right = tuple[str, str, str]
"""A principal, its address, and the operation that it may do."""


@dataclass(frozen=True)
class Question:
    """What each of some clients may do on a resource.

    Attributes:
        acls: all ACLs of the cluster.
        resource_type: the resource's type.
        name: its name.
        principals: the principals.
        hosts: their addresses.
    """

    acls: frozenset[Acl]
    resource_type: str
    name: str
    principals: tuple[str, ...]
    hosts: tuple[str, ...]

    @property
    def clients(self) -> Iterable[Right]:
        """Each client with each operation, in the order of the answer."""
        return product(self.principals, self.hosts, OPERATIONS)


def kafkas_answers(folder: Path, questions: Sequence[Question]) -> list[frozenset[Right]]:
    """For each question, the rights that ``org.apache.kafka.metadata.authorizer.StandardAuthorizer`` gives."""
    lines, acls = list[str](), None
    for it in questions:
        if it.acls != acls:
            acls = it.acls
            lines.append("acls")
            lines += ["\t".join(("acl", *_fields(acl))) for acl in sorted(acls)]
            lines.append("load")
        asked = (it.principals, it.hosts, OPERATIONS)
        lines.append("\t".join(("ask", it.resource_type, it.name, *map(" ".join, asked))))
    file = folder / "questions"
    file.write_text("".join(f"{line}\n" for line in lines))
    answers = run_java("AuthorizerAnswers", file, jars=KAFKA, timeout=600).splitlines()
    return [
        frozenset(right for right, mark in zip(it.clients, answer, strict=True) if mark == "1")
        for it, answer in zip(questions, answers, strict=True)
    ]


def _fields(acl: Acl) -> tuple[str, ...]:
    kind = (acl.resource_type, acl.name, acl.pattern_type)
    return (*kind, acl.principal, acl.host, acl.operation, acl.permission)
