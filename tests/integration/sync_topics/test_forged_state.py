"""Nothing that others put into the state folder or the ledger's topic leads a run to take anything away.

Nor to carry out another plan than the approved one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError, SparkNeeded
from kafka_ferry.ledger import AppliedEntry, Entry, OwnershipEntry
from kafka_ferry.ledger.rows import SCHEMA, rows_of
from kafka_ferry.model.changes import AclChange, QuotaChange, Retirement, UserChange
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.plan import Plan, save_plan
from kafka_ferry.runs import Run
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.spark.session import no_spark
from tests.support.brokers.access import (
    acls_of,
    add_user,
    allow,
    an_acl,
    forget,
    quotas_of,
    set_quota,
    users_of,
)
from tests.support.records.builders import create_topic, set_config
from tests.support.records.histories import named
from tests.support.runs.flows import copy_now, failures, ledger_of, plan_now, remote
from tests.support.runs.pair import Pair

RATE = "consumer_byte_rate"


@dataclass(frozen=True)
class Theirs:
    """What another client has on the target, under the names that a forged entry uses.

    Attributes:
        entries: say that the flow has created it, long ago.
        is_there: whether it still is.
    """

    entries: tuple[Entry, ...]
    is_there: Callable[[], bool]


@pytest.fixture
def flow(pair: Pair) -> Flow:
    """A flow that takes away what is gone from the source, and has copied."""
    flow = pair.flow(
        [pair.topic("orders", named("first", 10)), "ghost"],
        topics_optional=["ghost"],
        on_source_topic_deleted="retire",
        sync_client_quotas_enabled=True,
        sync_scram_users_enabled=True,
        scram_passwords_file=str(pair.folder / "passwords"),
    )
    (pair.folder / "passwords").write_text("")
    assert not failures(copy_now(flow))
    # The last row is then about nothing that is forged.
    ledger_of(flow)
    return flow


def an_entry(flow: Flow, source_id: str, **fields: object) -> AppliedEntry:
    return AppliedEntry(flow=flow.name, run="run-0", at=1, source_cluster_id=source_id, **fields)


def theirs(pair: Pair, flow: Flow, kind: str) -> Theirs:
    name, source_id = pair.unique("admin"), ClusterControl(flow.source).cluster_id()
    broker = pair.backup
    if kind == "user":
        add_user(broker, name, "admin-secret")
        user = UserChange(name, "SCRAM-SHA-512", 4096, "create")
        return Theirs(
            (an_entry(flow, source_id, users=(user,)),),
            lambda: any(name in key for key in users_of(broker)),
        )
    if kind == "ACL":
        text = f"topic {name}: {name} DENY READ"
        allow(broker, text)
        acls = (AclChange(an_acl(text), "grant"),)
        return Theirs(
            (an_entry(flow, source_id, acls=acls),), lambda: an_acl(text) in acls_of(broker)
        )
    if kind == "quota":
        entity = (("user", name),)
        set_quota(broker, entity, RATE, 1000.0)
        quotas = (
            QuotaChange(entity, RATE, 1000.0, None),
            QuotaChange(entity, RATE, 1000.0, 1000.0),
        )
        return Theirs(
            (an_entry(flow, source_id, quotas=quotas),),
            lambda: quotas_of(broker).get((entity, RATE)) == 1000.0,
        )
    return _topic_or_config(pair, flow, kind, source_id)


def _topic_or_config(pair: Pair, flow: Flow, kind: str, source_id: str) -> Theirs:
    target = ClusterControl(flow.target)
    copy = remote(flow, "ghost" if kind == "topic" else flow.topics[0])
    if kind == "topic":
        create_topic(pair.backup.bootstrap, copy)
        id_ = target.topic_ids([copy])[copy]
        mark = Mark("ghost", "", copy, id_, preserved=False, created=True)
        ownership = OwnershipEntry(flow=flow.name, run="run-0", at=1, marks=(mark,))
        applied = an_entry(flow, source_id, configs={id_: {}}, missed={id_: 1})
        return Theirs((ownership, applied), lambda: bool(target.topic_ids([copy])))
    set_config(pair.backup, copy, "flush.ms", "77")
    id_ = target.topic_ids([copy])[copy]
    applied = an_entry(flow, source_id, configs={id_: {"flush.ms": "77"}})
    return Theirs((applied,), lambda: _config(target, copy) == "77")


def _config(target: ClusterControl, copy: str) -> str | None:
    value = target.topics([copy])[copy].configs.get("flush.ms")
    return value if isinstance(value, str) or value is None else value.value


def forge_rows(flow: Flow, entries: tuple[Entry, ...]) -> None:
    """Put entries into the ledger's table, before its last row, which a run compares with the topic."""
    folder = flow_state(flow).folder("ledger")
    local = folder.local_path
    assert local
    name = sorted(folder.names(".parquet"))[-1]
    rows = pq.read_table(local / name).to_pylist()
    forged = [row for entry in entries for row in rows_of(rows[-1]["ledger_offset"], entry)]
    table = pa.Table.from_pylist([*rows[:-1], *forged, rows[-1]], SCHEMA)
    pq.write_table(table, local / name, use_dictionary=False)


@pytest.mark.parametrize("kind", ["user", "ACL", "quota", "topic", "config"])
def test_rows_in_the_ledgers_table_take_nothing_away(pair: Pair, flow: Flow, kind: str) -> None:
    there = theirs(pair, flow, kind)
    assert there.is_there()
    forge_rows(flow, there.entries)

    plan_now(flow, "run-2")
    plan_now(flow, "run-3")

    assert there.is_there()


def test_a_plan_in_place_of_the_approved_one_is_not_carried_out(pair: Pair) -> None:
    topic = pair.topic("orders", named("first", 10))
    flow = pair.flow([topic], approval="always")
    this = Run(flow, "run-1")
    folder = flow_state(flow).folder("runs/run-1")
    forgeries: list[Callable[[Plan], Plan]] = [
        lambda it: replace(
            it, ranges=tuple(replace(one, start=one.start + 1) for one in it.ranges)
        ),
        lambda it: replace(it, ranges=tuple(replace(one, remote_topic="pay") for one in it.ranges)),
        lambda it: replace(it, ledger_end=2**40),
        lambda it: replace(it, options=replace(it.options, approve_removals=True)),
    ]
    refused = pytest.raises(FerryError, match="not the one that was approved")

    planned = this.plan()
    for forge in forgeries:
        save_plan(folder, forge(planned))
        with refused:
            this.sync_topics(planned.digest)
    save_plan(folder, planned)
    # The answer comes while the run is planned again.
    this.approve("Ada", planned.digest)
    save_plan(folder, forgeries[0](planned))
    with refused:
        this.require_approval()
    save_plan(folder, planned)
    this.require_approval()
    with refused:
        # Without an approval, as where a task is marked as successful.
        this.sync_topics("")
    for step in (partial(this.mirror, no_spark), this.sync_groups):
        with refused:
            step()
    prepared = this.sync_topics(planned.digest)
    this.sync_groups()
    this.require_approval()

    for forge in forgeries:
        save_plan(folder, forge(prepared))
        for step in (partial(this.mirror, no_spark), this.sync_groups):
            with refused:
                step()
    save_plan(folder, prepared)
    with pytest.raises(SparkNeeded):
        this.mirror(no_spark)
    # It may be repeated, with what it has left.
    this.sync_topics(planned.digest)


def test_a_plan_in_place_of_the_one_that_was_made_is_not_carried_out(pair: Pair) -> None:
    """Where no person is asked, too: by it a stranger could, say, be allowed everything on the target."""
    flow = pair.flow([pair.topic("orders", named("first", 10))], sync_topic_acls_enabled=True)
    allowed = an_acl(f"topic orders: {pair.unique('mallory')} ALLOW ALL")
    this = Run(flow, "run-1")
    folder = flow_state(flow).folder("runs/run-1")
    made = this.plan()
    acls = (AclChange(allowed, "grant"),)

    save_plan(folder, replace(made, access=replace(made.access, acl_changes=acls)))
    with pytest.raises(FerryError, match="not the one that was made"):
        this.sync_topics(made.digest)
    assert allowed not in acls_of(pair.backup)

    save_plan(folder, made)
    prepared = this.sync_topics(made.digest)
    assert prepared.digest != made.digest
    elsewhere = tuple(replace(one, remote_topic="pay") for one in prepared.ranges)
    # Without a range nothing would be copied, and the run would say that all of it is.
    for ranges in (elsewhere, ()):
        save_plan(folder, replace(prepared, ranges=ranges))
        with pytest.raises(FerryError, match="not the one that was made"):
            this.mirror(no_spark, expected=prepared.digest)
    save_plan(folder, prepared)
    with pytest.raises(SparkNeeded):
        this.mirror(no_spark, expected=prepared.digest)
    # It may be repeated, with what it has left.
    this.sync_topics(made.digest)


@pytest.mark.parametrize("policy", ["keep", "retire"])
def test_a_changed_plan_takes_no_copy_away_whose_topic_the_source_has(
    pair: Pair, policy: str
) -> None:
    """Neither at once, nor by a time since when the topic is said to be missing."""
    topic = pair.topic("orders", named("first", 10))
    flow = pair.flow([topic], on_source_topic_deleted=policy)
    assert not failures(copy_now(flow))
    target = ClusterControl(flow.target)
    copy = remote(flow, topic)
    id_ = target.topic_ids([copy])[copy]

    said = []
    for name, at in (("run-2", 1), ("run-3", 2**42)):
        this = Run(flow, name)
        planned = this.plan()
        gone = Retirement(f"{topic}-gone", copy, id_, since=1, due=1)
        forged = replace(planned, at=at, topics=replace(planned.topics, retirements=(gone,)))
        save_plan(flow_state(flow).folder(f"runs/{name}"), forged)
        said += this.sync_topics().remarks.unapplied

    assert [f"{copy}: not deleted" in it for it in said] == [True, True]
    assert target.topic_ids([copy]) == {copy: id_}


def test_a_file_that_names_who_has_approved_says_nothing_where_nobody_is_asked(pair: Pair) -> None:
    topic = pair.topic("orders")
    flow = pair.flow([topic])
    rules = [f"topic {topic}: {pair.unique('reader')}-{number} ALLOW READ" for number in range(6)]
    allow(pair.primary, *rules)
    plan_now(flow)
    forget(pair.primary, *rules)
    this = Run(flow, "run-2")
    planned = this.plan()
    flow_state(flow).folder("runs/run-2").write("approved-by.txt", f"{planned.digest}\nAda")

    (sentence,) = this.sync_topics(planned.digest).remarks.unapplied

    assert "6 ACLs of the 6" in sentence
