"""A request that reaches a broker after the next transaction has begun does it no harm."""

from __future__ import annotations

from typing import Any, Final

import pytest
from kafka.protocol.producer import EndTxnRequest

from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.wire import Connection, WireCluster
from kafka_ferry.wire.cluster import TRANSACTION
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from tests.support.records.builders import Record, produce
from tests.support.runs.flows import (
    assert_same,
    copy_planned,
    failures,
    ledger_of,
    plan_now,
    remote,
)
from tests.support.runs.pair import Pair

pytestmark = pytest.mark.usefixtures("without_spark")

OLD_EPOCH: Final = (47, 90)
"""INVALID_PRODUCER_EPOCH and PRODUCER_FENCED."""


def test_an_end_that_arrives_in_the_next_transaction_does_not_end_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before KIP-890's second part, EndTxn says of which epoch it is, and not of which transaction."""
    topic = pair.topic("late", [])
    for number in range(4):
        values = [Record(value=b"%d-%d" % (number, at)) for at in range(10)]
        produce(pair.primary.bootstrap, topic, values)
    flow = pair.flow([topic], transaction_max_bytes=1, join_batches_below=0)
    plan = plan_now(flow)
    call, ask_to_commit = Connection.call, TransactionalProducer.ask_to_commit
    late: list[dict[str, Any]] = []
    codes: list[int] = []

    def lose_answer(connection: Connection, request: Any, **more: Any) -> Any:
        if isinstance(request, EndTxnRequest) and request.committed and not late:
            late.append(
                {
                    name: getattr(request, name)
                    for name in ("transactional_id", "producer_id", "producer_epoch", "committed")
                }
            )
            raise ClusterUnreachable("The connection is gone.")
        return call(connection, request, **more)

    def arrive(producer: TransactionalProducer, *given: Any) -> Any:
        if late and not codes:
            bootstrap = pair.backup.bootstrap.split(",")
            with WireCluster("late", {"bootstrap_servers": bootstrap}) as cluster:
                coordinator = cluster.coordinator(producer.transactional_id, TRANSACTION)
                codes.append(call(coordinator, EndTxnRequest(**late[0])).error_code)
        return ask_to_commit(producer, *given)

    monkeypatch.setattr(Connection, "call", lose_answer)
    monkeypatch.setattr(TransactionalProducer, "ask_to_commit", arrive)
    assert failures(copy_planned(flow, plan)) == []

    assert len(codes) == 1
    assert codes[0] in OLD_EPOCH
    assert_same(pair.primary, topic, pair.backup, remote(flow, topic))
    ranges = [entry.copied for entry in ledger_of(flow).ranges(since=0, of_run="")]
    assert sum(copied.records for copied in ranges) == 40
    assert len(ranges) > 1
