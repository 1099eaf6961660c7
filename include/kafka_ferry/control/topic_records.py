"""Small topics: reads every record to the end, and writes records outside of transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_ferry.config import Cluster, confluent_config, only_kafka_python_logs_in
from kafka_ferry.control.client_errors import as_ferry_error, as_ours
from kafka_ferry.control.clients import new_client
from kafka_ferry.control.wire_records import NewRecord, WireRecord, append, read_partition
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import at_most

_WRITE_S: Final = 60.0


class TopicRecords:
    """The records of some partitions of a topic, up to their current ends.

    Over the data plane's connections: librdkafka opens a batch whatever its size, and a mebibyte of gzip may be one
    gibibyte.

    Args:
        cluster: the cluster.
        topic: the topic, which exists.
        starts: by partition, the first offset to read; where the log begins after it, its start.
        isolation: whether records of open or aborted transactions are left out.

    Attributes:
        ends: by partition, the offset after the last one; complete when all records were read.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        starts: Mapping[int, int],
        *,
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    ) -> None:
        self.ends: dict[int, int] = {}
        self._cluster, self._topic, self._starts = cluster, topic, starts
        self._committed = isolation == "read_committed"

    @classmethod
    def whole(cls, cluster: Cluster, topic: str, partitions: int) -> TopicRecords:
        """All committed records of a topic."""
        return cls(cluster, topic, dict.fromkeys(range(partitions), 0))

    def __iter__(self) -> Iterator[WireRecord]:
        """The records, in order within a partition.

        Raises:
            FerryError: if they cannot be read for a minute, ``AccessDenied`` without READ on the topic.
        """
        self.ends = {}
        for number, start in self._starts.items():
            partition = TopicPartition(self._topic, number)
            for item in read_partition(self._cluster, partition, start, committed=self._committed):
                if isinstance(item, int):
                    self.ends[number] = item
                else:
                    yield item


def append_records(cluster: Cluster, topic: str, records: Iterable[NewRecord]) -> None:
    """Write records, in order, and wait until all of them are in the log.

    Writing a record again, after an answer that was lost, must change nothing: these topics are
    compacted, and the newest record of a key counts.

    Args:
        cluster: the cluster.
        topic: the topic, which exists.
        records: the records.

    Raises:
        FerryError: the error of the first refused record, ``AccessDenied`` without WRITE on the topic;
            some may have been written.
    """
    properties = cluster.control_properties("producer")
    if only_kafka_python_logs_in(properties):
        append(cluster, topic, list(records))
        return
    doing, needed = f"writing to {topic}", Right.topic("WRITE", topic)
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error:
            failed.append(error)

    timeout_s = at_most(_WRITE_S)
    with as_ours(cluster.alias, doing, needed):
        producer = new_client(Producer, _producer_settings(properties, timeout_s))
        for record in records:
            # The first error counts for all records that follow.
            if failed:
                break
            _queue(producer, topic, record, on_delivery)
        left = producer.flush(timeout_s)
    if left and not failed:
        failed.append(KafkaError(KafkaError._TIMED_OUT))
    if failed:
        raise _first(failed, cluster.alias, doing, needed)


def _producer_settings(properties: Mapping[str, str], timeout_s: float) -> dict[str, object]:
    settings = confluent_config(properties, "producer")
    settings.pop("transactional.id", None)
    return settings | {
        "acks": "all",
        # Brokers before 3.0 require a separate permission for idempotence, which would only prevent
        # duplicates; one request at a time keeps the order.
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": int(timeout_s * 1000),
        "log_level": 0,
    }


def _queue(producer: Producer, topic: str, record: NewRecord, delivered: Any) -> None:
    chosen = {"partition": record.partition, "timestamp": record.at}
    wanted = {name: value for name, value in chosen.items() if value is not None}
    while True:
        try:
            producer.poll(0)
            producer.produce(topic, record.value, record.key, on_delivery=delivered, **wanted)
            return
        except BufferError:
            producer.poll(0.1)


def _first(failed: list[KafkaError], alias: str, doing: str, needed: Right) -> FerryError:
    """The most specific error: records after a refused one only report a timeout."""
    late = (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE)
    telling = next((error for error in failed if error.code() not in late), failed[0])
    return as_ferry_error(KafkaException(telling), alias, doing, needed)
