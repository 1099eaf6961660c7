"""One real Kafka broker as a child process: started, stopped, killed and started again."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Self

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import KAFKA_VERSION, Jars, kafka
from kafka_sandbox.processes import OrphanGuard, end, last_lines
from kafka_sandbox.storage import format_storage, new_id

HOST = "127.0.0.1"

QUICK_CLEANER = {"log.cleaner.backoff.ms": "100"}
"""Compacts within a second what a topic's own settings (``segment.ms``,
``min.cleanable.dirty.ratio``) already allow to be compacted."""

# Below the ports that systems give to outgoing connections: a client that tries to reach a stopped
# broker would sooner or later be given the broker's own port, and connect to itself.
_candidates = iter(random.SystemRandom().sample(range(10_000, 19_000), 9_000))


def free_port() -> int:
    """A free port of 127.0.0.1; no other process is given it as long as this one lives."""
    return next(port for port in _candidates if _is_free(port) and _claim(port))


def quiet_client(bootstrap: str) -> AdminClient:
    """A client that says nothing of brokers that do not answer yet, and soon asks them again."""
    quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50}
    return AdminClient({"bootstrap.servers": bootstrap, **quiet})


class Broker(KafkaCluster):
    """A KRaft broker and controller in one process, with everything it owns in one directory.

    The directory holds ``server.properties`` (rewritten at each start), ``data/``,
    ``broker.log`` and, while it runs, ``broker.pid``. A second ``Broker`` on the same directory,
    in any process, is the same broker. Clients that do not log in are super users
    (``User:ANONYMOUS``), and an authorizer is on, so that ACLs can be written and read.

    Attributes:
        directory: where all of it is; made if absent.
        port: of the plaintext listener, free unless given.
        controller_port: of the controller's listener, free unless given.
        config: broker properties, which override the sandbox's own. A further listener is added
            with ``listeners``, which must then name ``PLAINTEXT`` and ``CONTROLLER`` too.
        daemon: whether the broker outlives this process; otherwise it is killed with it, however
            this process ends.
        cluster_id: of the cluster that its storage is made for, a new one unless given.
        version: of Kafka, 3.3 or newer; older ones need ZooKeeper (``zookeeper.ZooKeeperBroker``).
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        controller_port: int | None = None,
        config: Mapping[str, str] | None = None,
        daemon: bool = False,
        cluster_id: str | None = None,
        version: str = KAFKA_VERSION,
    ) -> None:
        self.directory = directory.resolve()
        self.port = port or free_port()
        self.controller_port = controller_port or free_port()
        self.config = dict(config or {})
        self.daemon = daemon
        self.cluster_id = cluster_id or new_id()
        self.version = version
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None

    @property
    def bootstrap(self) -> str:
        """See ``KafkaCluster.bootstrap``."""
        return f"{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """What the broker wrote to its log, in all its runs."""
        return self.directory / "broker.log"

    @property
    def pid(self) -> int | None:
        """The broker's process id; None while it does not run."""
        process = self._process()
        return process.pid if process else None

    def log_folder(self, topic: str, partition: int) -> Path:
        """See ``KafkaCluster.log_folder``."""
        return self._data / f"{topic}-{partition}"

    def start(self) -> Self:
        """See ``KafkaCluster.start``."""
        if self._process():
            return self
        for port in (self.port, self.controller_port):
            if not _is_free(port):
                raise SandboxError(f"Port {port} of {HOST} is in use by another process.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._properties_file.write_text(_as_properties(self._properties()))
        self._prepare()
        self._launch()
        return self

    def wait_ready(self, timeout: float = 60) -> Self:
        """See ``KafkaCluster.wait_ready``."""
        client = quiet_client(self.bootstrap)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self._process():
                raise SandboxError(f"The broker ended at its start.\n{last_lines(self.log_file)}")
            try:
                client.list_topics(timeout=0.5)
            except KafkaException:
                continue
            return self
        raise SandboxError(
            f"The broker gave no answer in {timeout:g} s.\n{last_lines(self.log_file)}"
        )

    def stop(self, timeout: float = 30) -> None:
        """See ``KafkaCluster.stop``."""
        process = self._process()
        if process and _end(process, signal.SIGTERM, timeout):
            jvm.adopt_archive(self._class_archive, self._jars)
        self.kill()

    def kill(self) -> None:
        """See ``KafkaCluster.kill``."""
        if process := self._process():
            _end(process, signal.SIGKILL, timeout=30)
        end(self._child, self._guard)
        self._guard = self._child = None
        self._pid_file.unlink(missing_ok=True)

    def wipe(self) -> None:
        """See ``KafkaCluster.wipe``.

        The broker is killed: nothing is left of what an orderly stop would write. Only as long as there is no
        class archive for later brokers, it is stopped in order, and leaves one.
        """
        if jvm.archive_fits(self._jars):
            self.kill()
        else:
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _jars(self) -> Jars:
        return kafka(self.version)

    @property
    def _jvm_options(self) -> tuple[str, ...]:
        return ()

    @property
    def _class_folders(self) -> tuple[Path, ...]:
        """Folders of classes that the broker's properties name, and that are not Kafka's."""
        return ()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _pid_file(self) -> Path:
        return self.directory / "broker.pid"

    @property
    def _class_archive(self) -> Path:
        return self.directory / "broker.jsa"

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{HOST}:{self.controller_port}",
            # Kafka's own default lacks CONTROLLER as soon as a listener with TLS or SASL is added.
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._data),
            # A killed broker may come back only when its old session is over: 9 s by default.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            # Brokers without work cost no processor time: no record every half a second that says nothing.
            "metadata.max.idle.interval.ms": "0",
            # Of a few topics at a time nothing is won by waiting for more.
            "controller.quorum.append.linger.ms": "0",
            "auto.create.topics.enable": "false",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "group.initial.rebalance.delay.ms": "0",
            # A member that was killed keeps the others of its group waiting for its session: by default 6 s at least.
            "group.min.session.timeout.ms": "1000",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.config,
        }

    def _prepare(self) -> None:
        """What the broker's own process needs to start, in addition to its properties."""
        if not (self._data / "meta.properties").exists():
            node = self._properties()["node.id"]
            format_storage(self._data, self._jars, node, self.cluster_id)

    def _launch(self) -> None:
        # One that a killed broker left may be half written.
        self._class_archive.unlink(missing_ok=True)
        command = jvm.command(
            *("kafka.Kafka", str(self._properties_file)),
            jars=self._jars,
            options=self._jvm_options,
            archive_to=self._class_archive,
            folders=self._class_folders,
        )
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Out of reach of the terminal's Ctrl-C.
                start_new_session=True,
            )
        pid = str(self._child.pid)
        self._pid_file.write_text(pid)
        if not self.daemon:
            self._guard = OrphanGuard(self._child.pid)

    def _process(self) -> psutil.Process | None:
        try:
            if self._child:
                return psutil.Process(self._child.pid) if self._child.poll() is None else None
            process = psutil.Process(int(self._pid_file.read_text()))
            # The process id may have been given to something else since.
            return process if str(self._properties_file) in process.cmdline() else None
        except (FileNotFoundError, ValueError, psutil.Error):
            return None


def _end(process: psutil.Process, number: signal.Signals, timeout: float) -> bool:
    """Sends the signal; tells whether the process is gone within ``timeout`` seconds."""
    try:
        process.send_signal(number)
        process.wait(timeout)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def _as_properties(properties: Mapping[str, str]) -> str:
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    return "".join(f"{key}={value.translate(escapes)}\n" for key, value in properties.items())


def _claim(port: int) -> bool:
    """Whether no other process has the port: a broker of its, stopped for a moment, needs it again.

    The claim is a lock of the byte of that number, which ends with its process.
    """
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _claims() -> IO[bytes]:
    return (Path(tempfile.gettempdir()) / f"kafka-sandbox-ports-{os.getuid()}").open("ab")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Kafka binds: connections of an earlier broker that are still closing do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
