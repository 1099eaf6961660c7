"""Fetch requests in flight: at most one per broker, so that a silent one blocks only its own partitions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_ferry.wire import PendingFetch, WireCluster, answered
from kafka_ferry.wire.connections.connection import SILENCE_S

_T = TypeVar("_T")


@dataclass(slots=True)
class SentFetch(Generic[_T]):
    """A request in flight.

    Attributes:
        fetch: the request.
        about: what it fetches for.
        since: when it was sent.
        next_look: when to check whether its broker is still alive.
    """

    fetch: PendingFetch
    about: Sequence[_T]
    since: float
    next_look: float


class PendingRequests(Generic[_T]):
    """The requests of one reader.

    Args:
        cluster: the source.
    """

    def __init__(self, cluster: WireCluster) -> None:
        self._cluster = cluster
        self._by_node: dict[int, SentFetch[_T]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def __contains__(self, node: int) -> bool:
        return node in self._by_node

    def add(self, fetch: PendingFetch, about: Sequence[_T]) -> None:
        """Record a request that was sent just now."""
        now = time.monotonic()
        self._by_node[fetch.node] = SentFetch(fetch, about, now, now + SILENCE_S)

    def answered(self, timeout_s: float) -> list[SentFetch[_T]]:
        """Take answered requests, and those whose broker has disconnected; waits at most so long for one."""
        if not self._by_node:
            return []
        ready = answered([asked.fetch for asked in self._by_node.values()], timeout_s)
        return [self._by_node.pop(fetch.node) for fetch in ready]

    def given_up(self) -> list[tuple[SentFetch[_T], str]]:
        """Take overdue requests, and those of silent brokers whose partitions have other leaders by now.

        Returns:
            The requests, each with the reason.
        """
        now = time.monotonic()
        due = [asked.fetch for asked in self._by_node.values() if now >= asked.next_look]
        # Answers may have arrived while the reader waited for the writer.
        came = {fetch.node for fetch in answered(due, 0)} if due else set()
        given_up = []
        for node, asked in list(self._by_node.items()):
            if now >= asked.next_look and node not in came:
                asked.next_look = now + SILENCE_S
                if why := self._why_not_wait(asked, now):
                    del self._by_node[node]
                    asked.fetch.connection.close()
                    given_up.append((asked, why))
        return given_up

    def _why_not_wait(self, asked: SentFetch[_T], now: float) -> str:
        connection, node = asked.fetch.connection, asked.fetch.node
        if now - asked.since > connection.timeout:
            return f"{connection.address} did not answer within {connection.timeout:g} s"
        if self._cluster.has_left(node):
            alias = self._cluster.alias
            return (
                f"broker {node} of {alias} is silent, and the cluster no longer lists it as alive"
            )
        return ""
