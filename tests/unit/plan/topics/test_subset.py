from collections.abc import Iterable

import pytest

from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.model import ClusterState, Plan, RunOptions, Window
from kafka_ferry.model.changes import Acl, Applied
from kafka_ferry.model.cluster_state import Access, Mark
from kafka_ferry.model.rate import Rate
from kafka_ferry.model.run_options import rate_of
from kafka_ferry.plan import make_plan
from tests.support.brokers.access import some_acls
from tests.unit.plan.builders import NOW, a_flow, a_remote, a_source, a_state, applied_here

TOPICS = ("orders", "orders-eu", "payments")


def state(**more: object) -> ClusterState:
    return a_state(*map(a_source, TOPICS), **more)  # type: ignore[arg-type]


def about(*topics: str, both: ClusterState | None = None, **options: object) -> Plan:
    asked = RunOptions(topics=topics)
    return make_plan(a_flow(**options), both or state(), run="run-1", at=NOW, options=asked)


def planned_topics(plan: Plan) -> list[str]:
    return [range_.topic for range_ in plan.ranges]


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (("orders",), ["orders"]),
        (("orders.*",), ["orders", "orders-eu"]),
        (("payments", "orders"), ["orders", "payments"]),
        ((".*",), list(TOPICS)),
        ((), list(TOPICS)),
    ],
)
def test_a_run_is_about_the_topics_that_match(topics: tuple[str, ...], expected: list[str]) -> None:
    plan = about(*topics)
    assert planned_topics(plan) == expected
    assert [creation.remote_topic for creation in plan.topics.creations] == [
        f"primary.{topic}" for topic in expected
    ]
    assert plan.options.topics == topics


def test_a_note_says_what_waits() -> None:
    (note,) = about("orders").remarks.notes
    assert "only for orders: 1 of the flow's topics" in str(note)
    assert "The other 2" in str(note)
    assert about().remarks.notes == ()


def test_a_name_that_nothing_matches_is_told_with_what_is_near() -> None:
    (note,) = about("orders", "paymnts", "pay.*s").remarks.notes
    assert str(note).endswith(" None of them matches paymnts. Did you mean 'payments'?")
    with pytest.raises(FerryError, match=r"matches order\. Did you mean 'orders'\?"):
        about("order")
    with pytest.raises(FerryError, match=r"matches ord\*\. Did you mean 'ord\.\*'\?"):
        about("ord*")


def test_what_the_source_lacks_of_other_topics_is_nothing_of_the_run() -> None:
    lacking = {"topics": ["orders", "payments", "ordres"]}
    assert about("payments", **lacking).remarks.refused == ()
    assert [it.topic for it in about("ord.*", **lacking).remarks.refused] == ["ordres"]


def test_topics_that_the_flow_leaves_out_are_left_out_whatever_is_asked() -> None:
    plan = about("orders", "payments", topics_exclude=["payments"])
    assert planned_topics(plan) == ["orders"]
    assert [skipped.topic for skipped in plan.remarks.skipped] == ["payments"]


def test_a_name_that_matches_nothing_is_an_error_and_says_why_where_it_can() -> None:
    with pytest.raises(
        FerryError, match=r"has no topic on primary that matches ordres\."
    ) as raised:
        about("ordres")
    assert not raised.value.transient
    with pytest.raises(FerryError, match=r"payments is left out: excluded by 'payments'"):
        about("payments", topics_exclude=["payments"])
    with pytest.raises(ConfigError, match=r"not a valid regular expression"):
        about("*")


def test_two_topics_that_want_one_remote_topic_are_refused_although_a_run_is_about_one() -> None:
    renamed = {"orders": "primary.payments"}
    plan = about("orders", topics_rename=renamed)
    assert planned_topics(plan) == []
    assert [refusal.topic for refusal in plan.remarks.refused] == ["orders"]


def test_nothing_is_retired_by_a_run_that_did_not_look_at_all_topics() -> None:
    remote = a_remote("primary.gone")
    mark = Mark("gone", "id of gone", remote.name, remote.topic_id, preserved=False, created=True)
    gone = state(
        target=[remote],
        copied={"gone": remote.name},
        gone=frozenset({"gone"}),
        marks={remote.name: mark},
        applied=Applied(sources={remote.topic_id: "S"}),
    )
    retiring = {"on_source_topic_deleted": "retire"}
    assert about("orders", both=gone, **retiring).topics.retirements == ()
    assert len(about(both=gone, **retiring).topics.retirements) == 1


def test_of_access_only_rules_about_the_topics_are_synced() -> None:
    def rule(topic: str) -> Acl:
        return Acl("TOPIC", topic, "LITERAL", "User:anna", "*", "READ", "ALLOW")

    access = Access(
        source_acls=frozenset(map(rule, TOPICS)),
        target_acls=frozenset(),
        source_quotas={((("user", "anna"),), "producer_byte_rate"): 5.0},
        target_quotas={},
    )
    plan = about("orders", both=state(access=access))
    assert [change.acl.name for change in plan.access.acl_changes] == ["primary.orders"]
    assert plan.access.quota_changes == ()
    whole = about(both=state(access=access))
    assert (len(whole.access.acl_changes), len(whole.access.quota_changes)) == (3, 1)


def acls_of(
    *source: str, target: Iterable[str] = (), applied: Iterable[str] = ()
) -> dict[str, set[str]]:
    """What a run of orders alone changes in ACLs, by the kind of change."""
    access = Access(source_acls=some_acls(*source), target_acls=some_acls(*target))
    both = state(access=access, applied=applied_here(acls=some_acls(*applied)))
    changes = about("orders", both=both, acls_mode="exact").access.acl_changes
    return {
        kind: {str(it.acl) for it in changes if it.change == kind} for kind in ("grant", "revoke")
    }


def test_what_a_topics_acl_allows_comes_with_all_that_denies_it() -> None:
    changes = acls_of(
        "topic orders: * ALLOW READ",
        "topic payments: * ALLOW READ",
        "prefixed topic ord: bob DENY READ",
        "topic *: eve DENY READ",
        "prefixed topic pay: bob DENY READ",
    )
    assert changes == {
        "grant": {
            "ALLOW READ on the topic primary.orders to User:*",
            "DENY READ on the topic with the prefix primary.ord to User:bob",
            "DENY READ on the topic with the prefix primary. to User:eve",
        },
        "revoke": set(),
    }


def test_what_denies_stays_while_what_it_limits_waits_for_a_run_of_all_topics() -> None:
    mine = [
        "topic primary.orders: bob DENY READ",
        "topic primary.orders: eve DENY READ",
        "prefixed topic primary.ord: bob ALLOW READ",
    ]
    changes = acls_of(target=mine, applied=mine)
    assert changes == {
        "grant": set(),
        "revoke": {"DENY READ on the topic primary.orders to User:eve"},
    }


def test_what_denies_is_replaced_by_another_before_it_goes() -> None:
    mine = ["topic primary.orders: bob DENY READ", "prefixed topic primary.ord: bob ALLOW READ"]
    changes = acls_of(
        "prefixed topic ord: bob ALLOW READ",
        "prefixed topic ord: bob DENY READ",
        target=mine,
        applied=mine,
    )
    assert changes == {
        "grant": {"DENY READ on the topic with the prefix primary.ord to User:bob"},
        "revoke": {"DENY READ on the topic primary.orders to User:bob"},
    }


@pytest.mark.parametrize(
    ("of_flow", "of_run", "limit"), [(0, 0, 0), (5, 0, 5), (0, 7, 7), (5, 7, 5), (9, 7, 7)]
)
def test_the_smaller_limit_wins(of_flow: int, of_run: int, limit: int) -> None:
    flow = a_flow(rate_limit_bytes=of_flow, rate_limit_records=8)
    assert rate_of(flow, RunOptions(max_bytes_per_s=of_run)) == Rate(limit, 8)


def test_a_run_about_some_topics_or_some_time_is_no_whole_one() -> None:
    assert RunOptions(verify_all=True, max_bytes_per_s=1).is_whole
    assert not RunOptions(topics=("orders",)).is_whole
    assert not RunOptions(window=Window(0, 1)).is_whole


def test_what_is_asked_is_kept_in_the_plan() -> None:
    asked = RunOptions(("orders",), dry_run=True, verify_all=True, max_bytes_per_s=5)
    plan = make_plan(a_flow(shards=2), state(), run="run-1", at=NOW, options=asked)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.options == asked
