"""Killed between any two requests, a preserved copy goes on where its log ends: the crash table, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.control import read_positions
from kafka_ferry.copy.target.transaction import Transaction
from kafka_ferry.model import Plan
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, delete_before, produce, read_all
from tests.support.records.offsets import assert_same_offsets, bounds
from tests.support.runs.flows import (
    copy_planned,
    failures,
    ledger_rows,
    make_flow,
    plan_now,
    remote,
)
from tests.support.runs.killing import Fate, Killed, fated
from tests.support.runs.pair import Pair, Unique
from tests.support.runs.proof import prove

ANYWHERE, AT_EACH_KIND = "anywhere", "at each kind of request"


@pytest.fixture(scope="module")
def topic(primary: KafkaCluster) -> str:
    """Two partitions: one begins at offset 5 and has aborted records and markers, one is plain."""
    name = "killed-in-between"
    create_topic(primary.bootstrap, name, 2)

    def records(part: str, count: int) -> list[Record]:
        return [Record(b"%d" % i, f"{part} {i}".encode(), partition=0) for i in range(count)]

    produce(primary.bootstrap, name, records("gone", 5))
    delete_before(primary, name, 5)
    produce(primary.bootstrap, name, records("first", 7))
    produce(primary.bootstrap, name, records("committed", 3), transactional_id=f"{name}-a")
    produce(
        primary.bootstrap, name, records("aborted", 2), transactional_id=f"{name}-b", abort=True
    )
    produce(primary.bootstrap, name, records("last", 2), transactional_id=f"{name}-a")
    produce(primary.bootstrap, name, [Record(value=b"%d" % i, partition=1) for i in range(4)])
    return name


@pytest.fixture
def plan(
    tmp_path: Path, primary: KafkaCluster, backup: KafkaCluster, topic: str, unique: Unique
) -> Callable[[str], tuple[Flow, Plan]]:
    """Plans a new flow, and makes its topics."""

    def new(fill: str) -> tuple[Flow, Plan]:
        folder = tmp_path / unique("crash")
        flow = make_flow(folder, primary, backup, [topic], offsets="preserved", fill=fill)
        plan = plan_now(flow)
        assert not plan.remarks.refused, plan.remarks.refused
        assert len({range_.owner for range_ in plan.ranges}) == 1
        return flow, plan

    return new


def crashes(sent: list[str], where: str) -> Iterator[tuple[int, str]]:
    """The requests to die at, by number: any of them, or the first of each kind."""
    for at, request in enumerate(sent):
        if where == ANYWHERE or request not in sent[:at]:
            yield at, request


def requests_of_a_copy(flow: Flow, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    fate = Fate()
    with fated(monkeypatch, fate):
        assert not failures(copy_planned(flow, plan))
    return fate.sent


@pytest.mark.short("markers-True-at each kind of request")
@pytest.mark.parametrize(
    ("fill", "answered", "where"),
    [
        ("markers", True, AT_EACH_KIND),
        pytest.param("transactions", True, ANYWHERE, marks=pytest.mark.long),
        pytest.param("markers", False, ANYWHERE, marks=pytest.mark.long),
    ],
)
def test_a_crash_at_any_request_leaves_a_copy_that_goes_on(
    pair: Pair,
    fill: str,
    answered: bool,
    where: str,
    plan: Callable[[str], tuple[Flow, Plan]],
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = requests_of_a_copy(*plan(fill), monkeypatch)
    kinds = {"InitProducerIdRequest", "ProduceRequest", "DeleteRecordsRequest", "EndTxnRequest"}
    assert kinds < set(sent)
    assert ("WriteTxnMarkersRequest" in sent) == (fill == "markers")
    for at, request in crashes(sent, where):
        flow, planned = plan(fill)
        # A coordinator that is not ready is asked twice, so that not every copy has as many requests.
        with fated(monkeypatch, Fate(at, answered)), suppress(Killed):
            copy_planned(flow, planned)
        killed = f"killed at request {at}, {request}"
        assert_nothing_else(pair.primary, topic, pair.backup, remote(flow, topic), killed)

        again = planned if at % 2 else plan_now(flow, "run-2")
        assert not failures(copy_planned(flow, again)), killed

        assert_same_offsets(pair.primary, topic, pair.backup, remote(flow, topic))
        assert_ledger_joins(flow, killed)
        ends = {
            tp.partition: position.offset
            for tp, position in read_positions(flow.target, flow.name).items()
        }
        assert ends == {range_.partition: range_.end for range_ in planned.ranges}, killed


@pytest.mark.usefixtures("without_spark")
def test_a_record_that_a_compacted_copy_refused_gets_its_letter_after_a_crash(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is filled on the target, which is no cleaner's work, although a later record has its key."""
    topic = pair.unique("refused")
    create_topic(pair.primary.bootstrap, topic, cleanup_policy="compact")
    pair.produce(topic, [Record(b"k", b"0"), Record(b"k", b"+" * 2_000), Record(b"k", b"2")])

    flow = pair.flow(
        [topic],
        offsets="preserved",
        on_rejected_record="dead-letter",
        topics_configs={topic: {"max.message.bytes": "1000"}},
        dead_letter_topic=pair.unique("letters"),
    )

    def die(*_: object) -> NoReturn:
        raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Transaction, "commit", die)
        copy_planned(flow, plan_now(flow))
    assert bounds(pair.backup, remote(flow, topic), [0])[0].end == 3
    assert not read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]

    report = prove(flow, "run-2")

    assert (report.state, report.counts.dead_lettered) == ("verified", 1)
    (letter,) = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
    assert dict(letter.headers)["ferry.offset"] == b"1"
    assert [record.value for record in pair.copied(flow, topic)[0]] == [b"0", b"2"]


@pytest.mark.long
def test_a_crash_while_the_sources_start_is_followed_leaves_it_to_the_next_run(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving = pair.topic("moving", [Record(value=b"%d" % i) for i in range(40)])
    flow = pair.flow([moving], offsets="preserved")
    assert not failures(copy_planned(flow, plan_now(flow)))

    def move(step: int) -> Plan:
        delete_before(pair.primary, moving, step + 1)
        pair.produce(moving, [Record(value=b"more")])
        return plan_now(flow, f"run-{step}")

    sent = requests_of_a_copy(flow, move(0), monkeypatch)
    assert sent[-1] == "DeleteRecordsRequest"
    for at, _ in crashes(sent, ANYWHERE):
        for answered in (False, True):
            planned = move(2 * at + answered + 1)
            with fated(monkeypatch, Fate(at, answered)), suppress(Killed):
                copy_planned(flow, planned)
            assert not failures(copy_planned(flow, planned))
            assert_same_offsets(pair.primary, moving, pair.backup, remote(flow, moving))
    assert_ledger_joins(flow, "moving")


MASK = """
from dataclasses import replace


def mask(record, secrets):
    return replace(record, value=record.value + b"MARK") if record.value != b"LEFT OUT" else None
"""


@pytest.mark.parametrize(
    ("mark", "said"),
    [("?", "another record than the source has"), ("!", "nothing where the source has")],
)
def test_uncommitted_records_by_another_rule_are_named_by_the_rule(
    mark: str, said: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that died had left one record out and marked nine, and committed none."""
    ruled = pair.topic("ruled", [Record(value=b"%d" % i) for i in range(10)])
    file = pair.folder / "masks.py"
    rule = {"topics": [ruled], "function": "masks.mask"}
    options = {"offsets": "preserved", "transform_functions": str(pair.folder)}
    flow = pair.flow([ruled], transform=[rule], **options)
    written = MASK.replace("MARK", "!").replace("LEFT OUT", "3")
    file.write_text(written)
    planned = plan_now(flow)
    with fated(monkeypatch, Fate(after="ProduceRequest", times=3)), suppress(Killed):
        copy_planned(flow, planned)

    file.write_text(MASK.replace("MARK", mark).replace("LEFT OUT", "none"))
    (failure,) = failures(copy_planned(flow, plan_now(flow, "run-2")))

    assert said in failure
    assert f"rule 1 ({ruled})" in failure
    assert "other producer" not in failure
    file.write_text(written)
    assert not failures(copy_planned(flow, plan_now(flow, "run-3")))
    copied = [it.value for it in pair.copied(flow, ruled)[0]]
    assert copied == [b"%d!" % i for i in range(10) if i != 3]


@pytest.mark.parametrize("removed", [3, 10])
def test_what_the_source_removes_after_a_crash_stays_copied(
    removed: int, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that died had written ten records, and committed none."""
    short = pair.topic("short-lived", [Record(value=b"%d" % i) for i in range(10)])
    options = {"offsets": "preserved", "on_source_truncation": "continue"}
    flow = pair.flow([short], **options)
    planned = plan_now(flow)
    # The first one writes into the ledger where the partition begins.
    with fated(monkeypatch, Fate(after="ProduceRequest", times=2)), suppress(Killed):
        copy_planned(flow, planned)
    copy = remote(flow, short)
    assert len(read_all(pair.backup.bootstrap, copy)[0]) == 10

    delete_before(pair.primary, short, removed)
    for run in ("run-2", "run-3"):
        assert not failures(copy_planned(flow, plan_now(flow, run)))

    assert_same_offsets(pair.primary, short, pair.backup, copy)
    (row,) = ledger_rows(flow)
    assert (row["records"], row["adopted"], row["lost"]) == (10, 10, [])


def assert_nothing_else(
    source: KafkaCluster, topic: str, target: KafkaCluster, copy: str, where: str
) -> None:
    """The target shows no consumer a record that is not the source's, but for those before its start."""
    want = read_all(source.bootstrap, topic)
    for isolation in ("read_committed", "read_uncommitted"):
        for number, records in read_all(target.bootstrap, copy, isolation=isolation).items():
            known = {record.offset: record for record in want[number]}
            first = min(known)
            for record in records:
                assert record.offset < first or record == known.get(record.offset), where


def assert_ledger_joins(flow: Flow, where: str) -> None:
    """Each offset is in one range of the ledger."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for row in ledger_rows(flow):
        spans.setdefault(row["partition"], []).append((row["start"], row["end"]))
    for joined in spans.values():
        assert all(a[1] == b[0] for a, b in pairwise(joined)), (where, joined)
