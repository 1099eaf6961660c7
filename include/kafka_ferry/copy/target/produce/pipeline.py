"""Produce requests in flight to the target's brokers.

A request holds at most one batch per partition, and a broker answers the requests of a connection in
order, so that order within a partition is kept.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_ferry.batches import Batch, next_sequence
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.cluster import foreign_answer
from kafka_ferry.wire.produce import partition_answers, produce_request

_REQUEST_BYTES: Final = 4 * 1024 * 1024
# A broker handles one request of a connection at a time. It remembers five batches of a producer, to recognize
# repeated ones; here none is repeated: what is refused or lost is written again, in a new epoch.
_IN_FLIGHT_BYTES: Final = 5 * _REQUEST_BYTES
FAR_S: Final = 0.02
"""The least round trip of a distant broker, in seconds: its answers come later, however quick it is."""
_FAR_IN_FLIGHT_BYTES: Final = 2 * _IN_FLIGHT_BYTES
# So many bytes a second must get through however far away the broker is.
_RATE: Final = 400_000_000
# To all brokers together: a task's memory must not grow with the cluster, and this keeps each of many busy.
_ALL_IN_FLIGHT_BYTES: Final = 2 * _FAR_IN_FLIGHT_BYTES


def in_flight_bytes(round_trip_s: float) -> int:
    """How many bytes may be in flight to a broker at this distance, in seconds there and back.

    At least twice as many to a distant one, since its answers come late; then as many as a round trip holds,
    up to as many as there may be to all brokers together.
    """
    if not FAR_S <= round_trip_s < math.inf:
        return _IN_FLIGHT_BYTES
    return min(max(_FAR_IN_FLIGHT_BYTES, int(_RATE * round_trip_s)), _ALL_IN_FLIGHT_BYTES)


_Batches = dict[TopicPartition, tuple[PartitionQueue, Outgoing]]


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request in flight."""

    batches: _Batches
    size: int
    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer for one batch.

    Attributes:
        code: Kafka's error code, 0 where the batch was stored.
        base_offset: the offset of its first record.
        words: the broker's error message, "" for none.
        records: batch indices of the records that caused the refusal (KIP-467), if the broker names them.
    """

    code: int
    base_offset: int
    words: str
    records: tuple[int, ...]


class Pipeline:
    """Sends what waits in queues, several requests to a broker at once.

    Args:
        cluster: the target; nothing else may use its connections.
        encode: encodes a batch with the queue's producer and sequence.
        judge: called with each answer, in order within a partition.
        transactional_id: of the producer whose transaction the batches belong to, None for none.
        request_bytes: a request takes no further batch once it has so many bytes.
    """

    def __init__(
        self,
        cluster: WireCluster,
        encode: Callable[[PartitionQueue, Batch], bytes],
        judge: Callable[[PartitionQueue, Outgoing, Answer], None],
        *,
        transactional_id: str | None = None,
        request_bytes: int = _REQUEST_BYTES,
    ) -> None:
        self._cluster = cluster
        self._encode = encode
        self._judge = judge
        self._transactional_id = transactional_id
        self._request_bytes = request_bytes
        self._in_flight: dict[int, deque[_Sent]] = defaultdict(deque)
        self._bytes_in_flight: Counter[int] = Counter()
        self._sent = 0

    def send_round(self, queues: Mapping[TopicPartition, PartitionQueue]) -> bool:
        """Send at most one batch of each queue; returns whether there was one.

        Where there was none, no answer has come since that would let a queue send.
        """
        self._receive_arrived()
        requests: dict[int, _Batches] = defaultdict(dict)
        sizes: Counter[int] = Counter()
        for tp, queue in queues.items():
            if sizes[queue.node] < self._request_bytes and (out := queue.next_to_send()):
                requests[queue.node][tp] = queue, out
                sizes[queue.node] += out.size
        for node, batches in requests.items():
            self._send(node, batches, sizes[node])
        return bool(requests)

    @property
    def is_idle(self) -> bool:
        """Whether no answer is pending."""
        return not any(self._in_flight.values())

    def receive_next(self) -> None:
        """Wait for one answer from each broker with pending requests."""
        for node, requests in self._in_flight.items():
            if requests:
                self._receive(node)

    def receive_all(self) -> None:
        """Wait for all pending answers."""
        for node, requests in self._in_flight.items():
            while requests:
                self._receive(node)

    def forget(self) -> None:
        """Drop pending answers, with the connections on which they would come."""
        self._in_flight.clear()
        self._bytes_in_flight.clear()
        self._cluster.drop_busy()

    def _send(self, node: int, batches: _Batches, size: int) -> None:
        encoded = {}
        for tp, (queue, out) in batches.items():
            batch = out.converted.batch
            assert batch is not None
            encoded[tp] = self._encode(queue, batch)
            queue.sequence = next_sequence(queue.sequence, batch.header.records)
        request = produce_request(encoded, self._transactional_id)
        connection = self._cluster.connection(node)
        connection.send(request)
        self._sent += 1
        self._in_flight[node].append(_Sent(batches, size, self._sent))
        self._bytes_in_flight[node] += size
        while self._bytes_in_flight[node] > in_flight_bytes(connection.round_trip_s):
            self._receive(node)
        while self._bytes_in_flight.total() > _ALL_IN_FLIGHT_BYTES:
            self._receive(self._longest_asked())

    def _longest_asked(self) -> int:
        """The broker that was sent the oldest of the pending requests."""
        oldest = {
            node: requests[0].number for node, requests in self._in_flight.items() if requests
        }
        return min(oldest, key=oldest.__getitem__)

    def _receive_arrived(self) -> None:
        """Take the answers that are there already: what they are for needs no more memory."""
        for node, requests in self._in_flight.items():
            while requests and self._cluster.connection(node).has_answer:
                self._receive(node)

    def _receive(self, node: int) -> None:
        response = self._cluster.connection(node).receive()
        sent = self._in_flight[node].popleft()
        self._bytes_in_flight[node] -= sent.size
        request = sent.batches
        for tp, entry in partition_answers(response):
            if tp not in request:
                raise foreign_answer(self._cluster.alias, tp)
            queue, out = request.pop(tp)
            answer = Answer(
                entry.error_code,
                entry.base_offset,
                entry.error_message or "",
                tuple(record.batch_index for record in entry.record_errors or ()),
            )
            self._judge(queue, out, answer)
        self._cluster.require_answers(request, ())
