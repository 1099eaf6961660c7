"""A right that is missing on one topic is named, and the other topics are copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_sandbox.broker import Broker, start_all
from tests.support.access import deny
from tests.support.builders import Record, create_topic, delete_before, produce
from tests.support.flows import (
    assert_same,
    copy_now,
    failures,
    make_flow,
    remote,
)
from tests.support.offsets import assert_same_offsets

TOPICS = ("open", "unreadable", "unwritable")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Two brokers on which whoever does not log in is bound by ACLs."""
    home = tmp_path_factory.mktemp("strict")
    brokers = [Broker(home / name, config={"super.users": "User:nobody"}) for name in ("a", "b")]
    start_all(brokers)
    yield brokers[0], brokers[1]
    for broker in brokers:
        broker.wipe()


@pytest.fixture
def flow(folder: Path, strict: tuple[Broker, Broker]) -> Flow:
    source, target = strict
    for topic in TOPICS:
        create_topic(source.bootstrap, topic, partitions=2)
        produce(source.bootstrap, topic, [Record(key=b"%d" % i) for i in range(20)])
    # One writer, so that all of them share its transactions. The rules are of each side alone.
    return make_flow(folder, source, target, TOPICS, writers=1, sync_topic_acls_enabled=False)


def test_topics_without_a_right_are_named_and_the_others_copied(
    flow: Flow, strict: tuple[Broker, Broker]
) -> None:
    source, target = strict
    deny(source, "topic unreadable", "READ")
    deny(target, f"topic {remote(flow, 'unwritable')}", "WRITE")

    said = failures(copy_now(flow))

    assert len(said) == 4
    assert all("TOPIC_AUTHORIZATION_FAILED" in sentence for sentence in said)
    assert {sentence.split("-")[0] for sentence in said} == {"unreadable", "unwritable"}
    assert_same(source, "open", target, remote(flow, "open"))


def test_a_log_start_that_may_not_be_moved_is_named_and_by_policy_left(
    folder: Path, strict: tuple[Broker, Broker]
) -> None:
    source, target = strict
    topics = ("moves", "may-not-move")
    for topic in topics:
        create_topic(source.bootstrap, topic)
        produce(source.bootstrap, topic, [Record(key=b"%d" % i) for i in range(20)])
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
