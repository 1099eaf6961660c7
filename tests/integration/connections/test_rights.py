"""A right that is missing on one topic or group is named, and the others are copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import GroupsFailed, VerificationFailed
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.results.failures import RangesFailed
from kafka_ferry.model.rights import Right
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import deny
from tests.support.brokers.own_brokers import own_pair
from tests.support.records.builders import Record, create_topic, delete_before, produce
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import (
    assert_same,
    copy_now,
    copy_planned,
    failures,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.proof import NO_SPARK
from tests.support.runs.rights import granted_by
from tests.support.runs.topologies import topics_of

pytestmark = pytest.mark.usefixtures("without_spark")

TOPICS = ("open", "unreadable", "unwritable")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two brokers on which a client without a login is bound by ACLs."""
    with own_pair(tmp_path_factory.mktemp("strict"), {"super.users": "User:nobody"}) as brokers:
        yield brokers


@pytest.fixture
def flow(folder: Path, strict: tuple[KafkaCluster, KafkaCluster]) -> Flow:
    source, target = strict
    for topic in TOPICS:
        create_topic(source.bootstrap, topic, partitions=2)
        produce(source.bootstrap, topic, [Record(key=b"%d" % i) for i in range(20)])
    # One writer, so that all of them share its transactions. The rules are of each side alone.
    return make_flow(folder, source, target, TOPICS, writers=1, sync_topic_acls_enabled=False)


def write(source: KafkaCluster, topics: Iterable[str]) -> None:
    """Creates topics with 20 records each."""
    for topic in topics:
        create_topic(source.bootstrap, topic)
        produce(source.bootstrap, topic, [Record(key=b"%d" % i) for i in range(20)])


def read_half(flow: Flow, group: str, topics: Iterable[str]) -> None:
    """Lets a group of the source have read the first ten records of each topic."""
    with GroupControl(flow.source) as control:
        half = {TopicPartition(topic, 0): Committed(10) for topic in topics}
        assert not control.commit({Group(group): half})


def test_topics_without_a_right_are_named_and_the_others_copied(
    flow: Flow, strict: tuple[KafkaCluster, KafkaCluster]
) -> None:
    source, target = strict
    deny(source, "topic unreadable", "READ")
    deny(target, f"topic {remote(flow, 'unwritable')}", "WRITE")

    said = failures(copy_now(flow))

    assert len(said) == 4
    assert all("TOPIC_AUTHORIZATION_FAILED" in sentence for sentence in said)
    assert {sentence.split("-")[0] for sentence in said} == {"unreadable", "unwritable"}
    assert_same(source, "open", target, remote(flow, "open"))


def test_topics_that_may_not_be_described_are_named_and_the_others_copied_proved_and_moved(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster]
) -> None:
    source, target = strict
    topics = ("described", "hidden-here", "hidden-there", "hidden-before")
    write(source, topics)
    options = {"sync_topic_acls_enabled": False, "sync_group_offsets_enabled": True}
    flow = make_flow(folder, source, target, topics, groups=["reader"], **options)
    deny(target, f"topic {remote(flow, 'hidden-before')}", "DESCRIBE_CONFIGS")
    read_half(flow, "reader", topics)
    copy_planned(flow, plan_now(flow))
    Run(flow, "run-1").verify(NO_SPARK)
    deny(source, "topic hidden-here", "DESCRIBE_CONFIGS")
    deny(target, f"topic {remote(flow, 'hidden-there')}", "DESCRIBE_CONFIGS")
    for topic in topics:
        produce(source.bootstrap, topic, [Record(key=b"more")])

    plan = plan_now(flow, "run-2")
    outcomes = copy_planned(flow, plan)
    run = Run(flow, "run-2")
    run.verify(NO_SPARK)
    moves = run.sync_groups()

    with pytest.raises(RangesFailed) as raised:
        run._copying().raise_failures(plan, outcomes, None)
    wanted = {"hidden-here", remote(flow, "hidden-there"), remote(flow, "hidden-before")}
    rights = {Right.topic("DESCRIBE_CONFIGS", name) for name in wanted}
    assert granted_by([*map(str, raised.value.refused)]) == rights
    assert (len(raised.value.refused), raised.value.failures) == (3, ())
    assert_same(source, "described", target, remote(flow, "described"))
    assert remote(flow, "hidden-before") not in topics_of(target)
    assert {(it.source.topic, it.action) for _, it in moves.partitions()} == {
        ("described", "written"),
        *((topic, "held") for topic in topics[1:]),
    }
    held = {it.source.topic: it.reason for _, it in moves.partitions("held")}
    assert granted_by([held["hidden-here"], held["hidden-there"]]) == {
        Right.topic("DESCRIBE_CONFIGS", name)
        for name in ("hidden-here", remote(flow, "hidden-there"))
    }


def test_copies_that_may_not_be_read_are_named_and_the_others_verified(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster]
) -> None:
    source, target = strict
    topics = ("read", "unread", "unseen", "unread-before")
    write(source, topics)
    flow = make_flow(
        folder,
        source,
        target,
        topics,
        groups=["reader-of-copies"],
        sync_topic_acls_enabled=False,
        sync_group_offsets_enabled=True,
        verify_everything_within="30 days",
    )
    read_half(flow, "reader-of-copies", topics)
    assert not failures(copy_now(flow))
    denied = {
        Right.topic("READ", remote(flow, "unread")),
        Right.topic("READ", remote(flow, "unseen")),
    }
    deny(target, f"topic {remote(flow, 'unread')}", "READ")
    deny(target, f"topic {remote(flow, 'unseen')}", "DESCRIBE")

    run = Run(flow, "run-1")
    with pytest.raises(VerificationFailed) as raised:
        run.verify(NO_SPARK)

    assert granted_by([str(raised.value)]) == denied
    found = run.reconciliation()
    assert found
    assert found.verdict
    assert (found.verdict.ranges, found.verdict.records) == (2, 40)
    assert [it.topic for it in run.proved_topics()] == ["read", "unread-before"]
    moves = run.sync_groups()
    assert {it.source.topic: it.action for _, it in moves.partitions()} == {
        "read": "held",
        "unread-before": "held",
        "unread": "held",
        "unseen": "held",
    }
    findings = ferry("repair", "--config", flow.file, "--findings")
    assert findings.returncode == 2
    assert "NOT READ unread-0 [0, 20)" in findings.stdout
    assert "--yes" not in findings.stdout, "what was not read is not known to be wrong"
    assert granted_by([findings.stdout]) == denied

    deny(source, "topic unread-before", "DESCRIBE_CONFIGS")
    lag = ferry("lag", "--config", flow.file)
    assert lag.returncode == 4
    assert "The verification of run run-1 failed" in lag.stderr
    assert granted_by([lag.stderr]) - denied == {Right.topic("DESCRIBE_CONFIGS", "unread-before")}
    rows = [line.split()[0] for line in lag.stdout.splitlines()[2:] if line.strip()]
    assert rows == ["read", "unread", "unseen", "unread-before"], "of the last the lag is unknown"
    asked = ("--offset", "read:0:3", "--offset", "unseen:0:3")
    translated = ferry("translate", "--config", flow.file, *asked)
    assert f"{remote(flow, 'read')}" in translated.stdout
    assert granted_by([translated.stdout]) == {Right.topic("READ", remote(flow, "unseen"))}


def test_a_log_start_that_may_not_be_moved_is_named_and_by_policy_left(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster]
) -> None:
    source, target = strict
    topics = ("moves", "may-not-move")
    write(source, topics)
    flow = make_flow(
        folder,
        source,
        target,
        topics,
        writers=1,
        offsets="preserved",
        sync_topic_acls_enabled=False,
    )
    assert not failures(copy_now(flow))
    deny(target, f"topic {remote(flow, 'may-not-move')}", "DELETE")
    for topic in topics:
        delete_before(source, topic, 5)

    (said,) = failures(copy_now(flow, "run-2"))

    assert "may-not-move-0" in said
    assert "DELETE" in said
    assert "TOPIC_AUTHORIZATION_FAILED" in said
    assert_same_offsets(source, "moves", target, remote(flow, "moves"))
    keeping = flow.model_copy(update={"on_source_start_moved": "keep"})
    assert not failures(copy_now(keeping, "run-3"))


def with_groups(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster], *groups: str, sync: bool = True
) -> tuple[Run, TopicPartition]:
    """A run that is copied and proved, of a topic that the groups have read half of."""
    source, target = strict
    topic = f"read-by-{groups[0]}"
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, [Record(key=b"%d" % i) for i in range(20)])
    flow = make_flow(
        folder,
        source,
        target,
        [topic],
        groups=list(groups),
        sync_group_offsets_enabled=sync,
        emit_heartbeats_enabled=False,
        sync_topic_acls_enabled=False,
    )
    with GroupControl(flow.source) as control:
        half = {TopicPartition(topic, 0): Committed(10)}
        assert not control.commit({Group(group): half for group in groups})
    assert not failures(copy_now(flow))
    run = Run(flow, "run-1")
    run.verify(NO_SPARK)
    return run, TopicPartition(remote(flow, topic), 0)


def test_a_group_that_may_not_be_written_is_named_and_the_others_are(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster]
) -> None:
    run, there = with_groups(folder, strict, "closed", "opened")
    deny(strict[1], "group closed", "READ")

    with pytest.raises(GroupsFailed) as raised:
        run.sync_groups()

    (said,) = raised.value.failures
    assert "the group closed" in said
    assert str(there) in said
    assert "GROUP_AUTHORIZATION_FAILED" in said
    assert not raised.value.transient
    moves = run._folder.groups()
    assert moves is not None
    assert [(g.group.name, one.action) for g, one in moves.partitions()] == [
        ("closed", "refused"),
        ("opened", "written"),
    ]
    assert moves.failures == (said,)
    with GroupControl(run.flow.target) as control:
        found = control.committed_offsets([Group("opened")])
    assert found == {"opened": {there: Committed(10)}}


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.short("True")
def test_a_group_that_may_not_be_read_is_a_note_unless_it_was_to_be_written(
    folder: Path, strict: tuple[KafkaCluster, KafkaCluster], sync: bool
) -> None:
    hidden, seen = f"hidden-{sync}", f"seen-{sync}"
    run, _ = with_groups(folder, strict, hidden, seen, sync=sync)
    deny(strict[0], f"group {hidden}", "DESCRIBE")

    if sync:
        with pytest.raises(GroupsFailed, match=hidden):
            run.sync_groups()
    else:
        run.sync_groups()

    moves = run._folder.groups()
    assert moves is not None
    (said,) = moves.failures if sync else moves.notes
    assert hidden in said
    assert [(g.group.name, bool(g.partitions)) for g in moves.groups] == [
        (hidden, False),
        (seen, True),
    ]
