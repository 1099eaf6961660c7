"""A real MirrorMaker 2 as a child process: started, stopped cleanly, killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_sandbox.errors import SandboxError
from kafka_sandbox.java import jvm
from kafka_sandbox.java.jars import KAFKA_VERSION, SLF4J_VERSION, Jars, class_path
from kafka_sandbox.processes import OrphanGuard, end, last_lines

MIRROR = Jars(
    "kafka-mirror",
    (
        ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
        ("org.slf4j", "slf4j-simple", SLF4J_VERSION),
    ),
)
"""MirrorMaker 2 with its client library, Kafka Connect and Kafka's clients."""

_ONE_BROKER = {
    f"{topic}.replication.factor": "1"
    for topic in (
        "offset-syncs.topic",
        "checkpoints.topic",
        "heartbeats.topic",
        "offset.storage",
        "status.storage",
        "config.storage",
    )
} | {"replication.factor": "1"}
# It looks for new topics and groups every ten minutes by default.
_QUICK = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "consumer.poll.timeout.ms": "200",
    # Connect's own topics, read to their end at each start.
    "offset.storage.partitions": "5",
    "status.storage.partitions": "1",
}


def mirror_classpath() -> list[Path]:
    """MirrorMaker 2's jars, fetched the first time, for Java programs that use its classes.

    Raises:
        SandboxError: as ``jars.class_path`` does.
    """
    class_path(MIRROR)
    return sorted(MIRROR.lib.glob("*.jar"))


def one_way(
    source: str, source_bootstrap: str, target: str, target_bootstrap: str, topics: Iterable[str]
) -> dict[str, str]:
    """Properties of a MirrorMaker 2 that copies topics one way, between clusters of one broker each.

    Args:
        source: alias of the source.
        source_bootstrap: its address.
        target: alias of the target.
        target_bootstrap: its address.
        topics: their names, or Java expressions.
    """
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": source_bootstrap,
        f"{target}.bootstrap.servers": target_bootstrap,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": ", ".join(topics),
        # Or it would start all of its connectors for the other direction too.
        "emit.heartbeats.enabled": "false",
        f"{source}->{target}.emit.heartbeats.enabled": "true",
    }


class MirrorMaker2:
    """MirrorMaker 2 in its dedicated mode, with its files in one folder.

    The folder gets ``mm2.properties`` (rewritten at each start) and ``mirrormaker2.log``. The
    process ends with this one, however this one ends. It may be started again after its end.

    Attributes:
        folder: where its files are; made if absent.
        properties: the content of ``mm2.properties``; they override the sandbox's own, which are one
            replica of each internal topic, and short intervals.
    """

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        self.folder = folder.resolve()
        # A worker's own settings count only with its cluster's alias; it flushes once a minute else.
        flushes = {
            f"{alias.strip()}.offset.flush.interval.ms": "1000"
            for alias in properties["clusters"].split(",")
        }
        self.properties = {**_ONE_BROKER, **_QUICK, **flushes, **properties}
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None

    def __enter__(self) -> MirrorMaker2:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def log_file(self) -> Path:
        """What it wrote to its log, in all its runs."""
        return self.folder / "mirrormaker2.log"

    def start(self) -> MirrorMaker2:
        """Starts the process and does not wait: it begins to copy after about ten seconds.

        Raises:
            SandboxError: it runs already, or its jars cannot be fetched.
        """
        if self._child:
            raise SandboxError(f"MirrorMaker 2 already runs in {self.folder}.")
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "mm2.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        command = jvm.command("org.apache.kafka.connect.mirror.MirrorMaker", str(file), jars=MIRROR)
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._guard = OrphanGuard(self._child.pid)
        return self

    def wait_until_copied(
        self, bootstrap: str, counts: Mapping[str, int], *, timeout: float = 90
    ) -> None:
        """Waits until topics of the target have at least so many offsets in all of their partitions.

        Args:
            bootstrap: of the target.
            counts: by remote topic.
            timeout: seconds.

        Raises:
            SandboxError: the process ended, or time ran out; with the end of its log.
        """
        deadline = time.monotonic() + timeout
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
        try:
            while any(_offsets(reader, topic) < count for topic, count in counts.items()):
                if self._child is None or self._child.poll() is not None:
                    raise SandboxError(f"MirrorMaker 2 has ended.\n{last_lines(self.log_file)}")
                if time.monotonic() > deadline:
                    raise SandboxError(
                        f"MirrorMaker 2 has not copied {dict(counts)} in {timeout:g} s.\n"
                        f"{last_lines(self.log_file)}"
                    )
                time.sleep(0.1)
        finally:
            reader.close()

    def stop(self, timeout: float = 60) -> None:
        """Ends it cleanly, its positions flushed; kills it after ``timeout`` seconds."""
        if self._child and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """Ends it at once (SIGKILL) and returns when it is gone: its positions lag its data."""
        end(self._child, self._guard)
        self._child = self._guard = None

    def pause(self) -> None:
        """Pauses the process (SIGSTOP) until ``resume``."""
        self._process().suspend()

    def resume(self) -> None:
        """Resumes a paused process."""
        self._process().resume()

    def _process(self) -> psutil.Process:
        if self._child is None:
            raise SandboxError(f"No MirrorMaker 2 runs in {self.folder}.")
        return psutil.Process(self._child.pid)


def _offsets(reader: Consumer, topic: str) -> int:
    """The ends of a topic's partitions, added up; 0 while it does not exist."""
    try:
        found = reader.list_topics(topic, timeout=5).topics.get(topic)
        if found is None or found.error:
            return 0
        partitions = [TopicPartition(topic, number) for number in found.partitions]
        return sum(reader.get_watermark_offsets(p, timeout=5)[1] for p in partitions)
    except KafkaException:
        return 0
