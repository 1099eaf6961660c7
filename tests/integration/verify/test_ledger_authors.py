"""Whose word counts in the ledger: nothing that others write there, or in its table, is believed or acted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafka_ferry.batches import single_record
from kafka_ferry.batches.digest import RangeDigest
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.copy.target.all_writers import restore_positions
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger import (
    AppliedEntry,
    BackfillEntry,
    CopiedRange,
    Entry,
    GroupsEntry,
    LedgerError,
    OwnershipEntry,
    ReleasedTopic,
    ReleaseEntry,
    RunEntry,
    SetAsideEntry,
    TransactionEntry,
    UnreadableRecord,
    VerificationEntry,
    encode,
    ledger_topic,
)
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.positions import transactional_id
from kafka_ferry.runs.repair.ledger_records import LedgerRecords
from kafka_ferry.wire.transactions.exclusive_writer import write_exclusively
from tests.support.records.builders import Record, create_topic, delete_before, produce
from tests.support.records.histories import named
from tests.support.runs.flows import copy_now, failures, ledger_of, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import prove, verified

pytestmark = pytest.mark.usefixtures("without_spark", "short_waits")


@dataclass(frozen=True)
class Begun:
    """A flow with a proved run, and the one range that it has copied."""

    pair: Pair
    flow: Flow
    topic: str
    copied: CopiedRange

    def nothing_after(self, reason: str, offsets: int) -> CopiedRange:
        """The range that follows, none of whose offsets has a record on the target."""
        changed = {
            "start": self.copied.end,
            "end": self.copied.end + offsets,
            **{
                "records": 0,
                "bytes": 0,
                "batches": 0,
                "segments": (),
                "reasons": {reason: offsets},
            },
            "digest": RangeDigest().hexdigest(),
            "last_crc": -1,
        }
        return CopiedRange(**self.copied.model_dump() | changed)

    def forge(self, entry: Entry) -> None:
        """Write an entry as a principal with WRITE on the ledger's topic can, and no more."""
        key, value = encode(entry)
        topic = ledger_topic(self.flow.source.alias)
        produce(self.pair.backup.bootstrap, topic, [Record(key, value)])


@pytest.fixture
def begun(pair: Pair) -> Begun:
    topic = pair.topic("orders", named("first", 10))
    flow = pair.flow([topic])
    prove(flow)
    (known,) = ledger_of(flow).ranges(since=0, of_run="")
    return Begun(pair, flow, topic, known.copied)


def _common(flow: Flow) -> dict[str, object]:
    return {"flow": flow.name, "run": "run-2", "at": now_ms()}


def _transaction(it: Begun) -> Entry:
    ranges = (it.nothing_after("aborted", 5),)
    return TransactionEntry(**_common(it.flow), writer=0, ranges=ranges)


MARK = Mark("users", "", "users", "an-id", preserved=False, created=True)


_FORGED: dict[str, Callable[[Begun], Entry]] = {
    "transaction": _transaction,
    "backfill": lambda it: BackfillEntry(
        **_common(it.flow), writer=0, since=0, until=9, ranges=(it.nothing_after("filtered", 5),)
    ),
    "applied": lambda it: AppliedEntry(**_common(it.flow), missed={it.copied.remote_topic_id: 1}),
    "ownership": lambda it: OwnershipEntry(**_common(it.flow), marks=(MARK,)),
    "release": lambda it: ReleaseEntry(
        **_common(it.flow),
        remote_topics=(
            ReleasedTopic(
                remote_topic=it.copied.remote_topic, remote_topic_id=it.copied.remote_topic_id
            ),
        ),
    ),
    "run": lambda it: RunEntry(**_common(it.flow), writers=3),
    "verification": lambda it: VerificationEntry(
        **_common(it.flow), through=1, ranges=1, records=1
    ),
    "groups": lambda it: GroupsEntry(**_common(it.flow)),
    "set-aside": lambda it: SetAsideEntry(
        **_common(it.flow), records=(UnreadableRecord(offset=1, digest="x"),)
    ),
}


def test_records_outside_of_a_transaction_stop_the_flow_by_name_and_can_be_set_aside(
    begun: Begun,
) -> None:
    flow, ledger = begun.flow, LedgerRecords(begun.flow)
    for forged in _FORGED.values():
        begun.forge(forged(begun))

    def assert_stopped(kind: str, run: str) -> None:
        with pytest.raises(LedgerError, match=f"type {kind} for .* belongs to no transaction"):
            plan_now(flow, run)

    first, *_, last = _FORGED
    for run in ("run-2", "run-3"):
        assert_stopped(first, run)
    listed = ledger.unreadable()
    assert len(listed) == len(_FORGED)
    assert all("another client has written it" in record.why for record in listed)

    offsets = [record.offset for record in listed]
    ledger.set_aside(offsets[:-1], "forged")
    assert_stopped(last, "run-4")
    ledger.set_aside(offsets[-1:], "forged")
    begun.pair.produce(begun.topic, named("second", 5))
    prove(flow, "run-5")
    begun.pair.assert_same(flow, begun.topic)


def test_what_lies_in_a_ledger_before_the_flow_begins_is_not_believed(pair: Pair) -> None:
    flow = pair.flow([pair.topic("orders", named("first", 10))])
    ledger = ledger_topic(flow.source.alias)
    create_topic(pair.backup.bootstrap, ledger)
    key, value = encode(OwnershipEntry(**_common(flow), marks=(MARK,)))
    produce(pair.backup.bootstrap, ledger, [Record(key, value)])

    with pytest.raises(LedgerError, match="belongs to no transaction"):
        plan_now(flow)


@pytest.mark.parametrize("reason", ["aborted", "filtered", "compacted", "copied"])
@pytest.mark.short("compacted", "copied")
def test_a_range_by_another_transactional_id_fails_every_run_by_name(
    begun: Begun, reason: str
) -> None:
    """Also of a principal that commits the flow's position, so that nothing else contradicts."""
    flow, place = begun.flow, TopicPartition(remote(begun.flow, begun.topic), 0)
    begun.pair.produce(begun.topic, named("second", 5))
    nothing = begun.nothing_after("aborted" if reason == "copied" else reason, 5)
    if reason == "copied":
        segments = [it._replace(source=nothing.start) for it in begun.copied.segments]
        changed = {"records": 5, "reasons": {}, "segments": tuple(segments)}
        nothing = nothing.model_copy(update=changed)
    entry = TransactionEntry(**_common(flow), writer=0, ranges=(nothing,))
    record = single_record(*encode(entry), entry.at)
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    write_exclusively(flow.target, ledger, begun.topic, lambda writer: writer.commit(record))
    there = Position(nothing.end, nothing.topic_id, nothing.remote_topic_id)
    restore_positions(flow, "run-2", {place: there})

    for run in ("run-2", "run-3"):
        assert not plan_now(flow, run).ranges
        with pytest.raises(VerificationFailed, match=r"(?s)no writer of .* \[10, 15\)"):
            verified(flow, run)
    with pytest.raises(FerryError):
        verified(flow, "run-3")


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_range_without_records_whose_writer_nobody_knows_is_proved_by_the_source(
    begun: Begun, is_lost: bool
) -> None:
    """As the flow's own is where brokers have forgotten its producer before it was verified."""
    flow, place = begun.flow, TopicPartition(remote(begun.flow, begun.topic), 0)
    source = begun.pair.primary
    produce(source.bootstrap, begun.topic, named("x", 5), transactional_id="x", abort=True)
    produce(source.bootstrap, begun.topic, named("next", 1))
    nothing = begun.nothing_after("aborted", 5)
    entry = TransactionEntry(**_common(flow), writer=0, ranges=(nothing,))
    record = single_record(*encode(entry), entry.at)
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    write_exclusively(flow.target, ledger, begun.topic, lambda writer: writer.commit(record))
    there = Position(
        nothing.end, nothing.topic_id, nothing.remote_topic_id, leader_epoch=nothing.leader_epoch
    )
    restore_positions(flow, "run-2", {place: there})
    if is_lost:
        delete_before(source, begun.topic, nothing.start + 1)

    assert not failures(copy_now(flow, "run-2"))
    if is_lost:
        with pytest.raises(VerificationFailed, match=r"(?s)no writer of .* \[10, 15\)"):
            verified(flow, "run-2")
    else:
        verified(flow, "run-2")


@pytest.mark.parametrize("is_by_flow", [False, True], ids=["forged", "copied"])
def test_in_a_shared_topic_another_flows_ledger_explains_only_what_its_writers_wrote(
    pair: Pair, *, is_by_flow: bool
) -> None:
    """A record of any client is explained by no claim that the client, or another one, has put into a ledger."""
    topic = pair.topic("shared", named("first", 5))
    flow = pair.flow([topic], on_foreign_records="adopt")
    prove(flow)
    place = TopicPartition(remote(flow, topic), 0)
    (known,) = ledger_of(flow).ranges(since=0, of_run="")
    end = known.copied.target_end + 1
    claimed = CopiedRange(
        **known.copied.model_dump()
        | {"records": 1, "start": 0, "end": 1, "segments": [(0, end, 1)], "reasons": {}}
    )
    other = pair.unique("other")
    name = f"{other}->{flow.target.alias}"
    common = {**_common(flow), "flow": name}
    entry = TransactionEntry(**common, writer=0, ranges=(claimed,))
    record = single_record(*encode(entry), entry.at)
    ledger = TopicPartition(ledger_topic(other), 0)
    create_topic(pair.backup.bootstrap, ledger.topic)
    writer = transactional_id(name, 0) if is_by_flow else topic
    foreign = [Record(value=b"of another client", partition=0)]
    how = {"transactional_id": writer} if is_by_flow else {}
    produce(pair.backup.bootstrap, place.topic, foreign, **how)
    write_exclusively(flow.target, ledger, writer, lambda it: it.commit(record))
    pair.produce(topic, named("second", 5))
    assert not failures(copy_now(flow, "run-2"))

    if is_by_flow:
        verified(flow, "run-2")
    else:
        with pytest.raises(VerificationFailed, match="1 record of another producer"):
            verified(flow, "run-2")
