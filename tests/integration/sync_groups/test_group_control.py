"""Groups of every type, their offsets read, committed and deleted on real brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.transactions.committed_offsets import committed_offsets
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.access import deny
from tests.support.java.programs import run_java
from tests.support.records.builders import Record, begin_transaction, create_topic, produce
from tests.support.records.groups import (
    Protocol,
    cluster_of,
    commit_alone,
    first_read,
    member,
    read_shared,
)
from tests.support.runs.pair import Unique
from tests.support.runs.topologies import delete_groups
from tests.support.waiting import wait_until

PROTOCOLS: list[Protocol] = ["classic", "consumer"]
RECORDS = 40


@pytest.fixture(scope="module")
def topic(primary: KafkaCluster) -> str:
    """A topic with two partitions of 20 records."""
    name = "group-control"
    return a_topic(primary, name)


@pytest.fixture
def control(primary: KafkaCluster) -> Iterator[GroupControl]:
    with GroupControl(cluster_of(primary)) as control:
        yield control


def a_topic(broker: KafkaCluster, name: str, partitions: int = 2) -> str:
    create_topic(broker.bootstrap, name, partitions)
    records = [Record(b"%d" % i, partition=i % partitions) for i in range(RECORDS)]
    produce(broker.bootstrap, name, records)
    return name


def seen(broker: KafkaCluster, group: str) -> dict[TopicPartition, Committed]:
    """What a group has committed, read in the older way: one group a request."""
    with WireCluster("seen", {"bootstrap_servers": broker.bootstrap.split(",")}) as cluster:
        found = committed_offsets(cluster, group)
        return {tp: Committed(it.offset, it.leader_epoch, it.metadata) for tp, it in found.items()}


def only(refused: Mapping[str, Mapping[TopicPartition, FerryError]]) -> FerryError:
    """The one error that there is."""
    ((error,),) = (errors.values() for errors in refused.values())
    return error


def test_groups_are_listed_with_their_types_and_states(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    classic, modern, simple, shared = map(unique, ("classic", "modern", "simple", "shared"))
    commit_alone(primary, simple, {TopicPartition(topic, 0): 3})
    control.commit({Group(shared, "share"): {TopicPartition(topic, 0): Committed(3)}})
    with member(primary, classic, topic), member(primary, modern, topic, "consumer"):
        listed = {group.name: group for group in control.groups()}
        described = control.describe([classic, modern, simple, shared, "nobody's"])
        together = control.no_such_group(f"{classic}, {modern}")

    expected = {
        classic: Group(classic, "classic", "Stable", "consumer"),
        modern: Group(modern, "consumer", "Stable", "consumer"),
        simple: Group(simple, "classic", "Empty", ""),
        shared: Group(shared, "share", "Empty", "share"),
    }
    assert expected.items() <= listed.items()
    assert described == expected | {"nobody's": Group("nobody's", "classic", "Dead", "")}
    assert f"by itself: --group {classic} --group {modern};" in together.advice


def test_a_group_is_idle_as_soon_as_its_last_member_has_left(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group = unique("leaving")
    with member(primary, group, topic):
        before = control.describe([group])[group]
    after = control.describe([group])[group]

    assert isinstance(before, Group)
    assert isinstance(after, Group)
    assert (before.idle, after.idle) == (False, True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_consumer_has_committed_is_read(
    protocol: Protocol, primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group = unique("reader")
    with member(primary, group, topic, protocol) as consumer:
        consumer.consume(RECORDS // 2, timeout=10)
        offset = ConfluentPartition(topic, 1, 7, metadata="bäckup", leader_epoch=0)
        consumer.commit(offsets=[offset], asynchronous=False)
        found = control.committed_offsets([Group(group)])

    # confluent-kafka commits the end of a C string too, and that is kept.
    assert found == {group: {TopicPartition(topic, 1): Committed(7, 0, "bäckup\0")}}


def test_a_group_without_offsets_has_none(control: GroupControl) -> None:
    assert control.committed_offsets([Group("nobody's")]) == {"nobody's": {}}
    assert control.committed_offsets([]) == {}


def test_what_a_transaction_has_pending_is_not_committed(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group, place = unique("pending"), TopicPartition(topic, 0)
    commit_alone(primary, group, {place: 3})
    producer = begin_transaction(primary.bootstrap, group)
    with member(primary, group, topic) as consumer:
        offsets = [ConfluentPartition(topic, 0, 9)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())

        pending = control.committed_offsets([Group(group)])
        producer.commit_transaction()

    assert pending == {group: {place: Committed(3)}}
    # Its marker reaches the group's partition after the producer is told that it has committed.
    wait_until(lambda: control.committed_offsets([Group(group)])[group][place].offset == 9)
    assert control.committed_offsets([Group(group)])[group] == seen(primary, group)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_begins_where_was_committed_for_it(
    protocol: Protocol, primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group = unique("moved")
    offsets = {
        TopicPartition(topic, 0): Committed(13, -1, "from afar"),
        TopicPartition(topic, 1): Committed(20),
    }

    assert control.commit({Group(group, protocol): offsets}) == {}

    assert seen(primary, group) == offsets
    assert first_read(primary, group, topic, protocol) == (0, 13)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_left_alone_and_the_others_are_not(
    protocol: Protocol, primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    busy, idle = unique("busy"), unique("idle")
    offsets = {TopicPartition(topic, 0): Committed(5)}
    with member(primary, busy, topic, protocol):
        refused = control.commit({Group(busy): offsets, Group(idle): offsets})
        kept = control.delete_offsets({busy: offsets, idle: offsets})

    error = only(refused)
    assert isinstance(error, BrokerError)
    assert error.name == "UNKNOWN_MEMBER_ID"
    assert not error.transient
    assert f"the offset of {topic}-0 in the group {busy}" in error.message
    assert "stop them" in error.advice
    assert list(kept) == [busy]
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in str(only(kept))


def test_one_bad_partition_does_not_fail_the_others(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group = unique("mixed")
    good = {TopicPartition(topic, 1): Committed(5)}
    bad = {
        TopicPartition(topic, 2): Committed(5),
        TopicPartition("no-such-topic", 0): Committed(5),
        TopicPartition(topic, 0): Committed(5, -1, "x" * 5_000),
    }
    began = time.monotonic()

    refused = control.commit({Group(group): good | bad})[group]

    assert refused.keys() == bad.keys()
    told = [str(error) for error in refused.values()]
    assert all("UNKNOWN_TOPIC_OR_PARTITION" in sentence for sentence in told[:2])
    assert "OFFSET_METADATA_TOO_LARGE" in told[2]
    assert seen(primary, group) == good
    # No request waits for a topic to come.
    assert time.monotonic() - began < 5


def test_offsets_are_deleted_and_may_be_gone_already_with_their_group(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group, other = unique("deleted"), unique("other")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    offsets = {first: Committed(5), second: Committed(6)}
    control.commit({Group(group): offsets, Group(other): offsets})

    for _ in range(2):
        assert control.delete_offsets({group: [first]}) == {}
        assert seen(primary, group) == {second: Committed(6)}
    delete_groups(primary, [group])
    assert control.delete_offsets({group: [second]}) == {}

    assert control.describe([group])[group] == Group(group, "classic", "Dead")
    assert seen(primary, other) == offsets


def test_many_groups_are_asked_in_few_requests_and_none_is_mixed_up(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    prefix = unique("many")
    offsets = {
        Group(f"{prefix}-{number}"): {
            TopicPartition(topic, 0): Committed(number),
            TopicPartition(topic, 1): Committed(2 * number, -1, str(number)),
        }
        for number in range(300)
    }

    assert control.commit(offsets) == {}

    assert control.committed_offsets(offsets) == {
        group.name: some for group, some in offsets.items()
    }
    names = {group.name for group in control.groups() if group.name.startswith(prefix)}
    assert names == {group.name for group in offsets}
    assert all(isinstance(g, Group) and g.idle for g in control.describe(names).values())


def test_offsets_that_fit_into_no_record_batch_are_committed_in_parts(
    primary: KafkaCluster, control: GroupControl, unique: Unique
) -> None:
    topic, group = unique("wide"), unique("wide")
    create_topic(primary.bootstrap, topic, 300)
    # 1.2 MB: the topic of offsets takes batches of 1 MB.
    offsets = {TopicPartition(topic, n): Committed(n, -1, "x" * 4_000) for n in range(300)}

    assert control.commit({Group(group): offsets}) == {}

    assert control.committed_offsets([Group(group)]) == {group: offsets}


@pytest.mark.long
def test_a_streams_application_begins_where_was_committed_for_it(
    primary: KafkaCluster, topic: str, control: GroupControl, unique: Unique
) -> None:
    group = Group(unique("streams"), "streams")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    control.commit({group: {first: Committed(13), second: Committed(20)}})

    assert run_java("StreamsGroup", primary.bootstrap, group.name, topic, 7).split() == ["0", "13"]

    described = control.describe([group.name])[group.name]
    assert described == Group(group.name, "streams", "Empty", "streams")
    assert seen(primary, group.name)[first].offset == 20
    # What Kafka Streams keeps beside an offset (the stream's time) is no text of ours to judge.
    kept = {first: Committed(14, -1, seen(primary, group.name)[first].metadata)}
    assert control.commit({group: kept}) == {}
    assert seen(primary, group.name) == kept | {second: Committed(20)}


@pytest.mark.long
def test_a_share_group_begins_where_was_committed_for_it(
    primary: KafkaCluster, control: GroupControl, unique: Unique
) -> None:
    topic = a_topic(primary, unique("shared"))
    group = Group(unique("shared"), "share")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    assert control.commit({group: {first: Committed(15), second: Committed(20)}}) == {}

    assert control.committed_offsets([group]) == {
        group.name: {first: Committed(15, 0), second: Committed(20, 0)}
    }
    read = read_shared(primary, group.name, topic, 5)
    assert read == {(0, offset) for offset in range(15, 20)}
    # A broker stores how far all is done with when it hears of what comes next.
    produce(primary.bootstrap, topic, [Record(b"next", partition=0)])
    assert read_shared(primary, group.name, topic, 1) == {(0, 20)}
    assert control.committed_offsets([group]) == {
        group.name: {first: Committed(20, 0), second: Committed(20, 0)}
    }


def test_a_share_group_forgets_whole_topics_only(
    topic: str, control: GroupControl, unique: Unique
) -> None:
    group = Group(unique("shared"), "share")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    control.commit({group: {first: Committed(15), second: Committed(20)}})

    error = only(control.delete_offsets({group.name: [first]}))
    assert f"{second} is to stay" in str(error)
    assert control.delete_offsets({group.name: [first, second]}) == {}
    assert control.committed_offsets([group]) == {group.name: {}}


def test_a_group_of_another_type_is_refused_by_name(
    topic: str, control: GroupControl, unique: Unique
) -> None:
    classic, shared = unique("classic"), unique("shared")
    offsets = {TopicPartition(topic, 0): Committed(5)}
    control.commit({Group(classic): offsets, Group(shared, "share"): offsets})

    refused = control.commit({Group(classic, "share"): offsets, Group(shared): offsets})

    assert refused.keys() == {classic, shared}
    for errors in refused.values():
        assert "group of this name of another type" in str(errors[TopicPartition(topic, 0)])


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker on which a client without a login is bound by ACLs."""
    folder = tmp_path_factory.mktemp("strict")
    with Broker(folder, config={"super.users": "User:nobody"}) as broker:
        yield broker


def test_a_group_without_a_right_is_named_and_the_others_are_read_and_committed(
    strict: KafkaCluster, unique: Unique
) -> None:
    topic = a_topic(strict, unique("open"))
    offsets = {TopicPartition(topic, 0): Committed(5)}
    hidden, guarded, free = unique("hidden"), unique("guarded"), unique("free")
    with GroupControl(cluster_of(strict)) as control:
        control.commit({Group(name): offsets for name in (hidden, guarded, free)})
        deny(strict, f"group {hidden}", "DESCRIBE")
        deny(strict, f"group {guarded}", "READ")
        found = control.committed_offsets([Group(hidden), Group(guarded), Group(free)])
        described = control.describe([hidden, free])
        refused = control.commit(
            {Group(name): {TopicPartition(topic, 1): Committed(1)} for name in (guarded, free)}
        )

    denied = found[hidden]
    assert isinstance(denied, AccessDenied)
    assert hidden in denied.message
    assert "GROUP_AUTHORIZATION_FAILED" in denied.message
    assert "DESCRIBE" in denied.advice
    assert found[guarded] == found[free] == offsets
    assert isinstance(described[free], Group)
    assert refused.keys() == {guarded}
    assert isinstance(only(refused), AccessDenied)


def test_a_topic_without_a_right_is_named_and_the_others_are_committed(
    strict: KafkaCluster, unique: Unique
) -> None:
    group = unique("group")
    closed, open_ = a_topic(strict, unique("closed")), a_topic(strict, unique("open"))
    deny(strict, f"topic {closed}", "READ")
    with GroupControl(cluster_of(strict)) as control:
        refused = control.commit(
            {Group(group): {TopicPartition(name, 0): Committed(1) for name in (closed, open_)}}
        )

    assert refused[group].keys() == {TopicPartition(closed, 0)}
    assert "READ on the topic" in only(refused).advice
    assert seen(strict, group).keys() == {TopicPartition(open_, 0)}


def test_what_may_not_be_seen_is_left_out_of_a_listing_and_denied_when_asked_for(
    strict: KafkaCluster, unique: Unique
) -> None:
    topic, secret = a_topic(strict, unique("open")), a_topic(strict, unique("secret"))
    offsets = {TopicPartition(name, 0): Committed(5) for name in (topic, secret)}
    hidden, free = unique("hidden"), unique("free")
    with GroupControl(cluster_of(strict)) as control:
        control.commit({Group(hidden): offsets, Group(free): offsets})
        deny(strict, f"topic {secret}", "DESCRIBE")
        deny(strict, f"group {hidden}", "DESCRIBE")
        deny(strict, "cluster kafka-cluster", "DESCRIBE")
        listed = {group.name for group in control.groups()}
        described = control.describe([hidden, free])
        found = control.committed_offsets([Group(free)])

    assert (hidden in listed, free in listed) == (False, True)
    assert isinstance(described[hidden], AccessDenied)
    assert described[free] == Group(free, "classic", "Empty", "")
    # Nothing tells that there is more.
    assert found == {free: {TopicPartition(topic, 0): Committed(5)}}


def test_a_cluster_that_comes_back_is_waited_for(
    tmp_path: Path, strict: KafkaCluster, unique: Unique
) -> None:
    topic, group = a_topic(strict, unique("open")), Group(unique("group"))
    offsets = {TopicPartition(topic, 0): Committed(5)}
    with GroupControl(cluster_of(strict)) as control:
        control.commit({group: offsets})
        strict.kill()
        coming = threading.Timer(0.5, strict.start)
        coming.start()

        assert control.committed_offsets([group]) == {group.name: offsets}
        assert control.commit({group: {TopicPartition(topic, 1): Committed(7)}}) == {}
    coming.join()
    assert seen(strict, group.name)[TopicPartition(topic, 1)] == Committed(7)


def test_a_cluster_that_is_away_is_an_error_of_the_whole(strict: KafkaCluster) -> None:
    away = cluster_of(Broker(strict.directory / "away"))
    with GroupControl(away) as control, retry_for(0):
        for ask in (
            control.groups,
            lambda: control.describe(["g"]),
            lambda: control.committed_offsets([Group("g")]),
        ):
            with pytest.raises(ClusterUnreachable, match="there"):
                ask()
