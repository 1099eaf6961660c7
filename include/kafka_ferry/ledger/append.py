"""Ledger records that a run itself writes, beside those of its writers' transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_ferry.batches import for_producer, single_record
from kafka_ferry.ledger.record import RunEntry, VerificationEntry, encode, ledger_topic
from kafka_ferry.patience import patiently
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.faults import fault
from kafka_ferry.wire.transactions import TransactionalProducer

_TIMEOUT_MS: Final = 60_000


def append_entry(
    alias: str,
    settings: Mapping[str, object],
    source_alias: str,
    entry: RunEntry | VerificationEntry,
) -> None:
    """Append ``entry`` to the ledger, in a transaction of the flow's own; whoever did so before is fenced.

    Args:
        alias: the target's alias.
        settings: kafka-python's configuration for the target.
        source_alias: the source's alias, which names the ledger.
        entry: what to append.

    Raises:
        FerryError: if the target does not take it within a minute.
    """
    ledger = TopicPartition(ledger_topic(source_alias), 0)
    batch = single_record(*encode(entry), entry.at)

    def append() -> None:
        with WireCluster(alias, settings) as cluster:
            producer = TransactionalProducer(
                cluster, f"ferry.{entry.flow}.run", timeout_ms=_TIMEOUT_MS
            )
            producer.start()
            leader = cluster.leaders([ledger])[ledger]
            if leader.node < 0:
                raise fault(leader.error, f"Looking for the ledger {ledger.topic} on {alias}")
            for code in producer.add_partitions([ledger]).values():
                raise fault(code, f"Writing to the ledger {ledger.topic} on {alias}")
            encoded = for_producer(
                batch, producer_id=producer.producer_id, epoch=producer.epoch, sequence=0
            )
            answer = cluster.connection(leader.node).call(
                producer.produce_request({ledger: encoded})
            )
            code = answer.responses[0].partition_responses[0].error_code
            if code:
                raise fault(code, f"Writing to the ledger {ledger.topic} on {alias}")
            producer.end(commit=True)

    patiently(append)
