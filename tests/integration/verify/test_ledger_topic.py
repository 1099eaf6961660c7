"""What is appended to the ledger's topic is there once; what is no entry is named, with topic and offset."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import LedgerTable, RunEntry, append_entry, decode, ledger_topic
from kafka_ferry.ledger.record import LedgerError, VerificationEntry
from kafka_ferry.ledger.topic import read_ledger
from kafka_ferry.model import ranges
from kafka_ferry.runs.repair.ledger_records import LedgerRecords
from kafka_ferry.state import StateFolder
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.scan import committed_values
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    Record,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    set_config,
)
from tests.support.records.histories import named
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import copy_now, failures, ledger_of, plan_now
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

FOREIGN = [
    Record(b"another client's", b"not json"),
    Record(b"a key and nothing else", None),
    Record(None, b"\xff\xfe"),
    Record(None, b""),
    Record(b"deep", b"[" * 100_000),
    Record(b"large", b'{"version":1,"type":"run","writers":' + b"9" * 5000 + b"}"),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda record: str(record.key))
def test_a_record_of_another_client_is_named(pair: Pair, foreign: Record) -> None:
    topic = pair.topic("orders", [Record(b"k", b"v")])
    flow = pair.flow([topic])
    copy_now(flow)
    ledger = ledger_topic(flow.source.alias)
    types = [entry.type for _, entry in read_ledger(flow.target, ledger, 0)]
    assert types == ["applied", "ownership", "applied", "transaction"]

    produce(pair.backup.bootstrap, ledger, [foreign])

    with pytest.raises(LedgerError) as caught:
        list(read_ledger(flow.target, ledger, 0))
    assert caught.value.message.startswith(
        f"{ledger} offset {_end(pair.backup, ledger) - 1}: not a ledger record"
    )
    with pytest.raises(LedgerError):
        ledger_of(flow)


@pytest.mark.parametrize("flow_has_begun", [True, False], ids=["after a run", "before any"])
def test_what_is_no_entry_is_set_aside_by_name_and_the_flow_goes_on(
    pair: Pair, flow_has_begun: bool
) -> None:
    topic = pair.topic("orders", named("first", 10))
    flow = pair.flow([topic])
    if flow_has_begun:
        assert not failures(copy_now(flow))
    else:
        create_topic(pair.backup.bootstrap, ledger_topic(flow.source.alias))
    ledger = ledger_topic(flow.source.alias)
    produce(pair.backup.bootstrap, ledger, FOREIGN)
    first = _end(pair.backup, ledger) - len(FOREIGN)

    with pytest.raises(LedgerError, match="repair --ledger"):
        copy_now(flow, "run-2")
    found = LedgerRecords(flow)
    assert [it.offset for it in found.unreadable()] == [*range(first, first + len(FOREIGN))]
    assert not [it for it in found.unreadable() if it.hides or it.is_aside]
    with pytest.raises(FerryError, match="no unreadable record at the offset 999999"):
        found.set_aside([first, 999_999], "junk")
    asked = ("repair", "--config", flow.file, "--set-aside", first)
    assert "must say why" in ferry(*asked, "--yes").stderr
    shown = ferry(*asked, "--reason", "junk")
    assert (shown.returncode, shown.stdout.count("It hides nothing")) == (2, len(FOREIGN))
    assert not [it for it in found.unreadable() if it.is_aside]
    assert ferry(*asked, "--reason", "junk", "--yes").returncode == 2
    assert [it.is_aside for it in found.unreadable()] == [True] + [False] * (len(FOREIGN) - 1)
    with pytest.raises(LedgerError, match=f"offset {first + 1}: not a ledger record"):
        copy_now(flow, "run-3")
    found.set_aside([it.offset for it in found.unreadable()], "junk")
    shown = ferry("repair", "--config", flow.file, "--ledger")
    assert (shown.returncode, shown.stdout.count("It is set aside.")) == (0, len(FOREIGN))

    pair.produce(topic, named("second", 5))
    assert not failures(copy_now(flow, "run-4"))
    pair.assert_same(flow, topic)
    # The same record elsewhere is another one.
    produce(pair.backup.bootstrap, ledger, FOREIGN[:1])
    with pytest.raises(LedgerError):
        ledger_of(flow)


@pytest.mark.parametrize("number", [0, 1])
def test_what_an_unreadable_record_hides_is_shown(pair: Pair, number: int) -> None:
    """Entries that cannot be read any more, as another release may write them: one with a range, and the last one."""
    topic = pair.topic("orders", named("first", 10), partitions=2)
    flow = pair.flow([topic])
    copy_now(flow)
    for run in ("run-2", "run-3"):
        pair.produce(topic, named(run, 10))
        copy_now(flow, run)
    ledger = ledger_topic(flow.source.alias)
    with connect(flow.target) as wire:
        values = [
            value or b"" for _, value in committed_values(wire, ranges.TopicPartition(ledger, 0), 0)
        ]
    delete_topic(pair.backup, ledger)
    create_topic(pair.backup.bootstrap, ledger)
    copied = [at for at, value in enumerate(values) if decode(value, at="").type == "transaction"]
    for at, value in enumerate(values):
        is_lost = at in (copied[number], copied[-1])
        changed = value.replace(b'"version":1', b'"version":9') if is_lost else value
        record = Record(flow.name.encode(), changed)
        produce(pair.backup.bootstrap, ledger, [record], transactional_id=topic)

    first, second = LedgerRecords(flow).unreadable()

    assert first.is_newer and second.is_newer
    assert [sentence for sentence in first.hides if f"{topic}-" in sentence]
    assert [sentence for sentence in second.hides if f"{topic}-" in sentence]


@pytest.mark.short("compacted")
@pytest.mark.parametrize("how", ["compacted", "deleted"])
def test_a_ledger_that_has_lost_records_is_named_and_its_table_is_kept(
    pair: Pair, how: str, tmp_path: Path
) -> None:
    topic = pair.topic("orders", [Record(b"k", b"v")])
    flow = pair.flow([topic])
    ledger = ledger_topic(flow.source.alias)
    for number in range(3):
        pair.produce(topic, [Record(b"k", b"v")])
        assert not failures(copy_now(flow, f"run-{number}"))
        append_entry(flow, _verification(flow))
    before = ledger_of(flow).read()

    if how == "deleted":
        delete_before(pair.backup, ledger, _end(pair.backup, ledger))
    else:
        compacting = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
        for name, value in (compacting | {"cleanup.policy": "compact"}).items():
            set_config(pair.backup, ledger, name, value)
        # The cleaner leaves the newest record of a key outside of the active segment.
        for _ in range(3):
            append_entry(flow, _verification(flow))
        wait_until(lambda: len(read_all(pair.backup.bootstrap, ledger)[0]) < 3)

    anew = LedgerTable(StateFolder(str(tmp_path)), flow.name)
    for table in (anew, _table_of(flow)):
        with pytest.raises(LedgerError, match=f"lost records: {ledger}-0 lacks the off") as error:
            table.project(flow.target, ledger)
        assert "retention.ms=-1" in error.value.advice
    assert _table_of(flow).read() == before


def test_a_ledger_that_will_lose_records_is_named_while_it_has_all(pair: Pair) -> None:
    flow = pair.flow([pair.topic("orders", [Record(b"k", b"v")])])
    assert not failures(copy_now(flow))
    assert plan_now(flow, "run-2").remarks.notes == ()
    ledger = ledger_topic(flow.source.alias)
    for name, value in {"retention.ms": "3600000", "cleanup.policy": "compact"}.items():
        set_config(pair.backup, ledger, name, value)
    said = f"The ledger {ledger} will lose records by cleanup.policy=compact, retention.ms=3600000"

    wait_until(lambda: said in "".join(map(str, plan_now(flow, "run-3").remarks.notes)))


def _verification(flow: Flow) -> VerificationEntry:
    return VerificationEntry(
        flow=flow.name, run="run-2", at=now_ms(), through=0, ranges=0, records=0
    )


def _table_of(flow: Flow) -> LedgerTable:
    return LedgerTable(StateFolder(flow.state_path).folder(f"{flow.slug}/ledger"), flow.name)


def test_runs_that_append_at_the_same_time_all_come_to_it(pair: Pair) -> None:
    """As a backfill's run does beside one of the timetable; each fences the other."""
    flow = pair.flow([pair.unique("orders")])
    create_topic(pair.backup.bootstrap, ledger_topic(flow.source.alias))
    runs = [f"run-{number}" for number in range(12)]

    def append(run: str) -> None:
        append_entry(flow, RunEntry(flow=flow.name, run=run, at=1, writers=1))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, runs))

    entries = read_ledger(flow.target, ledger_topic(flow.source.alias), 0)
    assert {entry.run for _, entry in entries} == set(runs)


def _end(broker: KafkaCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.close()
    return int(end)
