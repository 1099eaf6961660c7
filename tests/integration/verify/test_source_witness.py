"""The source itself says that it has no record where the ledger has none for the source's reasons."""

from __future__ import annotations

import pytest

from kafka_ferry.batches import single_record
from kafka_ferry.batches.digest import RangeDigest
from kafka_ferry.copy.target.all_writers import restore_positions
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.ledger import CopiedRange, TransactionEntry, encode, ledger_topic
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.model.positions import transactional_id
from kafka_ferry.wire.transactions.exclusive_writer import write_exclusively
from tests.support.records.histories import named
from tests.support.runs.flows import ledger_of, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import prove, recount_here, verified


def test_a_ledger_record_that_books_records_as_aborted_is_contradicted_by_the_source(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic = pair.topic("witness")
    for number in range(3):
        pair.produce(topic, named(f"a{number}", 4), transactional_id=topic, abort=number == 1)
    flow = pair.flow([topic])
    report = prove(flow, "run-1")
    assert report.found.endswith("; 7 offsets without a record looked up on the source")

    pair.produce(topic, named("b", 5))
    (known,) = ledger_of(flow).ranges(since=0, of_run="")
    forged = known.copied.model_dump() | {
        "start": known.copied.end,
        "end": known.copied.end + 5,
        **{"records": 0, "bytes": 0, "batches": 0, "segments": (), "reasons": {"aborted": 5}},
        "digest": RangeDigest().hexdigest(),
    }
    nothing = CopiedRange(**forged)
    entry = TransactionEntry(flow=flow.name, run="run-2", at=1, writer=0, ranges=(nothing,))
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    record = single_record(*encode(entry), entry.at)
    # As a task of the flow that is wrong: other clients' records count for nothing.
    name = transactional_id(flow.name, 0)
    write_exclusively(flow.target, ledger, name, lambda writer: writer.commit(record))
    place = TopicPartition(remote(flow, topic), 0)
    there = Position(
        nothing.end, topic_id=nothing.topic_id, remote_topic_id=nothing.remote_topic_id
    )
    restore_positions(flow, "run-2", {place: there})

    assert not plan_now(flow, "run-2").ranges
    with pytest.raises(VerificationFailed, match="offset 15 has a record on the source"):
        verified(flow, "run-2")
