"""Writers that fill the source all the time, in every way that producers have."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.faults.topics import StormTopic
from tests.support.records.builders import Record

_TIMEOUT_S = 5.0
_CLOSE_S = 120.0
# A compacted topic takes no record without a key.
_KEYS = (b"", *(b"%d" % number for number in range(30)))
_FEW = (1, 2, 5)
# Each takes time where offsets are preserved.
_MOST_ABORTED = 20


@dataclass(frozen=True)
class Style:
    """A way to write: codec, idempotence, transactions.

    Attributes:
        aborts: the share of transactions that are aborted.
        in_a_row: how many portions are written without a pause.
    """

    name: str
    codec: str
    idempotent: bool = False
    transactional: bool = False
    aborts: float = 0.0
    in_a_row: int = 1


STYLES = (
    Style("plain", "none"),
    Style("plain-lz4", "lz4"),
    Style("idempotent-zstd", "zstd", idempotent=True),
    Style("transactional-snappy", "snappy", transactional=True, aborts=0.3),
    Style("transactional-gzip", "gzip", transactional=True, aborts=0.3),
    Style("transactional-small", "none", transactional=True, aborts=0.3, in_a_row=5),
)


class Generator:
    """Writes odd records to topics until it is stopped, a thread for each style.

    What it writes is whatever is on the source in the end: after an error it goes on, and records
    may then be there twice or not at all.

    Args:
        bootstrap: the source, not through the proxy.
        topics: the topics.
        seed: all choices come from it.
        most: no more records than this are written.
        pause: the longest pause of a thread between two portions, in seconds.
    """

    def __init__(
        self, bootstrap: str, topics: Sequence[StormTopic], seed: int, *, most: int, pause: float
    ) -> None:
        self._topics = topics
        self._pause = pause
        self._most = most // len(STYLES)
        self._stopped = threading.Event()
        self._pens = [_Pen(bootstrap, f"{style.name}-{seed}", style) for style in STYLES]
        self._threads = [
            threading.Thread(
                target=self._write, args=(pen, random.Random(f"{seed} {pen.style.name}"))
            )
            for pen in self._pens
        ]

    def __enter__(self) -> Generator:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, with no transaction left open; the source must be up."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def written(self) -> int:
        """Records handed to the producers so far."""
        return sum(pen.written for pen in self._pens)

    def _write(self, pen: _Pen, chance: random.Random) -> None:
        while not self._stopped.wait(chance.uniform(0, self._pause)):
            for _ in range(pen.style.in_a_row):
                if pen.written < self._most:
                    abort = chance.random() < pen.style.aborts
                    pen.write(self._portion(chance, pen.style, abort), abort=abort)
        pen.close(self._portion(chance, pen.style))

    def _portion(
        self, chance: random.Random, style: Style, abort: bool = False
    ) -> list[tuple[str, Record]]:
        """Records for one to three partitions."""
        topics = [t for t in self._topics if style.transactional or not t.transactional]
        portion = []
        for _ in range(chance.randint(1, 3)):
            topic = chance.choice(topics)
            partition = chance.randrange(topic.partitions)
            count = chance.choice(_FEW if style.in_a_row > 1 else topic.counts)
            count = min(count, _MOST_ABORTED) if abort else count
            records: Iterable[Record] = _records(chance, partition, count)
            if topic.compacted:
                records = (replace(record, key=chance.choice(_KEYS)) for record in records)
            portion += [(topic.name, record) for record in records]
        return portion


class _Pen:
    """A producer of one style that is recreated when it fails."""

    def __init__(self, bootstrap: str, name: str, style: Style) -> None:
        self.style = style
        self.written = 0
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "compression.type": style.codec,
            "enable.idempotence": style.idempotent or style.transactional,
            "message.timeout.ms": 20_000,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 5,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        if style.transactional:
            self._config |= {"transactional.id": name, "transaction.timeout.ms": 20_000}
        self._producer: Producer | None = None

    def write(self, portion: list[tuple[str, Record]], *, abort: bool = False) -> bool:
        """Write a portion, in a transaction where the style has them; whether it went well."""
        try:
            producer = self._opened()
            if self.style.transactional:
                producer.begin_transaction()
            for topic, record in portion:
                _produce(producer, topic, record)
            self.written += len(portion)
            # In a transaction the records are there before its end is decided, as in long ones.
            unsent = producer.flush(_TIMEOUT_S)
            if self.style.transactional:
                end = producer.abort_transaction if abort else producer.commit_transaction
                end(_TIMEOUT_S)
        except (KafkaException, BufferError):
            # The next producer with the same transactional id aborts what is open.
            self._producer = None
            return False
        return unsent == 0

    def close(self, portion: list[tuple[str, Record]]) -> None:
        """Write a last portion, so that no transaction of an earlier producer stays open."""
        deadline = time.monotonic() + _CLOSE_S
        while not self.write(portion):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.style.name}: the source took nothing any more.")

    def _opened(self) -> Producer:
        if self._producer is None:
            producer = Producer(self._config)
            if self.style.transactional:
                producer.list_topics(timeout=_TIMEOUT_S)
                producer.init_transactions(_TIMEOUT_S)
            self._producer = producer
        return self._producer


def _produce(producer: Producer, topic: str, record: Record) -> None:
    timestamp = {} if record.timestamp is None else {"timestamp": record.timestamp}
    producer.produce(
        topic,
        record.value,
        record.key,
        partition=record.partition,
        headers=list(record.headers),
        **timestamp,
    )
    producer.poll(0)


def _records(chance: random.Random, partition: int, count: int) -> Iterator[Record]:
    for number in range(count):
        odd = _ODD[chance.randrange(len(_ODD))] if chance.random() < 0.2 else _plain
        record = odd(chance, b"%d-%d" % (number, chance.getrandbits(40)))
        yield Record(**record, partition=partition)


def _plain(chance: random.Random, mark: bytes) -> dict[str, Any]:
    return {"key": mark, "value": mark * chance.randint(1, 10)}


_ODD: list[Callable[[random.Random, bytes], dict[str, Any]]] = [
    lambda _, mark: {"key": mark, "value": None},
    lambda _, mark: {"key": None, "value": mark},
    lambda *_: {"key": None, "value": None},
    lambda *_: {"key": b"", "value": b""},
    lambda _, mark: {"value": mark, "headers": (("same", mark), ("same", None), ("", b""))},
    lambda _, mark: {"key": mark, "value": mark, "timestamp": 1},
    lambda chance, mark: {
        "value": mark + chance.randbytes(chance.choice([100, 100, 100, 60_000, 400_000]))
    },
]
