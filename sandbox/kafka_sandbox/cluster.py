"""A real Kafka cluster on this machine, of one broker (``Broker``) or several (``Brokers``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_sandbox.errors import SandboxError


class KafkaCluster(ABC):
    """Started, stopped, killed and started again as a whole."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Hosts and ports of the plaintext listeners, as clients want them."""

    @abstractmethod
    def log_folder(self, topic: str, partition: int) -> Path:
        """Where the segments of a partition's log are, on the broker that leads it now."""

    @abstractmethod
    def start(self) -> Self:
        """Start what does not run, with its storage formatted the first time, and do not wait.

        Raises:
            SandboxError: a port is taken, or the storage cannot be formatted.
        """

    @abstractmethod
    def wait_ready(self, timeout: float = 60) -> Self:
        """Wait until the plaintext listeners answer.

        Args:
            timeout: seconds.

        Raises:
            SandboxError: a process ended, or time ran out; with the end of its log.
        """

    @abstractmethod
    def stop(self, timeout: float = 30) -> None:
        """Shut it down cleanly; kill what is left after ``timeout`` seconds."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, as a power cut would, and return when it is gone."""

    @abstractmethod
    def wipe(self) -> None:
        """End it and delete its files."""

    def __enter__(self) -> Self:
        _start(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def restart(self, timeout: float = 60) -> None:
        """Stop it if it runs, start it on the same ports and data, wait until it is ready.

        Raises:
            SandboxError: as ``start`` and ``wait_ready`` do.
        """
        self.stop()
        self.start().wait_ready(timeout)


def start_all(clusters: Iterable[KafkaCluster]) -> None:
    """Start clusters in parallel and return when all of them answer.

    Raises:
        SandboxError: one of them does not start, tried twice; the others are left running.
    """
    with ThreadPoolExecutor() as pool:
        list(pool.map(_start, clusters))


def _start(cluster: KafkaCluster) -> None:
    try:
        cluster.start().wait_ready()
    except SandboxError:
        # Where the machine stands still for a moment, a broker's parts give each other up.
        cluster.kill()
        cluster.start().wait_ready()
