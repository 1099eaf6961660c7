"""Topologies of three clusters and more, end to end: which cluster has which topics, and no replication loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_ferry.config import Flow, load_flows
from kafka_ferry.control import read_positions
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.model import Plan, TopicPartition
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.publish.lag import lag
from kafka_sandbox.cluster import KafkaCluster
from tests import PROJECT
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    produce,
    read_all,
    recreate_topic,
)
from tests.support.records.groups import commit_alone
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import assert_same, copy_now, plan_now
from tests.support.runs.proof import verified
from tests.support.runs.topologies import (
    Clusters,
    between,
    copy_all,
    make_empty,
    running,
    settings,
    settle,
    topics_of,
    values,
    write,
    write_flows,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")

IDENTITY = "replication.policy.class = IdentityReplicationPolicy"
ADOPT = "on.foreign.records = adopt"
SIX = PROJECT / "docs" / "examples" / "six-clusters.properties"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, KafkaCluster]]:
    home = tmp_path_factory.mktemp("three")
    # So that rights count.
    with running(home, "A", "B", "C", config={"super.users": "User:nobody"}) as three:
        yield three


@pytest.fixture
def clusters(brokers: dict[str, KafkaCluster]) -> Clusters:
    """Three clusters without topics."""
    for broker in brokers.values():
        make_empty(broker)
    return brokers


def skipped(plan: Plan) -> dict[str, str]:
    """Why users' topics are not copied."""
    return {
        skip.topic: skip.reason
        for skip in plan.remarks.skipped
        if not skip.topic.startswith(("__", "ferry-"))
    }


# The shapes


def test_active_passive(folder: Path, clusters: Clusters) -> None:
    a, b = clusters["A"], clusters["B"]
    write(a, "orders", "1", "2")
    write(b, "local", "of b")
    flows = between(folder, clusters, ["A->B"])
    settle(flows, "first", at_most=2)
    write(a, "orders", "3")
    settle(flows, "second", at_most=2)

    assert values(b, "A.orders") == ["1", "2", "3"]
    assert topics_of(a) == {"orders"}
    assert topics_of(b) == {"local", "A.orders"}


def test_active_active(folder: Path, clusters: Clusters) -> None:
    a, b = clusters["A"], clusters["B"]
    flows = between(folder, clusters, ["A->B", "B->A"])
    for number in range(2):
        write(a, "orders", f"a{number}")
        write(b, "orders", f"b{number}")
        *_, last = settle(flows, f"round-{number}", at_most=3)

    assert (values(a, "orders"), values(a, "B.orders")) == (["a0", "a1"], ["b0", "b1"])
    assert (values(b, "orders"), values(b, "A.orders")) == (["b0", "b1"], ["a0", "a1"])
    assert topics_of(a) == {"orders", "B.orders"}
    assert topics_of(b) == {"orders", "A.orders"}
    assert "B itself" in skipped(last[0])["B.orders"]


def test_aggregation(folder: Path, clusters: Clusters) -> None:
    a, b, c = clusters.values()
    flows = between(folder, clusters, ["A->C", "B->C"])
    for number in range(2):
        write(a, "orders", f"a{number}")
        write(b, "orders", f"b{number}")
        settle(flows, f"round-{number}", at_most=2)

    assert topics_of(c) == {"A.orders", "B.orders"}
    assert values(c, "A.orders") == ["a0", "a1"]
    assert values(c, "B.orders") == ["b0", "b1"]


def test_aggregation_into_one_topic(folder: Path, clusters: Clusters) -> None:
    a, b, c = clusters.values()
    flows = between(folder, clusters, ["A->C", "B->C"], IDENTITY, ADOPT)
    for number in range(2):
        write(a, "orders", f"a{number}")
        write(b, "orders", f"b{number}")
        settle(flows, f"round-{number}", at_most=2)
        for flow in flows:
            assert verified(flow, f"round-{number}-0").state == "verified"

    assert topics_of(c) == {"orders"}
    assert values(c, "orders") == ["a0", "b0", "a1", "b1"]
    commit_alone(a, "app", {TopicPartition("orders", 0): 2})
    (note,) = failover(flows[0], ["app"], dry_run=True).notes
    assert note.startswith("B->C copies to orders too. Of its records, a group gets those after")
    back = between(folder, clusters, ["C->A", "C->B"], IDENTITY, ADOPT, name="back")
    assert [list(skipped(plan)) for plan in copy_all(back, "back")] == [["orders"], ["orders"]]
    assert values(a, "orders") == ["a0", "a1"]


@pytest.mark.long
def test_what_no_ledger_knows_is_another_clients_in_a_shared_topic_too(
    folder: Path, clusters: Clusters
) -> None:
    a, b, c = clusters.values()
    flows = between(folder, clusters, ["A->C", "B->C"], IDENTITY, ADOPT)
    write(a, "orders", "a0")
    write(b, "orders", "b0")
    copy_all(flows, "first")
    write(c, "orders", "of a stranger")
    with pytest.raises(VerificationFailed, match="1 record on the target after"):
        verified(flows[0], "first")
    write(b, "orders", "b1")
    copy_all(flows[1:], "second")
    with pytest.raises(VerificationFailed, match="1 record of another producer in orders-0"):
        verified(flows[1], "second")


def test_records_that_reach_a_shared_topic_by_two_ways_are_refused_on_the_second(
    folder: Path, clusters: Clusters
) -> None:
    flows = between(folder, clusters, ["A->B", "A->C", "B->C"], IDENTITY, ADOPT)
    write(clusters["A"], "orders", "1")
    *both, second = flows
    copy_all(both, "first")

    (refusal,) = plan_now(second, "first").remarks.refused
    assert "the flow A->C brings the same records to orders" in refusal.reason


def test_fan_out(folder: Path, clusters: Clusters) -> None:
    a, b, c = clusters.values()
    flows = between(folder, clusters, ["A->B", "A->C"], "A->C.topics = orders")
    for number in range(2):
        write(a, "orders", f"{number}")
        write(a, "payments", f"{number}")
        settle(flows, f"round-{number}", at_most=2)

    assert topics_of(b) == {"A.orders", "A.payments"}
    assert topics_of(c) == {"A.orders"}
    assert values(b, "A.orders") == values(c, "A.orders") == ["0", "1"]


@pytest.mark.long
@pytest.mark.parametrize("offsets", ["translated", "preserved"])
def test_a_chain(folder: Path, clusters: Clusters, offsets: str) -> None:
    """What was copied by transactions is copied on: markers in between, and the proof holds."""
    a, b, c = clusters.values()
    flows = between(folder, clusters, ["A->B", "B->C"], f"offsets = {offsets}")
    for number in range(2):
        write(a, "orders", f"{number}a", f"{number}b")
        settle(flows, f"round-{number}", at_most=2)
        for flow in flows:
            assert verified(flow, f"round-{number}-0").state == "verified"

    assert topics_of(c) == {"B.A.orders"}
    assert_same(a, "orders", c, "B.A.orders")
    if offsets == "preserved":
        assert_same_offsets(a, "orders", c, "B.A.orders")
    origins = read_positions(flows[1].target, "B->C")[TopicPartition("B.A.orders", 0)].origins
    assert set(origins) == {cluster_id(a), cluster_id(b)}


def cluster_id(broker: KafkaCluster) -> str:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    return str(client.describe_cluster().result().cluster_id)


def test_only_the_flows_into_the_clusters_that_are_named(folder: Path, clusters: Clusters) -> None:
    file = write_flows(folder, clusters, ["A->B", "B->C", "A->C"])
    write(clusters["A"], "orders", "1")
    write(clusters["B"], "payments", "1")
    settle(load_flows(file, clusters=["C"]), "near", at_most=2)

    assert topics_of(clusters["B"]) == {"payments"}
    assert topics_of(clusters["C"]) == {"A.orders", "B.payments"}


# No replication loops


def two_files(folder: Path, clusters: Clusters, *lines: str) -> tuple[Flow, ...]:
    """Two flows there and back, whose files call the clusters by different names."""
    (there,) = between(folder, {"A": clusters["A"], "B": clusters["B"]}, ["A->B"], *lines)
    others = {"bee": clusters["B"], "ay": clusters["A"]}
    (back,) = between(folder, others, ["bee->ay"], *lines, name="others")
    return there, back


RECORDS = ("1", "2")
KEPT = {"orders", "payments"}


@pytest.mark.parametrize(
    ("lines", "of_a", "of_b", "texts"),
    [
        pytest.param(
            *([], {"orders", "bee.payments"}, {"payments", "A.orders"}, RECORDS),
            marks=pytest.mark.long,
        ),
        ([IDENTITY], KEPT, KEPT, RECORDS),
        (
            ["topics.rename = orders:shop, payments:bills"],
            {"orders", "bills"},
            {"payments", "shop"},
            (),
        ),
        (
            ["replication.policy.class = kafka_ferry.plan.topics.replication_policy.KeptNames"],
            *(KEPT, KEPT, RECORDS),
        ),
    ],
    ids=["Default", "Identity", "renamed, empty topics", "a user's class"],
)
def test_topics_do_not_go_back_whatever_names_and_aliases_say(
    folder: Path,
    clusters: Clusters,
    lines: list[str],
    of_a: set[str],
    of_b: set[str],
    texts: tuple[str, ...],
) -> None:
    a, b = clusters["A"], clusters["B"]
    flows = two_files(folder, clusters, *lines)
    write(a, "orders", *texts)
    write(b, "payments", *texts)
    settle(flows, "first", at_most=3)
    write(a, "orders", "3")
    *_, last = settle(flows, "second", at_most=3)

    assert (topics_of(a), topics_of(b)) == (of_a, of_b)
    (there,) = of_b - {"payments"} if of_a != of_b else {"orders"}
    assert values(a, "orders") == values(b, there) == [*texts, "3"]
    reason = f"records of ay itself are copied to it (cluster id {cluster_id(a)})"
    assert skipped(last[1])[there] == reason
    assert {row.topic for row in lag(flows[1])} == {"payments"}


def test_nothing_goes_round_three_clusters(folder: Path, clusters: Clusters) -> None:
    flows = between(folder, clusters, ["A->B", "B->C", "C->A"], IDENTITY)
    write(clusters["A"], "orders", "1", "2")
    settle(flows, "first", at_most=3)
    write(clusters["A"], "orders", "3")
    *_, last = settle(flows, "second", at_most=3)

    for broker in clusters.values():
        assert topics_of(broker) == {"orders"}
        assert values(broker, "orders") == ["1", "2", "3"]
    assert "records of A itself" in skipped(last[2])["orders"]


def test_a_topic_that_was_copied_and_is_left_out_for_where_it_came_from_is_refused(
    folder: Path, clusters: Clusters
) -> None:
    """A note would let a run be verified that copies nothing of it any more."""
    (there,) = between(folder, clusters, ["A->B"])
    write(clusters["A"], "orders", "1")
    copy_all([there], "first")
    renamed = "topics.rename = payments:orders"
    (back,) = between(folder, clusters, ["B->A"], renamed, ADOPT, name="back")
    write(clusters["B"], "payments", "2")
    copy_all([back], "back")
    write(clusters["A"], "orders", "3")

    plan = plan_now(there, "second")

    (refusal,) = plan.remarks.refused
    assert "records of B itself" in str(refusal)
    assert "this flow has copied it before" in str(refusal)


def test_a_topic_that_was_recreated_is_no_copy(folder: Path, clusters: Clusters) -> None:
    there, back = two_files(folder, clusters, IDENTITY)
    write(clusters["A"], "orders", "1")
    copy_all([there], "there")
    recreate_topic(clusters["B"], "orders")
    write(clusters["B"], "orders", "of b")

    plan = plan_now(back, "back")

    assert skipped(plan) == {}
    assert [
        "holds records that this flow has not copied" in it.reason for it in plan.remarks.refused
    ] == [True]


def test_where_the_groups_may_not_be_read_the_ledger_and_names_still_count(
    folder: Path, clusters: Clusters
) -> None:
    a = clusters["A"]
    there, back = between(folder, clusters, ["A->B", "B->A"])
    write(a, "orders", "1")
    copy_all([there], "there")
    with denied(clusters["B"], "ferry.A->B"):
        plan = plan_now(back, "back")

    assert list(skipped(plan)) == ["A.orders"]
    assert (plan.remarks.refused, plan.remarks.notes) == ((), ())


def test_what_was_known_of_origins_stays_while_they_cannot_be_read(
    folder: Path, clusters: Clusters
) -> None:
    a, b, _ = clusters.values()
    flows = between(folder, clusters, ["A->B", "B->C", "C->A"], IDENTITY)
    write(a, "orders", "1")
    copy_all(flows[:2], "first")
    write(a, "orders", "2")
    copy_all(flows[:1], "second")
    with denied(b, "ferry.A->B"):
        copy_now(flows[1], "second")

    assert "records of A itself" in skipped(plan_now(flows[2], "back"))["orders"]


@contextmanager
def denied(broker: KafkaCluster, group: str) -> Iterator[None]:
    """Meanwhile no principal may look at a group."""
    about = (ResourceType.GROUP, group, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    rule = AclBinding(*about, AclOperation.ALL, AclPermissionType.DENY)
    like_it = AclBindingFilter(*about, AclOperation.ALL, AclPermissionType.DENY)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_acls([rule])[rule].result()
    # The broker's authorizer hears of it a moment after the controller has answered.
    wait_until(lambda: not may_be_seen(client, group))
    yield
    client.delete_acls([like_it])[like_it].result()
    wait_until(lambda: may_be_seen(client, group))


def may_be_seen(client: AdminClient, group: str) -> bool:
    try:
        client.describe_consumer_groups([group])[group].result()
    except KafkaException:
        return False
    return True


def test_a_ledger_without_positions_is_noted(folder: Path, clusters: Clusters) -> None:
    b = clusters["B"]
    there, back = between(folder, clusters, ["A->B", "B->A"])
    write(clusters["A"], "orders", "1")
    copy_all([there], "there")
    client = AdminClient({"bootstrap.servers": b.bootstrap})
    client.delete_consumer_groups(["ferry.A->B"])["ferry.A->B"].result()

    (note,) = plan_now(back, "back").remarks.notes
    assert str(note).startswith("B has no positions of A->B")
    copy_all([there], "there again")
    positions = read_positions(there.target, "A->B")
    assert positions[TopicPartition("A.orders", 0)].origins == (cluster_id(clusters["A"]),)
    assert plan_now(back, "back again").remarks.notes == ()


# Beginning at the end


def test_latest_copies_what_comes_after_the_first_run_and_all_that_appears_later(
    folder: Path, clusters: Clusters
) -> None:
    a, b, _ = clusters.values()
    flows = between(folder, clusters, ["A->B"], "A.consumer.auto.offset.reset = latest")
    write(a, "orders", "old")
    write(a, "quiet", "old")
    create_topic(a.bootstrap, "empty")
    plan_now(flows[0], "broken off before anything is copied")
    settle(flows, "first", at_most=2)
    assert topics_of(b) == {"A.orders", "A.quiet", "A.empty"}
    assert values(b, "A.orders") == []
    assert verified(flows[0], "first-0").state == "verified"

    # Only the ledger remembers that quiet's position is its end.
    client = AdminClient({"bootstrap.servers": b.bootstrap})
    client.delete_consumer_groups(["ferry.A->B"])["ferry.A->B"].result()
    for topic in ("orders", "quiet", "empty", "later"):
        write(a, topic, "new")
    add_partitions(a, "orders", 2)
    produce(a.bootstrap, "orders", [Record(value=b"added", partition=1)])
    settle(flows, "second", at_most=2)

    for topic, texts in {"orders": ["new", "added"], "quiet": ["new"], "empty": ["new"]}.items():
        assert values(b, f"A.{topic}") == texts
    assert values(b, "A.later") == ["new"]
    assert verified(flows[0], "second-0").state == "verified"


@pytest.mark.long
def test_latest_with_preserved_offsets(folder: Path, clusters: Clusters) -> None:
    a, b, _ = clusters.values()
    lines = ["A.consumer.auto.offset.reset = latest", "offsets = preserved"]
    flows = between(folder, clusters, ["A->B"], *lines)
    write(a, "orders", "old", "older")
    create_topic(a.bootstrap, "empty")
    for number, text in enumerate(("new", "newer")):
        settle(flows, f"before-{number}", at_most=2)
        assert verified(flows[0], f"before-{number}-0").state == "verified"
        write(a, "orders", text)
        write(a, "empty", text)
    settle(flows, "after", at_most=2)

    (read,) = read_all(b.bootstrap, "A.orders").values()
    assert [(record.offset, record.value) for record in read] == [(2, b"new"), (3, b"newer")]
    assert values(b, "A.empty") == ["new", "newer"]
    assert verified(flows[0], "after-0").state == "verified"


# Six clusters


@pytest.mark.long
def test_three_data_centres_with_two_clusters_each(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each cluster gets the topics of the others by every way that passes no cluster twice."""
    neighbours = {
        "west-1": {"west-2", "east-1", "north-1"},
        "west-2": {"west-1"},
        "east-1": {"east-2", "west-1", "north-1"},
        "east-2": {"east-1"},
        "north-1": {"north-2", "west-1", "east-1"},
        "north-2": {"north-1"},
    }

    def ways(cluster: str, passed: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Names of remote topics on ``cluster``, the last hop first."""
        yield passed
        for source in neighbours[cluster] - {*passed, start}:
            yield from ways(source, (*passed, source))

    with running(tmp_path_factory.mktemp("six"), *neighbours) as clusters:
        text = SIX.read_text()
        for alias, broker in clusters.items():
            text = text.replace(f"{alias}.example.com:9092", broker.bootstrap)
        file = folder / SIX.name
        file.write_text("\n".join([text, *settings(folder / "state")]))
        flows = load_flows(file)
        assert {flow.name for flow in flows} == {
            f"{source}->{target}" for target, sources in neighbours.items() for source in sources
        }
        for number in range(2):
            for alias, broker in clusters.items():
                write(broker, "orders", f"{alias} {number}")
            settle(flows, f"round-{number}", at_most=6)

        for start, broker in clusters.items():
            expected = {".".join((*way, "orders")): (start, *way)[-1] for way in ways(start)}
            assert len(expected) == 10
            assert topics_of(broker) == set(expected)
            for topic, first in expected.items():
                assert values(broker, topic) == [f"{first} 0", f"{first} 1"]
