"""Plans of random ACLs, and each change that a run makes, before Kafka's own authorizer.

Clusters are held in memory: what a broker decides by its ACLs is asked of the class that decides there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.config.types.principal_mapping import principal_rules
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import AppliedEntry
from kafka_ferry.ledger.applied import fold_applied
from kafka_ferry.model import ClusterState, RunOptions
from kafka_ferry.model.changes import Acl
from kafka_ferry.model.cluster_state import Access, Mark
from kafka_ferry.plan import make_plan
from kafka_ferry.plan.access.authorizer import Authorizer
from kafka_ferry.runs.sync_topics import acls as acls_module
from tests.support.java.authorizer import OPERATIONS, Question, Right, kafkas_answers
from tests.support.runs.killing import Killed
from tests.unit.plan.builders import NOW, a_flow, a_remote, a_source, a_state

EVERYBODY: Final = "User:*"
TOPICS: Final = ("orders", "orders-eu", "app-1", "app-2", "hr")
GROUPS: Final = ("readers", "app-readers")
PREFIXES: Final = ("o", "orders", "orders-", "app-", "app-1", "h", "*", "x")
NAMED: Final = ("User:anna", "User:bob", "User:dr-bob", "User:CN=dora", "Other:anna")
# Those that no ACL names come last.
PRINCIPALS: Final = (*NAMED, "User:dr-anna", "User:dora", "User:zoe")
HOSTS: Final = ("10.0.0.1", "10.0.0.2", "10.0.0.9")

RULES: Final[tuple[tuple[str, ...], ...]] = (
    (),
    (),
    ("RULE:User:(anna|bob)/User:dr-$1/",),
    ("RULE:User:CN=(.*)/User:$1/", "DEFAULT"),
    ("RULE:User:(anna|bob)/User:anna/", "DEFAULT"),
    ("RULE:User:bob/User:*/", "DEFAULT"),
    ("RULE:User:anna/User:bob/", "RULE:User:bob/User:anna/"),
)
RENAMES: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {"orders": "billing"},
    {"hr": "primary.app-hr"},
    {"app-1": "primary.orders-app"},
    {"hr": "app-hr", "orders": "x"},
)
POLICIES: Final = ("DefaultReplicationPolicy", "IdentityReplicationPolicy")


def some_acl(chance: random.Random) -> Acl:
    resource_type = chance.choices(("TOPIC", "GROUP", "CLUSTER"), (16, 3, 1))[0]
    names = {"TOPIC": TOPICS, "GROUP": GROUPS, "CLUSTER": ("kafka-cluster",)}[resource_type]
    pattern_type = (
        "PREFIXED" if resource_type != "CLUSTER" and chance.random() < 0.35 else "LITERAL"
    )
    name = chance.choice(PREFIXES if pattern_type == "PREFIXED" else names)
    if pattern_type == "LITERAL" and resource_type != "CLUSTER" and chance.random() < 0.2:
        name = "*"
    return Acl(
        resource_type,
        name,
        pattern_type,
        chance.choice((*NAMED, EVERYBODY, EVERYBODY)),
        chance.choice(("*", "*", "*", "10.0.0.1", "10.0.0.2")),
        chance.choice((*OPERATIONS[:8], "READ", "READ", "ALL", "ALL")),
        chance.choice(("ALLOW", "ALLOW", "DENY")),
    )


def some_acls(chance: random.Random, most: int) -> frozenset[Acl]:
    return frozenset(some_acl(chance) for _ in range(chance.randint(0, most)))


def another(chance: random.Random, acls: Iterable[Acl], most: int) -> frozenset[Acl]:
    """Some of these, and some others."""
    kept = (acl for acl in sorted(acls) if chance.random() < 0.6)
    return frozenset([*kept, *some_acls(chance, most)])


@pytest.mark.short("0")
@pytest.mark.parametrize("seed", range(3))
def test_acls_are_read_as_kafkas_authorizer_reads_them(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    resources = [("TOPIC", name) for name in (*TOPICS, "x", "orde")]
    resources += [("GROUP", name) for name in GROUPS] + [("CLUSTER", "kafka-cluster")]
    questions = [
        Question(acls, kind, name, PRINCIPALS, HOSTS)
        for acls in (some_acls(chance, 25) for _ in range(150))
        for kind, name in resources
    ]
    answers = kafkas_answers(tmp_path, questions)
    assert any(answers)
    assert [
        (it, ours ^ theirs)
        for it, theirs in zip(questions, answers, strict=True)
        if (ours := our_answer(it)) != theirs
    ] == []


def our_answer(question: Question) -> frozenset[Right]:
    authorizer = Authorizer(question.acls)
    resource = question.resource_type, question.name
    return frozenset(it for it in question.clients if authorizer.allows(*it, *resource))


@dataclass
class Target:
    """A target's ACLs, changed one at a time; refuses some changes, and the run may die in between.

    Attributes:
        acls: all of them.
        claimed: those that the flow has created by its ledger.
        refused: those that cannot be changed.
        left: how many changes are made before the run is killed.
        steps: the flow's ALLOWs and all that denies, at first and after each change.
    """

    acls: set[Acl] = field(default_factory=set)
    entries: list[AppliedEntry] = field(default_factory=list)
    refused: frozenset[Acl] = frozenset()
    left: int = 1_000
    steps: list[frozenset[Acl]] = field(default_factory=list)

    @property
    def claimed(self) -> frozenset[Acl]:
        return fold_applied(entry.model_dump_json() for entry in self.entries).acls

    def note(self) -> None:
        claimed = self.claimed
        self.steps.append(
            frozenset(acl for acl in self.acls if acl.permission == "DENY" or acl in claimed)
        )

    def change(self, acls: Iterable[Acl], kind: str) -> dict[Acl, FerryError]:
        listed = list(acls)
        for acl in listed:
            if acl not in self.refused:
                if not self.left:
                    raise Killed
                self.left -= 1
                (self.acls.add if kind == "grant" else self.acls.discard)(acl)
                self.note()
        return {acl: FerryError(f"No {acl}.") for acl in listed if acl in self.refused}


class InMemory:
    """``AccessControl`` of such a target."""

    target: Target

    def __init__(self, _: object) -> None: ...

    def __enter__(self) -> InMemory:
        return self

    def __exit__(self, *_: object) -> None: ...

    def acls(self) -> frozenset[Acl]:
        return frozenset(self.target.acls)

    def grant(self, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        return self.target.change(acls, "grant")

    def revoke(self, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        return self.target.change(acls, "revoke")

    def see_acls(self, *_: object) -> None: ...


@dataclass
class Case:
    """A source's ACLs, the steps of a run that follows them, and the copies that the rights are on.

    Attributes:
        source: the source's ACLs.
        target: the target.
        rules: the principals' names on the target.
        copies: pairs of a topic and a remote topic.
        is_whole: whether the run was of all topics and nothing came in between.
    """

    source: frozenset[Acl]
    target: Target
    rules: tuple[str, ...]
    copies: frozenset[tuple[str, str]]
    is_whole: bool

    def questions(self) -> Iterator[Question]:
        """About each topic on the source, then about each copy before and after each step."""
        copies = sorted(self.copies)
        for topic, _ in copies:
            yield Question(self.source, "TOPIC", topic, PRINCIPALS, HOSTS)
        for acls in self.target.steps:
            for _, remote in copies:
                yield Question(acls, "TOPIC", remote, PRINCIPALS, HOSTS)

    def excesses(self, answers: Iterator[frozenset[Right]]) -> Iterator[str]:
        """The rights that a step has given, or that the end has, and that the source does not have."""
        rules, called = principal_rules(self.rules), dict[str, list[str]]()
        for principal in {acl.principal for acl in self.source} - {EVERYBODY}:
            called.setdefault(rules.name_of(principal) or "", []).append(principal)
        copies = sorted(self.copies)
        allowed = [
            {
                (principal, host, operation)
                for principal in PRINCIPALS
                for name in called.get(principal, [principal])
                for host in HOSTS
                for operation in OPERATIONS
                if (name, host, operation) in of_source
            }
            for of_source in islice(answers, len(copies))
        ]
        now = list(islice(answers, len(copies)))
        for number, _ in enumerate(self.target.steps[1:]):
            before, now = now, list(islice(answers, len(copies)))
            for copy, was, has, may in zip(copies, before, now, allowed, strict=True):
                if excess := has - was - may:
                    yield f"step {number} gives {excess} on {copy}"
        for copy, has, may in zip(copies, now, allowed, strict=True):
            if self.is_whole and (excess := has - may):
                yield f"the end gives {excess} on {copy}"


def flow_of(chance: random.Random, exclude: Iterable[str] = ()) -> Flow:
    options: dict[str, Any] = {
        "acls.mode": chance.choice(("exact", "read-only")),
        "acls.principals": chance.choice(RULES),
        "topics.rename": chance.choice(RENAMES),
        "replication.policy.class": chance.choice(POLICIES),
        "topics": [".*"],
        "topics.exclude": list(exclude),
    }
    return a_flow(**options)


def state_of(
    source: frozenset[Acl], target: Target, copies: Iterable[tuple[str, str]]
) -> ClusterState:
    remote_topics = {remote: a_remote(remote) for _, remote in copies}
    marks = {
        remote: Mark(topic, f"id of {topic}", remote, f"id of {remote}", False, True)
        for topic, remote in copies
    }
    return a_state(
        *map(a_source, TOPICS),
        target=remote_topics.values(),
        marks=marks,
        applied=fold_applied(entry.model_dump_json() for entry in target.entries),
        access=Access(source_acls=source, target_acls=frozenset(target.acls)),
    )


def run(
    patched: pytest.MonkeyPatch,
    chance: random.Random,
    flow: Flow,
    target: Target,
    source: frozenset[Acl],
    copies: frozenset[tuple[str, str]],
    *,
    is_disturbed: bool,
) -> Case:
    """Plans and makes the changes of one run."""
    topics = tuple(chance.sample(TOPICS, 2)) if is_disturbed and chance.random() < 0.6 else ()
    state = state_of(source, target, copies)
    plan = make_plan(flow, state, run="run", at=NOW, options=RunOptions(topics=topics))
    copies |= {(choice.topic, choice.remote_topic) for choice in plan.choices}
    target.refused, target.left = frozenset(), 1_000
    if is_disturbed:
        changed = [it.acl for it in plan.access.acl_changes]
        target.refused = frozenset(acl for acl in changed if chance.random() < 0.1)
        target.left = chance.choice((1_000, 1_000, chance.randint(0, len(changed))))
        gone = chance.random() * 0.3
        target.acls -= {acl for acl in sorted(target.acls) if chance.random() < gone}
    target.steps = []
    target.note()
    patched.setattr(InMemory, "target", target, raising=False)
    patched.setattr(acls_module, "AccessControl", InMemory)
    patched.setattr(acls_module, "append_entry", lambda _, entry: target.entries.append(entry))
    granting = acls_module._Granting(flow, "run", "S", plan.access, state.ledger.applied)
    try:
        granting.change_rules()
    except Killed:
        assert is_disturbed
    return Case(source, target, flow.acls_principals, copies, is_whole=not is_disturbed)


def cases(patched: pytest.MonkeyPatch, chance: random.Random) -> Iterator[Case]:
    """Three runs, the flow's file changed before the last; an administrator has ACLs of his own."""
    target = Target(acls=set(some_acls(chance, 4)))
    copies: frozenset[tuple[str, str]] = frozenset()
    first = flow = flow_of(chance)
    source = some_acls(chance, 30)
    for number in range(3):
        if number == 2:
            flow = flow_of(chance, chance.sample(TOPICS, 1))
            if chance.random() < 0.5:
                flow = first
        case = run(
            patched, chance, flow, target, source, copies, is_disturbed=chance.random() < 0.5
        )
        copies = case.copies
        yield Case(source, Target(steps=target.steps), case.rules, copies, case.is_whole)
        source = another(chance, source, 15)
        target.acls |= some_acls(chance, 1)


@pytest.mark.long
@pytest.mark.parametrize("rounds", [40, 200])
def test_no_step_of_a_run_gives_a_principal_more_than_the_source_does(
    tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [
        (seed, case) for seed in range(rounds) for case in cases(monkeypatch, random.Random(seed))
    ]
    assert sum(len(case.target.steps) for _, case in tried) > rounds * 10
    answers = iter(kafkas_answers(tmp_path, [it for _, case in tried for it in case.questions()]))
    wider = [(seed, excess) for seed, case in tried for excess in case.excesses(answers)]
    assert wider == []
