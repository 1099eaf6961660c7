"""Ledger records that a run itself writes, outside of its writers' transactions."""

from __future__ import annotations

from typing import Final, TypeAlias

from kafka_ferry.batches import for_producer, single_record
from kafka_ferry.config import Flow
from kafka_ferry.errors import Fenced, FerryError
from kafka_ferry.ledger.record import (
    AppliedEntry,
    GroupsEntry,
    OwnershipEntry,
    ReleaseEntry,
    RunEntry,
    VerificationEntry,
    encode,
    ledger_topic,
)
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import connected
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.transactions.producer import TransactionalProducer, produce_request

_TIMEOUT_MS: Final = 60_000


class _Overtaken(FerryError):
    """Another run of the flow has appended to the ledger at the same time."""

    transient = True


_OfRun: TypeAlias = (
    AppliedEntry | GroupsEntry | OwnershipEntry | ReleaseEntry | RunEntry | VerificationEntry
)


def append_entry(flow: Flow, entry: _OfRun) -> None:
    """Append ``entry`` to the ledger, as the only record of a batch and therefore without a transaction.

    Two runs of a flow may do so at the same time, such as a backfill and a scheduled run: the later one
    fences the other, which tries again. A request that was given up and arrives late is refused for its
    epoch. An entry may be written twice, where a broker does not say whether it took it; repeated entries
    do no harm.

    Raises:
        FerryError: if the target does not accept it within a minute.
    """

    def append() -> None:
        try:
            _append(flow, entry)
        except Fenced as error:
            raise _Overtaken(error.message) from error

    retry(append)


def _append(flow: Flow, entry: _OfRun) -> None:
    alias = flow.target.alias
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    with connected(flow.target, "producer") as cluster:
        producer = TransactionalProducer(cluster, f"ferry.{flow.name}.run", timeout_ms=_TIMEOUT_MS)
        producer.start()
        leader = cluster.recent_leaders([ledger])[ledger]
        if leader.node < 0:
            raise fault(leader.error, f"Looking for the ledger {ledger.topic} on {alias}")
        batch = for_producer(
            single_record(*encode(entry), entry.at),
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=0,
            transactional=False,
        )
        answer = cluster.connection(leader.node).call(produce_request({ledger: batch}))
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise fault(code, f"Writing to the ledger {ledger.topic} on {alias}")
