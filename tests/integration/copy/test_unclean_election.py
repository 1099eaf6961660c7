"""A real unclean leader election between runs of a flow, on either side: what is lost is named, never hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs import Run
from kafka_ferry.runs.verify import partition_recounts
from kafka_ferry.wire import PartitionLeader, WireCluster
from kafka_ferry.wire.partitions.epochs import epoch_ends
from kafka_sandbox.broker import QUICK_CLEANER
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster, start_all
from tests.support.brokers.unclean import (
    LEADER,
    create_unclean_topic,
    elect_follower,
    leave_follower_behind,
)
from tests.support.records.builders import create_topic, produce
from tests.support.records.histories import named, told, values
from tests.support.runs.flows import (
    copy_now,
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.pair import Unique
from tests.support.runs.proof import NO_SPARK, recount_here, verified

pytestmark = pytest.mark.long


@pytest.fixture
def cluster(folder: Path) -> Iterator[Brokers]:
    """Three brokers of their own, since they are killed."""
    cluster = Brokers(folder / "cluster", config=QUICK_CLEANER)
    try:
        start_all([cluster])
        yield cluster
    finally:
        cluster.wipe()


def test_records_that_vanish_from_the_source_after_they_were_copied(
    folder: Path, cluster: Brokers, backup: KafkaCluster, unique: Unique
) -> None:
    """MirrorMaker 2 situation 5: it goes on in the middle of the new records, without a word."""
    source, flows = cluster, {}
    for policy in ("fail", "continue"):
        own = folder / unique(policy)
        flows[policy] = make_flow(own, source, backup, [policy], on_source_divergence=policy)
        create_unclean_topic(source, policy)
        produce(source.bootstrap, policy, named("kept", 20))
    leave_follower_behind(source, *flows)
    for policy, flow in flows.items():
        produce(source.bootstrap, policy, named("lost", 10))
        assert failures(copy_now(flow)) == []
    elect_follower(source, *flows)
    for policy in flows:
        produce(source.bootstrap, policy, named("new", 40))

    before = told("kept", 20) + told("lost", 10)
    plan = plan_now(flows["fail"], "run-2")
    (problem,) = [*map(str, plan.remarks.refused), *failures(copy_planned(flows["fail"], plan))]
    assert "fail" in problem
    assert "[20, 30)" in problem
    assert values(backup, remote(flows["fail"], "fail")) == before

    assert failures(copy_now(flows["continue"], "run-2")) == []
    have = values(backup, remote(flows["continue"], "continue"))
    assert have == before + told("new", 40)
    rewound = [row for row in ledger_rows(flows["continue"]) if row["rewound_from"] >= 0]
    assert [(row["start"], row["rewound_from"]) for row in rewound] == [(20, 30)]


def test_records_that_vanish_from_the_target_after_they_were_committed(
    folder: Path,
    cluster: Brokers,
    primary: KafkaCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recount_here(monkeypatch)
    target, topics = cluster, {name: unique(name) for name in ("translated", "preserved", "whole")}
    flow = make_flow(
        folder,
        primary,
        target,
        topics.values(),
        offsets={topics["preserved"]: "preserved"},
        sync_topic_configs_enabled=False,
    )
    broken = [topics["translated"], topics["preserved"]]
    for name in topics.values():
        create_topic(primary.bootstrap, name)
        produce(primary.bootstrap, name, named("kept", 20))
    for name in broken:
        create_unclean_topic(target, remote(flow, name))
    copied(flow, "run-1")
    verified(flow, "run-1")
    leave_follower_behind(target, *(remote(flow, name) for name in broken))
    for name in topics.values():
        produce(primary.bootstrap, name, named("lost", 10))
    copied(flow, "run-2")
    verified(flow, "run-2")
    elect_follower(target, *(remote(flow, name) for name in broken))
    assert values(target, remote(flow, topics["translated"])) == told("kept", 20)

    # What was verified before is judged again by all that judges everything, ...
    for name in broken:
        assert name in unproved(flow, "run-2")
    # ... and no later run takes the place of what is gone for its own without a word.
    for name in topics.values():
        produce(primary.bootstrap, name, named("new", 5))
    plan = plan_now(flow, "run-3")
    said = [*map(str, plan.remarks.refused), *failures(copy_planned(flow, plan))]
    (problem,) = [text for text in said if topics["preserved"] in text]
    assert "records that were copied are gone" in problem
    for name in broken:
        assert name in unproved(flow, "run-3")
    with pytest.raises(VerificationFailed, match="10 records copied, 0 on the target"):
        # Until a person has decided.
        Run(flow, "run-3").verify(NO_SPARK)


def copied(flow: Flow, run: str) -> None:
    assert failures(copy_now(flow, run)) == []


def unproved(flow: Flow, run: str) -> str:
    """What a verification of all that was ever copied finds missing."""
    with pytest.raises(VerificationFailed) as raised:
        Run(flow, run).verify(NO_SPARK, everything=True, afresh=True)
    return str(raised.value)


def test_records_that_vanish_from_the_target_after_they_were_read_back(
    folder: Path,
    cluster: Brokers,
    primary: KafkaCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others take their offsets, and the broker that is asked for the epoch's end does not lead the log any more."""
    target, topic = cluster, unique("read")
    flow = make_flow(folder, primary, target, [topic], sync_topic_configs_enabled=False)
    create_topic(primary.bootstrap, topic)
    produce(primary.bootstrap, topic, named("kept", 20))
    create_unclean_topic(target, remote(flow, topic))
    copied(flow, "run-1")
    leave_follower_behind(target, remote(flow, topic))
    produce(primary.bootstrap, topic, named("lost", 10))
    copied(flow, "run-2")
    recount_here(monkeypatch)
    Run(flow, "run-2").read_back(NO_SPARK)
    elect_follower(target, remote(flow, topic))
    produce(target.bootstrap, remote(flow, topic), named("other", 20))
    looked_up, stale = WireCluster.leaders, [LEADER]

    def leaders(
        self: WireCluster, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionLeader]:
        answers = looked_up(self, partitions)
        node = stale.pop() if stale else None
        return {tp: replace(it, node=node or it.node) for tp, it in answers.items()}

    def asked(cluster: WireCluster, epochs: Mapping[TopicPartition, int]) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(WireCluster, "leaders", leaders)
            return epoch_ends(cluster, epochs)

    monkeypatch.setattr(partition_recounts, "epoch_ends", asked)
    with pytest.raises(VerificationFailed, match=topic):
        Run(flow, "run-2").verify(NO_SPARK)
    assert not stale
