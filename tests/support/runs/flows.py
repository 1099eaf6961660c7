"""Flows between the session's two brokers, copied without Spark, and compared by a consumer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy import Outcome, copy_for_flow
from kafka_ferry.copy.record_changes import RecordChanges
from kafka_ferry.ledger import CopiedRange, LedgerTable, ledger_topic
from kafka_ferry.model import Plan
from kafka_ferry.runs import Run
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.schemas.ids import stored_schemas
from kafka_ferry.state import StateFolder
from kafka_ferry.transform import load_functions
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.network.proxied import ProxyAddress
from tests.support.records.builders import ConsumedRecord, produce, read_all
from tests.support.records.histories import named


def write_flow(
    folder: Path,
    source: KafkaCluster | ProxyAddress,
    target: KafkaCluster | ProxyAddress,
    topics: Iterable[str],
    *,
    into: str = "backup",
    **options: object,
) -> Path:
    """Write a flow's file; the dots of an option's name are underscores here.

    The source's alias is the folder's name, so that no two tests share a group or a ledger. Where a
    flow goes back from the target, or writes topics on the source that are named after the target,
    its alias ``into`` must be no other test's either.
    """
    content = {
        "source": {"alias": folder.name, "bootstrap.servers": source.bootstrap},
        "target": {"alias": into, "bootstrap.servers": target.bootstrap},
        "topics": list(topics),
        "replication.factor": -1,
        "writers": 4,
        "state.dir": str(folder / "state"),
        # That topic has one name whichever flow writes it, and flows of other tests would copy it.
        "emit.heartbeats.enabled": False,
    }
    content |= {name.replace("_", "."): value for name, value in options.items()}
    folder.mkdir(exist_ok=True)
    file = folder / "flow.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(content, indent=1))
    return file


def make_flow(
    folder: Path,
    source: KafkaCluster,
    target: KafkaCluster,
    topics: Iterable[str],
    *,
    into: str = "backup",
    **options: object,
) -> Flow:
    """A flow read from a file that ``write_flow`` wrote."""
    return load_flow(write_flow(folder, source, target, topics, into=into, **options))


def remote(flow: Flow, topic: str) -> str:
    """The topic's name on the target, by the default policy."""
    return f"{flow.source.alias}.{topic}"


def plan_now(flow: Flow, run: str = "run-1") -> Plan:
    """Plan and create topics; whatever is refused is in the plan."""
    this = Run(flow, run)
    this.plan()
    return this.sync_topics()


def copy_planned(flow: Flow, plan: Plan) -> list[Outcome]:
    """Copy what a plan says in this process, one writer after the other."""
    outcomes: list[Outcome] = []
    schemas = stored_schemas(flow_state(flow)) if flow.sync_schemas == "translate-ids" else None
    ranges = sorted(plan.ranges, key=attrgetter("owner"))
    for _, group in groupby(ranges, key=attrgetter("owner")):
        outcomes += copy_for_flow(
            flow,
            plan.run,
            list(group),
            changes=RecordChanges(functions=load_functions(flow), schemas=schemas),
        )
    return outcomes


def copy_more(source: KafkaCluster, flow: Flow, run: str, *topics: str) -> None:
    """Write 20 records more to each topic, named after the run, and copy them."""
    for topic in topics:
        produce(source.bootstrap, topic, named(run, 20))
    assert not failures(copy_now(flow, run))


def copy_now(flow: Flow, run: str = "run-1") -> list[Outcome]:
    """Plan, create topics and copy in this process; nothing may be refused."""
    plan = plan_now(flow, run)
    assert not plan.remarks.refused, plan.remarks.refused
    return copy_planned(flow, plan)


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """What stopped ranges, as sentences."""
    return [str(outcome.failure) for outcome in outcomes if outcome.failure]


def ledger_of(flow: Flow) -> LedgerTable:
    """The flow's ledger table, projected to the ledger's end."""
    table = LedgerTable(StateFolder(flow.state_path).folder(f"{flow.slug}/ledger"), flow.name)
    table.project(flow.target, ledger_topic(flow.source.alias))
    return table


def ledger_rows(flow: Flow) -> list[dict[str, object]]:
    """Every copied range in the ledger, reasons and segments as plain objects; no empty ones."""
    rows = [row for row in ledger_of(flow).read().to_pylist() if row["type"] == "transaction"]
    rows = [row for row in rows if row["start"] < row["end"]]
    assert all(name in row for row in rows for name in CopiedRange.model_fields)
    return [
        row | {"reasons": dict(row["reasons"]), "rebuilt": dict(row["rebuilt"])} for row in rows
    ]


def content(
    partitions: Mapping[int, Sequence[ConsumedRecord]],
) -> dict[int, list[tuple[object, ...]]]:
    """All that must be the same on both sides: everything but offset and type of the timestamp."""
    return {
        number: [(r.key, r.value, r.headers, r.timestamp) for r in records]
        for number, records in partitions.items()
    }


def assert_same(source: KafkaCluster, topic: str, target: KafkaCluster, remote_topic: str) -> None:
    """The target shows a ``read_committed`` consumer exactly what the source shows it, in order."""
    want = content(read_all(source.bootstrap, topic))
    have = content(read_all(target.bootstrap, remote_topic))
    assert want.keys() == have.keys()
    for number, expected in want.items():
        for at, (left, right) in enumerate(zip(expected, have[number], strict=False)):
            assert left == right, f"{topic}-{number}: record {at} differs:\n{left}\n{right}"
        counts = f"{len(expected)} records on the source, {len(have[number])} on the target"
        assert len(expected) == len(have[number]), f"{topic}-{number}: {counts}"
