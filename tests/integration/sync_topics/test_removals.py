"""What the source lacks is taken away on the target only if it is the cluster that it was created for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_ferry.config import Flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.model import RunOptions
from kafka_ferry.model.changes import Entity
from kafka_ferry.report.plan_text import plan_text
from kafka_ferry.runs import Run
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import (
    acls_of,
    add_user,
    allow,
    forget,
    quotas_of,
    remove_user,
    set_quota,
    some_acls,
    users_of,
)
from tests.support.records.histories import named
from tests.support.runs.flows import copy_now, failures, make_flow, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK
from tests.support.runs.topologies import delete_groups
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("without_spark")

RATE = "consumer_byte_rate"


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """An empty cluster, to which the source's name points after a disaster."""
    with Broker(tmp_path_factory.mktemp("rebuilt")) as broker:
        yield broker


def commit(broker: KafkaCluster, group: str, topic: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 3}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()


def groups_of(flow: Flow) -> set[str]:
    """The groups with offsets on the target."""
    with GroupControl(flow.target) as target:
        offsets = target.committed_offsets(target.groups())
        return {name for name, committed in offsets.items() if committed}


def synced(flow: Flow, run: str) -> str:
    """What the plan of a run says that copies, verifies and moves groups; it succeeds."""
    this = Run(flow, run)
    assert not failures(copy_now(flow, run))
    text = "\n".join(line.text for line in plan_text(this.stored_plan()))
    this.verify(NO_SPARK)
    this.sync_groups()
    assert not this.stored_plan().remarks.unapplied
    return text


def test_nothing_is_taken_away_because_another_cluster_lacks_it(
    pair: Pair, rebuilt: KafkaCluster
) -> None:
    topic, anna = pair.topic("orders", named("first", 10)), pair.unique("anna")
    client: Entity = (("client-id", anna),)
    passwords = pair.folder / "passwords.properties"
    passwords.write_text(f"{anna}=a password\n")

    def flow_from(source: KafkaCluster) -> Flow:
        return make_flow(
            pair.folder,
            source,
            pair.backup,
            [topic],
            acls_mode="exact",
            acls_principals=[f"RULE:User:({anna})/User:$1/"],
            sync_client_quotas_enabled=True,
            sync_scram_users_enabled=True,
            scram_passwords_file=str(passwords),
            groups=[anna],
            sync_group_offsets_enabled=True,
            on_source_group_deleted="delete",
        )

    flow = flow_from(pair.primary)
    rules = [f"topic {topic}: {anna} ALLOW WRITE", f"group {anna}: {anna} ALLOW READ"]
    copied = some_acls(rules[0].replace(topic, remote(flow, topic)), rules[1])
    allow(pair.primary, *rules)
    set_quota(pair.primary, client, RATE, 1024)
    add_user(pair.primary, anna, "another password")
    commit(pair.primary, anna, topic)

    def there() -> list[bool]:
        return [
            copied <= acls_of(pair.backup),
            (client, RATE) in quotas_of(pair.backup),
            anna in users_of(pair.backup),
            anna in groups_of(flow),
        ]

    synced(flow, "run-1")
    assert there() == [True] * 4

    moved = flow_from(rebuilt)
    said = synced(moved, "run-2")
    assert there() == [True] * 4
    assert "So this stays on backup" in said
    for kept in ("2 ACLs", f"a SCRAM user ({anna}", "a client quota", f"a group ({anna})"):
        assert kept in said
    assert "removals.cluster.id" in said

    # The former cluster is back, and has none of it any more: that is a reason.
    forget(pair.primary, *rules)
    set_quota(pair.primary, client, RATE, None)
    remove_user(pair.primary, anna)
    delete_groups(pair.primary, [anna])
    flow = flow_from(pair.primary)
    said = synced(flow, "run-3")
    for line in (
        f"revoke {min(copied)}",
        f"unset the quota {RATE} of client-id {anna}",
        f"delete the SCRAM user {anna}",
        f"delete the offsets of the group {anna} in {remote(flow, topic)}",
    ):
        assert line in said
    wait_until(lambda: not any(there()))


@pytest.mark.parametrize("how", ["by an option of the run", "by a person who saw the plan"])
def test_more_than_removals_max_goes_only_with_an_approval(pair: Pair, how: str) -> None:
    topic = pair.topic("orders")
    flow = pair.flow([topic], approval="never" if how == "by an option of the run" else "changes")
    copy = remote(flow, topic)
    readers = [f"{pair.unique('reader')}-{number}" for number in range(6)]
    rules = [f"topic {topic}: {reader} ALLOW READ" for reader in readers]
    copied = some_acls(*(rule.replace(topic, copy) for rule in rules))
    allow(pair.primary, *rules)
    plan_now(flow)
    forget(pair.primary, *rules)

    this = Run(flow, "run-2")
    this.plan()
    (sentence,) = this.sync_topics().remarks.unapplied
    assert "6 ACLs of the 6" in sentence
    assert "removals.max allows 5" in sentence
    assert all(reader in sentence for reader in readers)
    # Repeated, the step says it again.
    assert this.sync_topics().remarks.unapplied == (sentence,)
    assert copied <= acls_of(pair.backup)

    this = Run(flow, "run-3")
    approved = None
    if how == "by an option of the run":
        this.plan(RunOptions(approve_removals=True))
    else:
        this.plan()
        with pytest.raises(FerryError, match="not the stored one"):
            this.approve("Ada", Run(flow, "run-2").stored_plan().digest)
        this.approve("Ada", this.stored_plan().digest)
        approved = this.stored_plan().digest
        with pytest.raises(FerryError, match="not the one that was approved"):
            this.sync_topics(Run(flow, "run-2").stored_plan().digest)
    assert not this.sync_topics(approved).remarks.unapplied
    wait_until(lambda: not copied & acls_of(pair.backup))
