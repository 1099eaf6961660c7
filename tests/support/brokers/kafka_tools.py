"""Kafka's own tools, run as an operator would, and what they say as objects."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.java import jvm

EARLIEST, LATEST = -2, -1

_BATCH = re.compile(r"^(?:\|\s*)?baseOffset: ")
_DUMPING = "Dumping "
_FIELD = re.compile(r"(\w+): (\S+)")


@dataclass(frozen=True)
class DumpedBatch:
    """A batch in a partition's log, as kafka-dump-log prints it.

    Attributes:
        base_offset: of its first record, even if that is compacted away.
        last_offset: of its last record, likewise.
        count: how many records it has.
        producer_id: -1 for none.
        epoch: of the producer.
        base_sequence: -1 for none.
        transactional: whether it is part of a transaction.
        control: whether it holds markers, which no consumer shows.
        compression: ``none``, ``gzip``, ...
        valid: whether its checksum is right.
    """

    base_offset: int
    last_offset: int
    count: int
    producer_id: int
    epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    compression: str
    valid: bool


def get_offsets(broker: KafkaCluster, topic: str, time: Literal[-1, -2]) -> dict[int, int]:
    """kafka-get-offsets: where each partition starts (``EARLIEST``) or ends (``LATEST``)."""
    printed = _run(
        "org.apache.kafka.tools.GetOffsetShell",
        *("--bootstrap-server", broker.bootstrap, "--topic", re.escape(topic)),
        *("--time", str(time)),
    )
    # A topic's name may hold no colon.
    fields = [line.split(":") for line in printed.splitlines() if line.startswith(f"{topic}:")]
    return {int(partition): int(offset) for _, partition, offset in fields}


def dump_logs(broker: KafkaCluster, topic: str, partitions: int) -> list[list[DumpedBatch]]:
    """kafka-dump-log: the batches of all of each partition's segments, in the order of their offsets.

    Segments hold what was before the log's start too, until they are deleted.
    """
    folders = [broker.log_folder(topic, number) for number in range(partitions)]
    segments = [segment for folder in folders for segment in sorted(folder.glob("*.log"))]
    files = ",".join(str(segment) for segment in segments)
    printed = _run("org.apache.kafka.tools.DumpLogSegments", "--files", files)
    dumped: dict[Path, list[DumpedBatch]] = {folder: [] for folder in folders}
    for line in printed.splitlines():
        if line.startswith(_DUMPING):
            batches = dumped[Path(line.removeprefix(_DUMPING)).parent]
        elif _BATCH.match(line):
            batches.append(_batch(line))
    return list(dumped.values())


def create_delegation_token(bootstrap: str, login: Path) -> tuple[str, str]:
    """kafka-delegation-tokens: id and HMAC of a new token for the user of a properties file."""
    printed = _delegation_tokens(bootstrap, login, "--create", "--max-life-time-period", "-1")
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    token_id, hmac, *_ = lines[[fields[0] for fields in lines].index("TOKENID") + 1]
    return token_id, hmac


def expire_delegation_token(bootstrap: str, login: Path, hmac: str) -> None:
    """kafka-delegation-tokens: ends a token at once."""
    _delegation_tokens(bootstrap, login, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)


def acls(*arguments: str) -> None:
    """kafka-acls, with these arguments."""
    _run("org.apache.kafka.tools.AclCommand", *arguments)


def _delegation_tokens(bootstrap: str, login: Path, *arguments: str) -> str:
    at = ("--bootstrap-server", bootstrap, "--command-config", str(login))
    return _run("org.apache.kafka.tools.DelegationTokenCommand", *at, *arguments)


def list_topics(bootstrap: str, login: Path, *options: str) -> list[str]:
    """kafka-topics: the names that the client of a properties file sees.

    Args:
        bootstrap: the broker.
        login: the properties file.
        options: of the JVM.
    """
    at = ("--bootstrap-server", bootstrap, "--command-config", str(login), "--list")
    return _run("org.apache.kafka.tools.TopicCommand", *at, options=options).split()


def _batch(line: str) -> DumpedBatch:
    fields = dict(_FIELD.findall(line))
    return DumpedBatch(
        base_offset=int(fields["baseOffset"]),
        last_offset=int(fields["lastOffset"]),
        count=int(fields["count"]),
        producer_id=int(fields["producerId"]),
        epoch=int(fields["producerEpoch"]),
        base_sequence=int(fields["baseSequence"]),
        transactional=fields["isTransactional"] == "true",
        control=fields["isControl"] == "true",
        compression=fields["compresscodec"],
        valid=fields["isvalid"] == "true",
    )


def _run(tool: str, *arguments: str, options: Sequence[str] = ()) -> str:
    command = jvm.command(tool, *arguments, options=options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{tool} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout
