"""Fetch requests in flight, by broker, so that a silent one blocks only its own partitions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import PendingFetch, WireCluster, await_answers
from kafka_ferry.wire.connections.connection import SILENCE_S


@dataclass(slots=True)
class SentFetch:
    """A request in flight.

    Attributes:
        fetch: the request.
        offsets: from which offset on, by partition.
        max_bytes: of each partition.
        guessed: the partitions whose offsets are guesses, made while other requests were in flight.
        since: when it was sent, or when the answer before it came.
        next_look: when to check whether its broker is still alive.
    """

    fetch: PendingFetch
    offsets: Mapping[TopicPartition, int]
    max_bytes: int
    guessed: Set[TopicPartition] = frozenset()
    since: float = 0.0
    next_look: float = 0.0

    def guess(self, partition: TopicPartition) -> int | None:
        """The offset that was guessed for a partition, None where it was known."""
        return self.offsets[partition] if partition in self.guessed else None


class PendingRequests:
    """The requests of one reader.

    Args:
        cluster: the source.
    """

    def __init__(self, cluster: WireCluster) -> None:
        self._cluster = cluster
        self._by_node: dict[int, deque[SentFetch]] = {}

    def __len__(self) -> int:
        """How many brokers have requests in flight."""
        return len(self._by_node)

    def of(self, node: int) -> Sequence[SentFetch]:
        """The requests to a broker, oldest first."""
        return self._by_node.get(node, ())

    def add(self, sent: SentFetch) -> None:
        """Record a request that was sent just now."""
        _wait_from_now(sent)
        self._by_node.setdefault(sent.fetch.node, deque()).append(sent)

    def take_answers(self, timeout_s: float) -> list[SentFetch]:
        """Take answered requests, and those whose broker has disconnected; waits at most so long for one."""
        if not self._by_node:
            return []
        ready = await_answers([sent[0].fetch for sent in self._by_node.values()], timeout_s)
        return [self._take(fetch.node) for fetch in ready]

    def take_overdue(self) -> list[tuple[list[SentFetch], str]]:
        """Take overdue requests, and those of silent brokers whose partitions have other leaders by now.

        Returns:
            All requests to each such broker, oldest first, with the reason.
        """
        now = time.monotonic()
        due = [sent[0].fetch for sent in self._by_node.values() if now >= sent[0].next_look]
        # Answers may have arrived while the reader waited for the writer.
        came = {fetch.node for fetch in await_answers(due, 0)} if due else set()
        given_up = []
        for node, sent in list(self._by_node.items()):
            if now >= sent[0].next_look and node not in came:
                sent[0].next_look = now + SILENCE_S
                if why := self._why_not_wait(sent[0], now):
                    del self._by_node[node]
                    sent[0].fetch.connection.close()
                    given_up.append(([*sent], why))
        return given_up

    def _take(self, node: int) -> SentFetch:
        sent = self._by_node[node]
        taken = sent.popleft()
        if sent:
            _wait_from_now(sent[0])
        else:
            del self._by_node[node]
        return taken

    def _why_not_wait(self, sent: SentFetch, now: float) -> str:
        connection, node = sent.fetch.connection, sent.fetch.node
        if now - sent.since > connection.timeout:
            return f"{connection.address} did not answer within {connection.timeout:g} s"
        if self._cluster.has_left(node):
            alias = self._cluster.alias
            return (
                f"broker {node} of {alias} is silent, and the cluster no longer lists it as alive"
            )
        return ""


def _wait_from_now(sent: SentFetch) -> None:
    now = time.monotonic()
    sent.since, sent.next_look = now, now + SILENCE_S
