"""A consumer application: a process that writes each record's value to a file and commits every few records.

It may be killed at any time: what it processed is in the file, what it had committed is in its group.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer

from tests.support.waiting import wait_until

COMMITS_EVERY = 7


@contextmanager
def running_application(
    bootstrap: str, group: str, topics: Iterable[str], processed: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The application as a process of its own; killed in the end, in the middle of its work."""
    processed.touch()
    command = [sys.executable, "-m", __name__, bootstrap, group, ",".join(topics), str(processed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def process_until(
    bootstrap: str, group: str, topics: Iterable[str], processed: Path, *, values: int | set[str]
) -> list[str]:
    """Let the application run until it has processed these values, or so many, each counted once.

    Returns:
        What it processed this time.
    """
    before = len(lines(processed)) if processed.exists() else 0
    with running_application(bootstrap, group, topics, processed):
        wait_until(lambda: _is_enough(set(lines(processed)), values), seconds=60)
    return lines(processed)[before:]


def _is_enough(seen: set[str], values: int | set[str]) -> bool:
    return len(seen) >= values if isinstance(values, int) else values <= seen


def lines(processed: Path) -> list[str]:
    """All that was processed, in order, and again where it was."""
    return processed.read_text().split()


def _run(bootstrap: str, group: str, topics: str, processed: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            # A group that loses its offsets reads all of it again, which tests would see.
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # Who was killed keeps the others waiting.
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
        }
    )
    consumer.subscribe(topics.split(","))
    count = 0
    with Path(processed).open("a") as file:
        while True:
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            file.write(message.value().decode() + "\n")
            file.flush()
            count += 1
            if count % COMMITS_EVERY == 0:
                consumer.commit(asynchronous=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "topics", "processed"):
        parser.add_argument(name)
    _run(**vars(parser.parse_args()))
