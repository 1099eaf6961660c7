"""A broker of a release before KRaft, with its ZooKeeper."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

from kafka_sandbox.broker import HOST, Broker
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import line
from kafka_sandbox.processes import OrphanGuard, end, last_lines


class ZooKeeperBroker(Broker):
    """A broker of a version between 0.11 and 3.9 and a ZooKeeper, in two processes.

    It is as ``Broker`` says, but for these: ``controller_port`` is ZooKeeper's, which starts and ends
    with the broker, and with this process whatever ``daemon`` says; there is no ``CONTROLLER``
    listener; and one that was killed does not come back, as ZooKeeper takes it for alive.
    """

    _zookeeper: subprocess.Popen[bytes] | None = None
    _zookeeper_guard: OrphanGuard | None = None

    def kill(self) -> None:
        """See ``KafkaCluster.kill``; then ends ZooKeeper."""
        super().kill()
        end(self._zookeeper, self._zookeeper_guard)
        self._zookeeper = self._zookeeper_guard = None

    @property
    def _zookeeper_log(self) -> Path:
        return self.directory / "zookeeper.log"

    def _properties(self) -> dict[str, str]:
        package = (
            "security.authorizer.Acl" if line(self.version) >= (2, 4) else "security.auth.SimpleAcl"
        )
        return {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"{HOST}:{self.controller_port}",
            "log.dirs": str(self._data),
            "auto.create.topics.enable": "false",
            "authorizer.class.name": f"kafka.{package}Authorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.config,
        }

    def _prepare(self) -> None:
        settings = {
            "dataDir": str(self.directory / "zookeeper"),
            "clientPort": str(self.controller_port),
            "clientPortAddress": HOST,
            "tickTime": "1000",
            "admin.enableServer": "false",
        }
        file = self.directory / "zookeeper.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = jvm.command(
            *("org.apache.zookeeper.server.ZooKeeperServerMain", str(file)),
            jars=self._jars,
            # Its first versions want to show Log4j's settings in JMX, and there is no Log4j.
            options=["-Dzookeeper.jmx.log4j.disable=true"],
        )
        with self._zookeeper_log.open("ab") as log:
            self._zookeeper = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._zookeeper_guard = OrphanGuard(self._zookeeper.pid)
        self._wait_for_zookeeper()

    def _wait_for_zookeeper(self, timeout: float = 30) -> None:
        # A broker that connects too early may wait in vain for its whole session's time.
        deadline = time.monotonic() + timeout
        while b"Mode:" not in _asked(self.controller_port):
            ended = self._zookeeper is None or self._zookeeper.poll() is not None
            if ended or time.monotonic() > deadline:
                raise SandboxError(f"ZooKeeper does not answer.\n{last_lines(self._zookeeper_log)}")
            time.sleep(0.05)


def _asked(port: int) -> bytes:
    """What ZooKeeper says of itself; nothing while it does not run."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"srvr")
            return b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return b""
