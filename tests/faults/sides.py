"""A cluster in a storm: one of its brokers at a time is harmed, and whole again in the background."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from kafka_sandbox.broker import Broker
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.network.proxied import ProxiedBroker, ProxiedBrokers
from tests.support.brokers.leaders import TIMEOUT_S, elect_preferred, leaders, reassign


class Side:
    """The source's or the target's cluster.

    Attributes:
        cluster: its brokers.
    """

    def __init__(self, cluster: ProxiedBrokers) -> None:
        self.cluster = cluster
        self._harm: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def is_harmed(self) -> bool:
        """Whether a broker is down, frozen or cut off."""
        return self._harm is not None and self._harm.is_alive()

    def harm(self, do: Callable[[], None]) -> bool:
        """Call ``do``, which returns when all brokers are whole, in the background.

        Does nothing and gives False while an earlier one goes on.
        """
        if self.is_harmed:
            return False
        self.wait_ready()
        self._harm = threading.Thread(target=self._run, args=(do,))
        self._harm.start()
        return True

    def wait_ready(self) -> None:
        """Wait until all brokers are whole.

        Raises:
            SandboxError: if one of them did not come back.
        """
        if self._harm:
            self._harm.join()
        if self._failure:
            raise self._failure

    def choose(self, chance: random.Random) -> int:
        """The node id of any broker."""
        return chance.choice([*self.cluster.brokers])

    def proxies_of(self, chance: random.Random) -> list[ProxiedBroker]:
        """One broker or all of them: those whose clients a network fault hits."""
        brokers = [*self.cluster.brokers.values()]
        return brokers if chance.random() < 0.3 else [chance.choice(brokers)]

    def kill(self, node: int) -> bool:
        """SIGKILL, and a restart."""
        broker = self.cluster.brokers[node]
        return self.harm(lambda: _restart(broker, broker.kill))

    def kill_controller(self) -> bool:
        """The same for the active controller."""
        return self.kill(active_controller(self.cluster))

    def freeze(self, node: int, seconds: float) -> bool:
        """SIGSTOP for a while: connections stay open, and nothing is answered."""

        def freeze() -> None:
            with frozen(self.cluster.brokers[node]):
                time.sleep(seconds)

        return self.harm(freeze)

    def cut_off(self, node: int, seconds: float) -> bool:
        """Let other brokers hear nothing of it for a while, nor it of them; clients reach all."""

        def cut_off() -> None:
            self.cluster.cut_off(node, seconds)
            time.sleep(seconds)

        return self.harm(cut_off)

    def roll(self) -> bool:
        """Stop and start the brokers in order, one after the other."""
        return self.harm(lambda: roll(self.cluster))

    def elect_preferred(self) -> bool:
        """Have each partition led by the first of its replicas; whether a leader has changed."""
        with suppress(KafkaError):
            return elect_preferred(self.cluster) > 0
        return False

    def reassign(self, topic: str, chance: random.Random) -> bool:
        """Give each of a topic's partitions other replicas, or another order of them, and then leaders by it."""
        nodes = [*self.cluster.brokers]
        # With the fewest that take writes, one broker's absence is felt.
        count = chance.choice([len(nodes), len(nodes), len(nodes) - 1])
        wanted = {
            TopicPartition(topic, number): chance.sample(nodes, count)
            for number in sorted(leaders(self.cluster, topic))
        }
        with suppress(KafkaError):
            taken = reassign(self.cluster, wanted)
            elect_preferred(self.cluster)
            return taken
        return False

    def _run(self, do: Callable[[], None]) -> None:
        try:
            do()
        except BaseException as error:
            self._failure = error


def active_controller(cluster: Brokers) -> int:
    """The node id of the active controller, as the newest of the brokers' votes have it."""
    states = []
    for broker in cluster.brokers.values():
        with suppress(OSError, ValueError):
            file = broker.directory / "data" / "__cluster_metadata-0" / "quorum-state"
            state = json.loads(file.read_text())
            states.append((state["leaderEpoch"], state["leaderId"]))
    leader: int = max(states, default=(0, -1))[1]
    # While they vote there is none.
    return leader if leader in cluster.brokers else next(iter(cluster.brokers))


@contextmanager
def frozen(broker: Broker) -> Iterator[None]:
    """Let a broker do nothing, with its connections open."""
    process = psutil.Process(broker.pid)
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def roll(cluster: Brokers) -> None:
    """Stop and start each broker in order; the next one when the one before is in sync again."""
    for broker in cluster.brokers.values():
        _restart(broker, broker.stop)
        wait_in_sync(cluster)


def wait_in_sync(cluster: Brokers, timeout: float = 60.0) -> None:
    """Wait until each replica of each partition is in sync, as who rolls a cluster does.

    Raises:
        TimeoutError: one still is not.
    """
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            topics = client.list_topics(timeout=TIMEOUT_S).topics.values()
            found = [p for topic in topics for p in topic.partitions.values()]
            if all({*p.isrs} == {*p.replicas} for p in found):
                return
        time.sleep(0.2)
    raise TimeoutError(f"A replica is out of sync after {timeout:g} s.")


def _restart(broker: Broker, end: Callable[[], None]) -> None:
    end()
    broker.start().wait_ready(120)
