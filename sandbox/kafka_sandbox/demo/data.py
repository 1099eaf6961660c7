"""Fills a cluster with data that looks real: orders, customers and payments.

| topic | partitions | what it has |
| --- | --- | --- |
| orders | 6 | headers, null header values and repeated names too; all five compressions |
| customers | 3 | compacted; updates and tombstones |
| payments | 4 | transactions, about one in eight aborted |

Keys, values and headers depend on seed and round alone. Timestamps are set by the producer and
spread over the six hours before the call.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONAL_ID = "demo-payments"

_SPAN_MS = 6 * 3600 * 1000
_TRANSACTIONS = 40
_ABORT_EVERY = 8

# The names are made up, and the prices are in cents.
_FIRST_NAMES = ["Ada", "Ben", "Chloe", "Daan", "Elif", "Greta", "Hugo", "Ines", "Kaja", "Luca"]
_LAST_NAMES = ["Almeida", "Bauer", "Costa", "Dubois", "Eriksen", "Horvat", "Jansen", "Kowalski"]
_CITIES = [
    ("Antwerp", "BE"),
    ("Bilbao", "ES"),
    ("Graz", "AT"),
    ("Hamburg", "DE"),
    ("Lyon", "FR"),
    ("Porto", "PT"),
    ("Turin", "IT"),
    ("Utrecht", "NL"),
]
_PRODUCTS = [
    ("BK-1001", "Steel water bottle, 750 ml", 2490),
    ("BK-1002", "Trail running socks, 2 pairs", 1850),
    ("BK-1003", "Rechargeable headlamp", 4995),
    ("BK-1004", "Packable rain jacket", 8900),
    ("BK-1005", "Merino base layer", 6450),
    ("BK-1006", "Folding trekking poles", 7999),
    ("BK-1007", "Dry bag, 20 l", 2195),
    ("BK-1008", "Camping stove", 5490),
]

_Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class TopicSummary:
    """What one topic was given.

    Attributes:
        committed: records that every reader sees.
        aborted: records of aborted transactions.
        bytes: keys and values of the committed records, before compression.
    """

    committed: int
    aborted: int
    bytes: int


@dataclass(frozen=True)
class Summary:
    """What a call of ``fill`` wrote, by topic."""

    topics: Mapping[str, TopicSummary]


@dataclass(frozen=True)
class _Record:
    key: str
    value: bytes | None
    headers: _Headers | None = None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"")


def fill(bootstrap: str, *, records: int = 200_000, round_: int = 0, seed: int = 1) -> Summary:
    """Creates the three topics if they are absent and appends one round of records to them.

    Args:
        bootstrap: a plaintext listener, ``host:port``.
        records: in all, those of aborted transactions too.
        round_: another round has other orders and payments, of the same customers.
        seed: of everything that looks like chance.

    Raises:
        KafkaException: a topic cannot be created or a record cannot be delivered.
    """
    _create_topics(bootstrap)
    chance = random.Random(f"{seed}/{round_}")
    orders, profiles = records * 6 // 10, records // 10
    payments = records - orders - profiles
    customers = [f"C{number:05d}" for number in range(max(1, profiles // 10))]
    return Summary(
        {
            "orders": _write_orders(bootstrap, _orders(chance, customers, round_, orders), orders),
            "customers": _write_customers(bootstrap, _profiles(chance, customers), profiles),
            "payments": _write_payments(bootstrap, _payments(chance, customers, round_), payments),
        }
    )


def _create_topics(bootstrap: str) -> None:
    topics = [
        NewTopic("orders", 6),
        NewTopic("customers", 3, config={"cleanup.policy": "compact"}),
        NewTopic("payments", 4),
    ]
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    there = client.list_topics(timeout=10).topics
    missing = [topic for topic in topics if topic.topic not in there]
    for created in client.create_topics(missing).values() if missing else ():
        created.result()


def _orders(
    chance: random.Random, customers: list[str], round_: int, count: int
) -> Iterator[_Record]:
    baskets = [_basket(chance) for _ in range(500)]
    headers = [_order_headers(chance) for _ in range(50)]
    for number in range(count):
        customer = chance.choice(customers)
        value = f'{{"order_id":"O{round_}-{number:08d}","customer_id":"{customer}",'
        yield _Record(customer, value.encode() + chance.choice(baskets), chance.choice(headers))


def _basket(chance: random.Random) -> bytes:
    """The end of an order's JSON, from its items on."""
    lines = [
        (chance.randint(1, 3), *product)
        for product in chance.sample(_PRODUCTS, chance.randint(1, 4))
    ]
    city, country = chance.choice(_CITIES)
    order = {
        "items": [
            {"sku": sku, "name": name, "quantity": quantity, "unit_price_cents": price}
            for quantity, sku, name, price in lines
        ],
        "total_cents": sum(quantity * price for quantity, _, _, price in lines),
        "currency": "EUR",
        "ship_to": {"city": city, "country": country},
        "channel": chance.choice(["web", "app", "store"]),
    }
    return json.dumps(order, separators=(",", ":")).encode()[1:]


def _order_headers(chance: random.Random) -> _Headers:
    headers: _Headers = [
        ("content-type", b"application/json"),
        ("trace-id", b"%016x" % chance.getrandbits(64)),
        ("coupon", chance.choice([None, b"SPRING10"])),
    ]
    tags = chance.sample([b"gift", b"express", b"fragile"], chance.randint(0, 3))
    return headers + [("tag", tag) for tag in tags]


def _profiles(chance: random.Random, customers: list[str]) -> Iterator[_Record]:
    """Profiles without end: each customer once, then changes, one in 25 of them a tombstone."""
    for customer in customers:
        yield _Record(customer, _profile(chance))
    while True:
        value = _profile(chance) if chance.random() > 1 / 25 else None
        yield _Record(chance.choice(customers), value)


def _profile(chance: random.Random) -> bytes:
    city, country = chance.choice(_CITIES)
    profile = {
        "name": f"{chance.choice(_FIRST_NAMES)} {chance.choice(_LAST_NAMES)}",
        "city": city,
        "country": country,
        "newsletter": chance.random() < 0.4,
        "loyalty_points": chance.randint(0, 5_000),
    }
    return json.dumps(profile, separators=(",", ":")).encode()


def _payments(chance: random.Random, customers: list[str], round_: int) -> Iterator[_Record]:
    number = 0
    while True:
        value = (
            f'{{"payment_id":"P{round_}-{number:08d}","customer_id":"{chance.choice(customers)}",'
            f'"amount_cents":{chance.randint(500, 60_000)},"currency":"EUR",'
            f'"method":"{chance.choice(("card", "transfer", "wallet"))}"}}'
        )
        yield _Record(f"P{round_}-{number:08d}", value.encode())
        number += 1


def _write_orders(bootstrap: str, records: Iterator[_Record], count: int) -> TopicSummary:
    # All at once: each waits a moment for its producer id.
    producers = [_producer(bootstrap, {"compression.type": name}) for name in COMPRESSIONS]
    times = _times(count)
    size = 0
    for number, producer in enumerate(producers):
        part = islice(records, _part(count, number, len(COMPRESSIONS)))
        size += _write(producer, "orders", part, times)
    return TopicSummary(count, 0, size)


def _write_customers(bootstrap: str, records: Iterator[_Record], count: int) -> TopicSummary:
    producer = _producer(bootstrap, {"compression.type": "lz4"})
    size = _write(producer, "customers", islice(records, count), _times(count))
    return TopicSummary(count, 0, size)


def _write_payments(bootstrap: str, records: Iterator[_Record], count: int) -> TopicSummary:
    config = {"compression.type": "lz4", "transactional.id": TRANSACTIONAL_ID}
    producer = _producer(bootstrap, config)
    producer.init_transactions()
    times = _times(count)
    aborted = size = 0
    for number in range(min(count, _TRANSACTIONS)):
        many = _part(count, number, min(count, _TRANSACTIONS))
        producer.begin_transaction()
        written = _write(producer, "payments", islice(records, many), times)
        if number % _ABORT_EVERY == _ABORT_EVERY - 1:
            producer.abort_transaction()
            aborted += many
        else:
            producer.commit_transaction()
            size += written
    # A commit returns before its markers are written; the next login waits for them.
    _producer(bootstrap, config).init_transactions()
    return TopicSummary(count - aborted, aborted, size)


def _part(count: int, number: int, parts: int) -> int:
    """The size of part ``number`` where ``count`` things are cut into ``parts`` of about a size."""
    return count * (number + 1) // parts - count * number // parts


def _times(count: int) -> Iterator[int]:
    start = time.time_ns() // 1_000_000 - _SPAN_MS
    return (start + _SPAN_MS * number // count for number in range(count))


def _producer(bootstrap: str, config: Mapping[str, str]) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "delivery.report.only.error": True,
            "on_delivery": _raise,
            # A new cluster's coordinators are busy for a moment; that is retried, and no news.
            "log_level": 3,
            **config,
        }
    )


def _raise(error: KafkaError | None, _: Message) -> None:
    if error:
        raise KafkaException(error)


def _write(producer: Producer, topic: str, records: Iterable[_Record], times: Iterator[int]) -> int:
    """Writes the records and waits until all are delivered; gives their size in bytes."""
    size = 0
    for record, timestamp in zip(records, times, strict=False):
        try:
            _produce(producer, topic, record, timestamp)
        except BufferError:
            producer.flush()
            _produce(producer, topic, record, timestamp)
        size += record.size
    producer.flush()
    return size


def _produce(producer: Producer, topic: str, record: _Record, timestamp: int) -> None:
    producer.produce(topic, record.value, record.key, timestamp=timestamp, headers=record.headers)


def main(
    bootstrap: Annotated[str, typer.Option(help="A plaintext listener, host:port.")],
    records: Annotated[int, typer.Option(help="In all, aborted ones too.")] = 200_000,
    round_: Annotated[int, typer.Option("--round", help="Another round, other records.")] = 0,
    seed: Annotated[int, typer.Option(help="Of everything that looks like chance.")] = 1,
) -> None:
    """Appends orders, customers and payments that look real to a cluster."""
    try:
        summary = fill(bootstrap, records=records, round_=round_, seed=seed)
    except KafkaException as error:
        typer.echo(f"{bootstrap}: {error.args[0].str()}", err=True)
        raise typer.Exit(1) from None
    for topic, wrote in summary.topics.items():
        typer.echo(
            f"{topic:10} {wrote.committed:>9,} records, {wrote.bytes / 1e6:.1f} MB"
            + (f", and {wrote.aborted:,} aborted" if wrote.aborted else "")
        )


if __name__ == "__main__":
    typer.run(main)
