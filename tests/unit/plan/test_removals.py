"""What a plan takes away because the source lacks it: only of the same cluster, and not too much at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from kafka_ferry.model import Mark, Plan, Position, Topic, TopicPartition
from kafka_ferry.model.changes import Acl, Entity
from kafka_ferry.model.cluster_state import Access, ClusterState, FlowPositions
from kafka_ferry.model.removals import Excess, RemovalKind
from kafka_ferry.plan.removals import excess_of, held_sentences, may_remove, withhold
from tests.unit.plan.builders import a_flow, a_source, a_state, applied_here, planned, said

KEY, SHA = "consumer_byte_rate", "SCRAM-SHA-512"
RETENTION = "retention.ms"


@pytest.mark.parametrize(
    ("created_for", "option", "source", "may"),
    [
        ("S", None, "S", True),
        ("another", None, "S", False),
        ("", None, "", False),
        ("", None, "S", False),  # the ledger names none
        ("another", "S", "S", True),  # the rebuilt cluster
        ("", "S", "S", True),
        ("S", "another", "S", False),  # a third one
        ("another", "another", "S", False),
    ],
)
def test_an_absence_counts_on_the_cluster_that_a_thing_was_created_for_or_that_the_flow_names(
    created_for: str, option: str | None, source: str, may: bool
) -> None:
    assert may_remove(a_flow(removals_cluster_id=option), created_for, source) is may


def acls(count: int) -> frozenset[Acl]:
    return frozenset(
        Acl("TOPIC", "primary.orders", "LITERAL", f"User:{number:03}", "*", "READ", "ALLOW")
        for number in range(count)
    )


def client(number: int) -> tuple[Entity, str]:
    return (("client-id", f"{number:03}"),), KEY


def users(count: int) -> frozenset[tuple[str, str]]:
    return frozenset((f"{number:03}", SHA) for number in range(count))


def emptied(count: int, created: int = 0) -> ClusterState:
    """A source that lacks ``count`` of each kind of thing, out of ``created`` that the flow has created."""
    created = created or count
    names = [f"gone-{number:03}" for number in range(created)]
    configs = {f"primary.{name}": {RETENTION: "1000"} for name in names}
    there = {f"primary.{name}": f"id of primary.{name}" for name in names}
    remotes = [
        Topic(remote, id_, 1, configs[remote], frozenset({RETENTION}))
        for remote, id_ in there.items()
    ]
    unset = [
        Topic(f"primary.kept-{number:03}", f"id {number}", 1, {RETENTION: "1"}, {RETENTION})  # type: ignore[arg-type]
        for number in range(created)
    ]
    applied = applied_here(
        acls=acls(created),
        quotas={client(number): frozenset({1.0}) for number in range(created)},
        users=users(created),
        configs={topic.topic_id: {RETENTION: "1"} for topic in unset},
        missed=dict.fromkeys(list(there.values())[:count], 1),
    )
    keep = range(count, created)
    here = frozenset(it for it in acls(created) if int(it.principal.removeprefix("User:")) >= count)
    quotas = {client(number): 1.0 for number in keep}
    access = Access(
        source_acls=frozenset(replace(acl, name="orders") for acl in here),
        target_acls=acls(created),
        source_quotas=quotas,
        target_quotas={client(number): 1.0 for number in range(created)},
        source_users={user: 4096 for user in users(created) if int(user[0]) >= count},
        target_users=dict.fromkeys(users(created), 4096),
    )
    sources = [
        a_source(
            f"kept-{number:03}",
            configs={RETENTION: "1"} if number in keep else {},
            overrides=frozenset({RETENTION} if number in keep else ()),
        )
        for number in range(created)
    ]
    marks = {
        remote: Mark(
            remote.removeprefix("primary."), "id", remote, id_, preserved=False, created=True
        )
        for remote, id_ in there.items()
    }
    return a_state(
        *sources,
        a_source("orders"),
        vanished=names[count:],
        target=[*remotes, *unset],
        access=access,
        applied=replace(
            applied, sources=dict(applied.sources) | dict.fromkeys(there.values(), "S")
        ),
        marks=marks,
        copied={mark.topic: remote for remote, mark in marks.items()},
        gone=frozenset(names[:count]),
    )


def plan_of(state: ClusterState, **options: Any) -> Plan:
    asked = {"on_source_topic_deleted": "retire", "retire_after_ms": 0} | options
    return planned(state, a_flow(**asked))


def removed(plan: Plan) -> list[int]:
    """How many ACLs, quotas, users, configs and topics a plan takes away."""
    return [
        sum(it.change == "revoke" for it in plan.access.acl_changes),
        sum(it.value is None for it in plan.access.quota_changes),
        sum(it.change == "delete" for it in plan.access.user_changes),
        sum(it.value is None for it in plan.topics.config_changes),
        sum(it.is_due(plan.at) for it in plan.topics.retirements),
    ]


def test_what_the_same_cluster_lacks_is_taken_away() -> None:
    plan = plan_of(emptied(2))
    assert removed(plan) == [2] * 5
    assert plan.removals.excesses == ()
    assert not plan.remarks.notes
    assert withhold(plan) == plan


def copied_before(state: ClusterState, *ids: str) -> ClusterState:
    """The state with positions of topics of the source with these ids: first of ``kept-000``, and so on."""
    positions = {
        TopicPartition(f"primary.kept-{number:03}", 0): Position(9, id_, f"id {number}")
        for number, id_ in enumerate(ids)
    }
    copied = {tp.topic.removeprefix("primary."): tp.topic for tp in positions}
    return replace(
        state,
        positions=FlowPositions(positions, ledger_end=9),
        ledger=replace(state.ledger, copied={**state.ledger.copied, **copied}),
    )


def test_all_that_a_source_lacks_that_has_no_topic_any_more_that_was_copied_needs_an_approval() -> (
    None
):
    """As after it was rebuilt under the same cluster id."""
    plan = plan_of(copied_before(emptied(2), "rebuilt", "rebuilt"))
    kinds = {excess.kind for excess in plan.removals.excesses}
    assert kinds == {"ACL", "client quota", "SCRAM user", "topic"}
    assert plan.removals.emptied
    assert removed(withhold(plan)) == [0] * 5
    assert "primary has none of the 2 topics any more that were copied" in held_sentences(plan)[0]
    allowed = plan_of(copied_before(emptied(2), "rebuilt", "rebuilt"), removals_max=1.0)
    assert allowed.removals.excesses == ()


@pytest.mark.parametrize("ids", [("rebuilt", "id of kept-001"), ("rebuilt",), ("", "")])
def test_a_source_that_has_one_of_them_or_had_only_one_is_not_taken_for_rebuilt(
    ids: tuple[str, ...],
) -> None:
    plan = plan_of(copied_before(emptied(2), *ids))
    assert plan.removals.excesses == ()
    assert not plan.removals.emptied


def of_another(state: ClusterState, cluster: str) -> ClusterState:
    """The state with everything created for another cluster."""
    applied = state.ledger.applied
    applied = replace(
        applied,
        created_for=dict.fromkeys(applied.created_for, cluster) if cluster else {},
        sources=dict.fromkeys(applied.sources, cluster) if cluster else {},
    )
    return replace(state, ledger=replace(state.ledger, applied=applied))


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ("before", "what it lacks was created for the cluster before."),
        ("", "the ledger does not say for which cluster"),
    ],
)
def test_what_another_cluster_lacks_stays_and_one_note_says_why(cluster: str, why: str) -> None:
    plan = plan_of(of_another(emptied(2), cluster))
    assert removed(plan) == [0] * 5
    # Otherwise the ledger would say that they are copies of this cluster's topics, and the next run unset them.
    assert not [it for it in plan.topics.set_configs if it.before]
    (note,) = plan.remarks.notes
    for part in (
        "primary is the cluster S",
        why,
        "2 ACLs (ALLOW READ on the topic primary.orders to User:000; ",
        "2 client quotas (",
        "2 SCRAM users (000 (SCRAM-SHA-512); 001 (SCRAM-SHA-512))",
        "2 configs (retention.ms of primary.kept-000; ",
        "2 topics (primary.gone-000; primary.gone-001).",
        "removals.cluster.id: S",
    ):
        assert part in note.message


def test_what_denies_stays_with_what_it_limits_where_that_was_created_for_another_cluster() -> None:
    allowed = Acl("TOPIC", "primary.", "PREFIXED", "User:bob", "*", "READ", "ALLOW")
    denied = Acl("TOPIC", "primary.orders", "LITERAL", "User:bob", "*", "READ", "DENY")
    mine = frozenset({allowed, denied, replace(denied, principal="User:eve")})
    applied = replace(
        applied_here(acls=mine), created_for=dict.fromkeys(mine, "S") | {allowed: "another"}
    )
    access = Access(source_acls=frozenset(), target_acls=mine)
    plan = planned(a_state(a_source(), access=access, applied=applied))
    assert [it.acl.principal for it in plan.access.acl_changes] == ["User:eve"]
    assert "2 ACLs" in said(plan)


def test_a_cluster_that_the_flow_names_takes_the_former_ones_place() -> None:
    state = of_another(emptied(2), "before")
    assert removed(plan_of(state, removals_cluster_id="S")) == [2] * 5
    third = plan_of(state, removals_cluster_id="another")
    assert removed(third) == [0] * 5
    assert "removals.cluster.id is another" in said(third)


@pytest.mark.parametrize(
    ("count", "created", "share", "allowed"),
    [
        (5, 5, 0.1, None),  # five always may go
        (6, 6, 0.1, 5),
        (6, 6, 1.0, None),
        (10, 100, 0.1, None),
        (11, 100, 0.1, 10),
        (11, 119, 0.1, None),
        (6, 100, 0.0, 5),
        (5, 100, 0.0, None),
    ],
)
def test_more_than_a_share_needs_an_approval(
    count: int, created: int, share: float, allowed: int | None
) -> None:
    names = [str(number) for number in range(count)]
    excess = excess_of(a_flow(removals_max=share), "ACL", names, created)
    assert excess == (Excess("ACL", tuple(names), created, allowed) if allowed else None)


def test_without_an_approval_nothing_of_the_kind_goes_and_each_kind_is_named() -> None:
    plan = plan_of(emptied(6, created=20))
    assert removed(plan) == [6] * 5

    left = withhold(plan)

    assert removed(left) == [0] * 5
    assert {excess.kind for excess in plan.removals.excesses} | {"group's offsets"} == set(
        get_args(RemovalKind)
    )
    assert withhold(left) == left
    sentences = held_sentences(left)
    assert len(sentences) == 5
    assert "6 ACLs of the 20" in sentences[0]
    assert "removals.max allows 5" in sentences[0]
    assert str(min(acls(6))) in sentences[0]
    # What the flow has set stays its own, and what is missed stays missed.
    assert not [sets for sets in left.topics.set_configs if sets.before]
    assert len(left.topics.retirements) == 6


def test_what_a_run_creates_is_not_withheld() -> None:
    state = emptied(6)
    source = state.access.source_acls | acls(1)  # type: ignore[operator]
    new = frozenset(replace(acl, name="orders", operation="DESCRIBE") for acl in source)
    plan = plan_of(replace(state, access=replace(state.access, source_acls=new)))
    assert [it.change for it in withhold(plan).access.acl_changes] == ["grant"]


def test_what_is_to_be_retired_later_needs_no_approval_yet() -> None:
    assert not [
        excess
        for excess in plan_of(emptied(6), retire_after_ms=10**15).removals.excesses
        if excess.kind == "topic"
    ]


@pytest.mark.parametrize(
    ("copied_from", "option", "may"),
    [
        ("S", None, True),
        ("another", None, False),
        ("another", "S", True),
        ("another", "another", False),
    ],
)
def test_a_cluster_allows_nothing_on_the_copies_of_another_ones_topics(
    copied_from: str, option: str | None, may: bool
) -> None:
    remote = Topic("primary.orders", "id of primary.orders", 1)
    acl = Acl("TOPIC", "orders", "LITERAL", "User:bob", "*", "READ", "ALLOW")
    denial = replace(acl, permission="DENY", principal="User:eve")
    state = a_state(
        a_source("orders"),
        target=[remote],
        access=Access(source_acls=frozenset({acl, denial}), target_acls=frozenset()),
        applied=applied_here(sources={remote.topic_id: copied_from}),
    )
    plan = planned(state, a_flow(removals_cluster_id=option))
    assert {it.acl.permission for it in plan.access.acl_changes} == (
        {"ALLOW", "DENY"} if may else {"DENY"}
    )
    assert ("what primary allows is not allowed there" in said(plan)) is not may
