"""Connections that one part of a run leaves open for the next, which opens none then.

Over a long link a new connection takes longer than most of what is asked on it: a round trip to connect,
one for the versions, and some for TLS and the login.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from kafka_ferry.config import Cluster, kafka_python_config
from kafka_ferry.config.client.property_names import Role
from kafka_ferry.wire.cluster import WireCluster

# A run reads and writes two clusters, from a few threads.
_MOST_KEPT: Final = 8
# Later, leaders and coordinators may be others, and one that has died costs the time to find that out.
_ROUTES_KNOWN_S: Final = 5.0


class _Pool:
    """Clusters that are not in use, the most recently used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # With the time at which each was put back.
        self._kept: deque[tuple[Hashable, WireCluster, float]] = deque()

    def take(self, key: Hashable) -> WireCluster | None:
        """One with these settings, without those of its connections that can be seen to be dead.

        Who leads and coordinates is forgotten unless it was in use a moment ago.
        """
        with self._lock:
            entry = next((kept for kept in reversed(self._kept) if kept[0] == key), None)
            if entry is None:
                return None
            self._kept.remove(entry)
        _, cluster, kept_at = entry
        cluster.drop_dead()
        if time.monotonic() - kept_at > _ROUTES_KNOWN_S:
            cluster.forget_routes()
        return cluster

    def keep(self, key: Hashable, cluster: WireCluster) -> None:
        """Put one back, without connections on which answers are still to come.

        The one that was not used for longest makes room for it.
        """
        cluster.drop_busy()
        with self._lock:
            self._kept.append((key, cluster, time.monotonic()))
            left_out = self._kept.popleft() if len(self._kept) > _MOST_KEPT else None
        if left_out:
            left_out[1].close()

    def forget(self) -> None:
        """Keep nothing, and close nothing: after a fork all of it is the parent's."""
        self._lock, self._kept = threading.Lock(), deque()


_POOL: Final = _Pool()
os.register_at_fork(after_in_child=_POOL.forget)


@contextmanager
def borrow(alias: str, settings: Mapping[str, Any]) -> Iterator[WireCluster]:
    """Connections to a cluster, those of an earlier borrower where there are some.

    After an error they are closed: answers may still be on their way.

    Args:
        alias: the cluster's name in messages.
        settings: kafka-python's configuration names.
    """
    key = alias, frozenset((name, _hashable(value)) for name, value in settings.items())
    cluster = _POOL.take(key) or WireCluster(alias, settings)
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    _POOL.keep(key, cluster)


def _hashable(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value


def connect(cluster: Cluster, role: Role = "consumer") -> AbstractContextManager[WireCluster]:
    """Connections to a cluster of a flow, as they are configured for a kind of client.

    Raises:
        ConfigError: they cannot be configured.
    """
    return borrow(cluster.alias, kafka_python_config(cluster.client_properties(role)))
