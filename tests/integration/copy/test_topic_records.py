"""Small topics are read to the ends that they have, and written without a transaction."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from kafka_ferry.config import Cluster
from kafka_ferry.control import topic_records
from kafka_ferry.control.topic_records import TopicRecords, append_records
from kafka_ferry.control.wire_records import NewRecord
from kafka_ferry.errors import BrokerError, FerryError
from kafka_ferry.retry import retry_for
from tests.support.records.builders import Record, create_topic, delete_before, produce, read_all


@pytest.fixture(params=["librdkafka", "data plane"])
def _by_each_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Kerberos, for which the data plane's client is taken."""
    over_wire = request.param == "data plane"
    monkeypatch.setattr(topic_records, "only_kafka_python_logs_in", lambda _: over_wire)


def _cluster(broker: Cluster) -> Cluster:
    return Cluster(alias="backup", properties={"bootstrap.servers": broker.bootstrap})


def test_every_record_of_every_partition_is_read_once_to_the_ends(
    backup: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("small")
    create_topic(backup.bootstrap, topic, 3)
    written = [Record(b"k", b"%d" % n, partition=n % 2) for n in range(5_000)]
    produce(backup.bootstrap, topic, written)
    records = TopicRecords.whole(_cluster(backup), topic, 3)

    found = [(message.partition(), message.value()) for message in records]

    assert sorted(found) == sorted((r.partition, r.value) for r in written)
    assert records.ends == {0: 2_500, 1: 2_500, 2: 0}


def test_what_was_aborted_is_read_only_if_asked_for(
    backup: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("aborted")
    create_topic(backup.bootstrap, topic)
    produce(backup.bootstrap, topic, [Record(b"k", b"no")], transactional_id=topic, abort=True)
    produce(backup.bootstrap, topic, [Record(b"k", b"yes")])

    committed = TopicRecords(_cluster(backup), topic, {0: 0})
    assert [message.value() for message in committed] == [b"yes"]
    assert committed.ends == {0: 3}
    everything = TopicRecords(_cluster(backup), topic, {0: 0}, isolation="read_uncommitted")
    assert [message.value() for message in everything] == [b"no", b"yes"]


def test_reading_begins_where_it_is_told_to(backup: Cluster, unique: Callable[[str], str]) -> None:
    topic = unique("later")
    create_topic(backup.bootstrap, topic)
    produce(backup.bootstrap, topic, [Record(b"k", b"%d" % n) for n in range(5)])
    found = TopicRecords(_cluster(backup), topic, {0: 3})
    assert [message.value() for message in found] == [b"3", b"4"]


def test_what_was_deleted_is_left_out(backup: Cluster, unique: Callable[[str], str]) -> None:
    topic = unique("deleted")
    create_topic(backup.bootstrap, topic)
    produce(backup.bootstrap, topic, [Record(b"k", b"%d" % n) for n in range(5)])
    delete_before(backup, topic, 3)
    found = TopicRecords.whole(_cluster(backup), topic, 1)
    assert [message.value() for message in found] == [b"3", b"4"]


def test_a_packed_record_that_would_take_gigabytes_is_not_opened(
    backup: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("packed")
    create_topic(backup.bootstrap, topic)
    large = {"compression.type": "gzip", "message.max.bytes": 10**8}
    producer = Producer({"bootstrap.servers": backup.bootstrap, **large})
    producer.produce(topic, bytes(70 * 2**20), b"k")
    assert producer.flush(60) == 0

    with pytest.raises(FerryError, match="a record of more than"):
        list(TopicRecords.whole(_cluster(backup), topic, 1))


def test_a_topic_that_cannot_be_read_is_named(
    backup: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("nowhere")
    with retry_for(1), pytest.raises(FerryError, match=topic) as raised:
        list(TopicRecords(_cluster(backup), topic, {0: 0}))
    assert "backup" in raised.value.message


@pytest.mark.usefixtures("_by_each_client")
def test_records_get_their_time_and_the_partition_of_javas_producer(
    backup: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("written")
    create_topic(backup.bootstrap, topic, 4)
    records = [NewRecord(b"a", b"1", 2, at=1_000), NewRecord(b"b", None, None, at=2_000)]

    append_records(_cluster(backup), topic, records)

    found = read_all(backup.bootstrap, topic)
    assert [(r.key, r.value, r.timestamp) for r in found[2] if r.key == b"a"] == [
        (b"a", b"1", 1_000)
    ]
    # murmur2 of "b", as kafka-console-producer has it.
    assert [number for number, of in found.items() if any(r.key == b"b" for r in of)] == [
        _murmur2_partition(backup, unique)
    ]


def _murmur2_partition(broker: Cluster, unique: Callable[[str], str]) -> int:
    topic = unique("hashed")
    create_topic(broker.bootstrap, topic, 4)
    produce(broker.bootstrap, topic, [Record(b"b", b"")])
    return next(number for number, of in read_all(broker.bootstrap, topic).items() if of)


@pytest.mark.usefixtures("_by_each_client")
def test_a_record_that_is_refused_is_told(backup: Cluster, unique: Callable[[str], str]) -> None:
    topic = unique("tight")
    create_topic(backup.bootstrap, topic, max_message_bytes="200")
    with pytest.raises(BrokerError, match=f"backup, while writing to {topic}"):
        append_records(
            _cluster(backup), topic, [NewRecord(b"k", b"x" * 1_000), NewRecord(b"l", b"")]
        )
