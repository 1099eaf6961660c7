"""Flows with a past: the files that a year of runs would leave, for what shows them."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow, load_flow
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.ledger import (
    BackfillEntry,
    CopiedRange,
    CopyingEntry,
    TransactionEntry,
    VerificationEntry,
)
from kafka_ferry.ledger.rows import SCHEMA, rows_of
from kafka_ferry.ledger.table_files import TableFiles
from kafka_ferry.model import OffsetsChoice, Plan, RunOptions, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.results.steps import StepPart, StepRecord
from kafka_ferry.report import RunReport, render
from kafka_ferry.report.measures import Measures, PartitionMeasures
from kafka_ferry.report.run_report import RuleCounts
from kafka_ferry.report.summary import summarise
from kafka_ferry.runs.run import STEPS
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.history import HISTORY, parse_history
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.verify import PartitionRow, Verdict
from kafka_ferry.verify.rows import Coverage
from kafka_ferry.verify.verdict import ExpectationResult
from tests.support.airflow.dags import have_read
from tests.support.runs.reports import a_report, changed

HOUR_MS = 3_600_000
RULE = RuleCounts(
    1,
    9_000,
    8_990,
    0,
    changes=True,
    by_name={"set:value.email": 8_990, "set:value.emial": 0, "read:value.emial": 0},
)
CHECK = ExpectationResult("no offset was copied twice", "partitions", True, "critical")
FINDING = ExpectationResult(
    "nothing lies between our records that the ledger does not have",
    "ranges",
    success=False,
    severity="critical",
    unexpected=("customers-2 [100, 200): 1 record of another producer",),
    advice="Find the other producer.",
)
NAMES = (
    ("orders", 24), ("payments", 12), ("customers", 6), ("shipments", 12), ("clicks", 48),
    ("inventory", 6), ("prices", 3), ("carts", 24), ("invoices", 6), ("returns", 6),
    ("sessions", 24), ("search-queries", 12),
)  # fmt: skip


@dataclass(frozen=True)
class Past:
    """How a flow did.

    Attributes:
        topics: names and numbers of partitions.
        runs: hourly runs in its history.
        reports: the newest of them that have a report.
        failed: runs before the last one, 0 for itself, in which partitions failed.
        broken: how many partitions failed in these.
        lost: the same, in which records were lost.
        drifts: what another client has changed on the target by now.
        strangers: whether the last run has found a record of another client.
        seed: of all that is random.
    """

    topics: Sequence[tuple[str, int]] = NAMES
    runs: int = 240
    reports: int = 3
    failed: Sequence[int] = ()
    broken: int = 1
    lost: Sequence[int] = ()
    drifts: Sequence[str] = ()
    strangers: bool = False
    seed: int = 7


def write_past(flow: Flow, past: Past, *, now: int | None = None) -> list[str]:
    """Write the state folder of a flow that ran for some time; the ids of its runs, the newest first."""
    state = flow_state(flow)
    runs = state.folder("runs")
    chance = random.Random(past.seed)
    end = (now or now_ms()) // HOUR_MS * HOUR_MS
    lines, names = [], []
    for ago in reversed(range(past.runs)):
        at = end - ago * HOUR_MS
        report = report_of(flow, past, ago, at, chance, whole=ago < past.reports)
        summary = summarise(report)
        if not report.measures or ago >= past.reports:
            partitions = sum(count for _, count in past.topics)
            summary = changed(summary, topics=len(past.topics), partitions=partitions)
        lines.append(summary.to_json().replace("\n", ""))
        names.insert(0, report.run)
        if ago < past.reports:
            folder = RunFolder(runs, report.run)
            folder.save_plan(Plan(flow.name, report.run, at, "source-id", "target-id"))
            for step in STEPS:
                seconds = report.times.seconds.get(step, 0.2)
                folder.files.write(
                    f"step-{step}.json", StepRecord(StepPart(step), seconds).to_json()
                )
            if moves := report.groups:
                folder.save_groups(moves)
            folder.files.write("report.json", report.to_json())
            folder.files.write("report.html", render(report))
    runs.write(HISTORY, "\n".join(lines) + "\n")
    assert len(parse_history(runs.read(HISTORY) or b"")) == past.runs
    _write_ledger(flow, past, names, end)
    return names


def run_id(at: int) -> str:
    """As Airflow names a scheduled run."""
    return f"scheduled__{datetime.fromtimestamp(at / 1000, UTC).isoformat()}"


def report_of(
    flow: Flow, past: Past, ago: int, at: int, chance: random.Random, *, whole: bool
) -> RunReport:
    """The report of the run that ended ``ago`` hours before the last one."""
    busy = 1 + 0.6 * math.sin((at / HOUR_MS % 24 - 8) / 24 * 2 * math.pi)
    records = int(sum(count for _, count in past.topics) * 9_000 * busy * chance.uniform(0.9, 1.1))
    copying = records / chance.uniform(380_000, 460_000) + 2
    is_failed, is_lost = ago in past.failed, ago in past.lost
    is_strange = past.strangers and ago == 0
    behind = int(records * (0.4 if is_failed else 0.004) * chance.random())
    measures = Measures(
        copying_seconds=round(copying, 2),
        verified_until=at - (HOUR_MS if is_failed else 20_000),
        partitions=tuple(_measures(past, at, chance, is_failed)) if whole else (
            PartitionMeasures("x", 0, "x", records_behind=behind, seconds_behind=behind / 900),
        ),
    )  # fmt: skip
    broken = past.topics[0][0]
    failures = tuple(
        Failure(
            TopicPartition(broken, number),
            TopicPartition(f"{flow.source.alias}.{broken}", number),
            4_120_221,
            "the record is too large for the target (MESSAGE_TOO_LARGE, 2,097,180 bytes).",
            transient=False,
        )
        for number in range(3, 3 + past.broken)
    )
    return a_report(
        flow.name,
        run_id(at),
        planned_at=at - int(copying * 1000) - 16_000,
        finished_at=at,
        seconds={"plan": 1.2, "sync_topics": 0.4, "mirror": copying + 6, "verify": 7.1},
        records=records,
        bytes=records * 212,
        batches=records // 480,
        reasons={"control": records // 900, "aborted": 211} | ({"lost": 1_204} if is_lost else {}),
        rebuilt={"range edge inside the batch": 61, "joined small batches": 12},
        failures=failures if is_failed else (),
        losses=(
            f"{broken}-7 [88, 1292): 1,204 offsets were deleted on the source before they were copied.",
        )
        if is_lost
        else (),
        drifts=tuple(past.drifts) if ago == 0 else (),
        notes=(
            "clicks: its retention.ms on the source is 2 h; the flow runs every hour.",
            *RULE.doubts,
        ),
        rules=(RULE,),
        choices=tuple(
            OffsetsChoice(name, f"{flow.source.alias}.{name}", name == "payments", "as asked")
            for name, _ in past.topics
        ),
        partitions=tuple(_rows_of(past)) if whole else (),
        verdict=Verdict(
            not is_strange,
            (CHECK, FINDING) if is_strange else (CHECK,),
            failures=FINDING.sentences if is_strange else (),
            ranges=40,
            records=records,
            docs=Path("index.html"),
        ),
        groups=_groups(past, at) if whole else None,
        measures=measures,
    )


def _measures(past: Past, at: int, chance: random.Random, failed: bool) -> list[PartitionMeasures]:
    rows = []
    for number, (topic, count) in enumerate(past.topics):
        for partition in range(count):
            total = int(2_000_000 * chance.lognormvariate(0, 0.6))
            broken = failed and number == 0 and partition == 3
            quiet = chance.random() < 0.6
            behind = 45_121 if broken else 0 if quiet else int(chance.expovariate(1 / 90))
            rows.append(
                PartitionMeasures(
                    topic,
                    partition,
                    f"primary.{topic}",
                    total_records=total,
                    total_bytes=total * 214,
                    total_reasons={"control": total // 900}
                    | ({"lost": 1_204} if past.lost and number == 0 and partition == 7 else {}),
                    records=int(9_000 * chance.random()),
                    records_behind=behind,
                    seconds_behind=4_010.0 if broken else min(behind / 40, 30.0),
                    verified_until=at - (HOUR_MS if broken else 20_000),
                )
            )
    return rows


def _rows_of(past: Past) -> list[PartitionRow]:
    return [
        PartitionRow(topic, partition, f"primary.{topic}", 0, 0, Coverage(0, 4_120_221 + partition), 0)
        for topic, count in past.topics
        for partition in range(count)
    ]  # fmt: skip


def _groups(past: Past, at: int) -> GroupMoves:
    names = ("billing", "warehouse", "fraud-detection", "search-indexer", "loyalty")
    moves = []
    for number, name in enumerate(names):
        topic, count = past.topics[number % len(past.topics)]
        held = name == "fraud-detection"
        parts = tuple(
            PartitionMove(
                TopicPartition(topic, partition),
                Committed(4_119_800 + 31 * partition),
                4_120_221 + partition,
                TopicPartition(f"primary.{topic}", partition),
                None if held else 4_098_112 + 31 * partition,
                None if held else "exact",
                action="held" if held else "written",
                reason="it is in use on backup (state Stable)." if held else "",
            )
            for partition in range(count)
        )
        moves.append(GroupMove(Group(name, "classic", "Stable", "consumer"), parts, at=at))
    return GroupMoves(at, tuple(moves))


def _write_ledger(flow: Flow, past: Past, runs: Sequence[str], at: int) -> None:
    """The ledger's table: all partitions for the newest run, and one of them for some before it."""
    rows: list[dict[str, object]] = []
    offset, run = 0, runs[0]
    for number in range(min(60, len(runs) - 1), 0, -1):
        entry = _earlier_entry(flow, past, runs[number], at - number * HOUR_MS, number)
        rows.extend(rows_of(offset, entry))
        offset += 1
    for topic, count in past.topics:
        for partition in range(count):
            copied = CopiedRange(
                topic=topic, topic_id="t", partition=partition, remote_topic=f"primary.{topic}",
                remote_topic_id="r", start=4_111_221, end=4_120_221, records=8_988, bytes=1_905_456,
                batches=19, reasons={"control": 10, "aborted": 2}, rebuilt={}, digest="d",
            )  # fmt: skip
            entry = TransactionEntry(
                flow=flow.name, run=run, at=at, writer=partition % 32, ranges=(copied,)
            )
            rows.extend(rows_of(offset, entry))
            offset += 1
    rows.extend(
        rows_of(
            offset,
            VerificationEntry(
                flow=flow.name, run=run, at=at, through=offset, ranges=offset, records=1
            ),
        )
    )
    table = TableFiles(flow_state(flow).folder("ledger"))
    table.write(pa.Table.from_pylist(rows, SCHEMA), 0, offset + 1)


def _earlier_entry(flow: Flow, past: Past, run: str, at: int, number: int) -> CopyingEntry:
    """One transaction of an earlier run; some have a loss, a truncated log, or are of a backfill."""
    reasons = {"control": 40 + number % 7, "aborted": 3 * (number % 5)}
    if number == 20:
        reasons["lost"] = 900
    count = 7_000 + 400 * (number % 9)
    end = 4_111_221 - 12_000 * (number - 1)
    copied = CopiedRange(
        topic=past.topics[0][0], topic_id="t", partition=0, remote_topic=f"primary.{past.topics[0][0]}",
        remote_topic_id="r", start=end - count, end=end, records=count - sum(reasons.values()),
        bytes=count * 200, batches=19, reasons=reasons, rebuilt={}, digest="d",
        rewound_from=end - count + 350 if number == 33 else -1,
    )  # fmt: skip
    known = {"flow": flow.name, "run": run, "at": at, "writer": 0, "ranges": (copied,)}
    if number == 45:
        return BackfillEntry(**known, since=at - HOUR_MS, until=at)
    return TransactionEntry(**known)


def write_partial_run(flow: Flow, at: int, topics: tuple[str, ...]) -> str:
    """A run for some topics only, after those of ``write_past``; its id."""
    past = Past(topics=tuple((name, 2) for name in topics))
    report = replace(
        report_of(flow, past, 0, at, random.Random(1), whole=True), run=f"manual__{at}"
    )
    runs = flow_state(flow).folder("runs")
    folder = RunFolder(runs, report.run)
    folder.files.write("report.json", report.to_json())
    folder.remember(summarise(report, RunOptions(topics=topics)))
    return report.run


def big_topics(partitions: int) -> tuple[tuple[str, int], ...]:
    """Topics with that many partitions together, 25 each."""
    return tuple((f"events-{number:04d}", 25) for number in range(partitions // 25))


def add_shown_flow(
    configs: Path, folder: Path, past: Past, *, source: str
) -> tuple[str, list[str]]:
    """Gives Airflow a flow with a past, and clusters that cannot be reached; its slug and its runs' ids.

    Args:
        configs: where Airflow looks for flow files.
        folder: where the flow keeps its state.
        past: how it did.
        source: the source's alias.
    """
    content = {
        "source": {"alias": source, "bootstrap.servers": "127.0.0.1:1"},
        "target": {"alias": "backup", "bootstrap.servers": "127.0.0.1:2"},
        "state.dir": str(folder),
    }
    file = folder / f"{source}.yaml"
    file.write_text(json.dumps(content))
    flow = load_flow(file)
    runs = write_past(flow, past)
    flow_state(flow).folder("data_docs").write("index.html", "<h1>Data Docs</h1>")
    # Airflow must not see half a file.
    file.rename(configs / file.name)
    have_read()
    return flow.slug, runs
