"""The whole demo on this machine: ``python -m kafka_sandbox.demo``.

Two clusters, data that looks real, Airflow; the flow's DAG runs to its end through the scheduler,
more is written, and it runs again. You may repeat it: each time adds data and copies what is new.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from kafka_sandbox import airflow as sandbox
from kafka_sandbox import clusters
from kafka_sandbox.airflow import Airflow
from kafka_sandbox.airflow_api import AirflowApi, DagRunResult
from kafka_sandbox.cluster import start_all
from kafka_sandbox.demo import data as demo_data
from kafka_sandbox.demo import group as demo_group
from kafka_sandbox.demo.group import Unread
from kafka_sandbox.demo.offsets import Shown, shown
from kafka_sandbox.errors import SandboxError

FLOW_FILE = sandbox.PROJECT / "include" / "configs" / "primary_to_backup.yaml"
MIRRORMAKER1 = sandbox.PROJECT / "docs" / "examples" / "mirror-maker"
DAG_ID = "mirror_primary_to_backup"
PRESERVED = "payments"
"""The topic whose records keep their offsets."""
MORE = 5
"""The second round has a fifth of the first one's records."""

# A file is as wide as it needs to be: rich would wrap it at 80 columns.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)


@dataclass(frozen=True)
class Round:
    """One round: what was written, and the DAG run that copied it.

    Attributes:
        written: committed records.
        run: the DAG run.
        report: its ``report.json``.
        pages: the report page and the Data Docs, each None if it is not there.
    """

    written: int
    run: DagRunResult
    report: dict[str, Any]
    pages: tuple[Path | None, Path | None]

    @property
    def expectations(self) -> list[dict[str, Any]]:
        """What the verification checked."""
        return list((self.report["verdict"] or {"expectations": ()})["expectations"])

    @property
    def verified(self) -> bool:
        """Whether the run is proved complete."""
        return self.run.state == "success" and bool(self.report["verdict"]["success"])


def main(
    records: Annotated[int, typer.Option(help="To write first, aborted ones too.")] = 200_000,
    port: sandbox.Port = sandbox.PORT,
) -> None:
    """Mirrors data that looks real from one cluster to another, twice, through Airflow."""
    logging.basicConfig(format="%(message)s", handlers=[_log_handler()])
    logging.getLogger("kafka_sandbox").setLevel(logging.INFO)
    began = time.monotonic()
    try:
        airflow, rounds = _play(records, port)
        offsets = _compare_offsets()
        group = _compare_group()
    except SandboxError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    console.print(f"\nDone in {time.monotonic() - began:.0f} s.")
    _print_result(rounds)
    console.print(offsets)
    console.print(group)
    _print_places(airflow, rounds[-1])


def _play(records: int, port: int) -> tuple[Airflow, list[Round]]:
    os.environ["FERRY_HOME"] = str(sandbox.PROJECT)
    both = clusters.clusters()
    with _stage("Starting the clusters primary and backup"):
        start_all(cluster for cluster in both.values() if not cluster.is_up)
    # Before Airflow, whose scheduler may have a run that is due.
    source = both["primary"].bootstrap
    number = int(time.time())
    written = [_write(source, records, number)]
    airflow = Airflow(sandbox.HOME, port=port, daemon=True)
    with _stage(f"Starting Airflow, which writes to {airflow.log_file}"):
        airflow.start().wait_healthy()
    api = airflow.api
    with _stage(f"Waiting for the DAG {DAG_ID}"):
        api.load_settings(sandbox.SETTINGS)
        api.wait_for_dag(DAG_ID)
    rounds = [_mirror(api, written[0], "Mirroring all of it")]
    # A run of the timetable, where an hour ends just now, would copy a part of what comes.
    api.pause(DAG_ID)
    more = _write(source, records // MORE, number + 1)
    with _stage(
        f"Reading a part of {demo_group.TOPIC} on primary, as the group {demo_group.GROUP}"
    ):
        demo_group.read_some(source)
    return airflow, [*rounds, _mirror(api, more, "Mirroring what is new")]


def _write(bootstrap: str, records: int, number: int) -> int:
    with _stage(f"Writing {records:,} records to primary: orders, customers, payments"):
        summary = demo_data.fill(bootstrap, records=records, round_=number)
    return sum(topic.committed for topic in summary.topics.values())


def _mirror(api: AirflowApi, written: int, what: str) -> Round:
    with _stage(f"{what}: plan, sync_topics, mirror, verify, sync_groups, publish"):
        # The timetable itself may start a run, of the hour that has just ended.
        run_id = api.unpause_and_find_run(DAG_ID) or api.trigger(DAG_ID)
        run = api.wait(DAG_ID, run_id)
    if run.state != "success":
        states = ", ".join(f"{task} {state}" for task, state in run.tasks.items())
        raise SandboxError(
            f"The run {run_id} failed: {states}.\n{run.log}\n"
            "If you have tried other flows on the demo's clusters, delete them with `make clean`, and start again."
        )
    with _stage("Reading the run's report"):
        from kafka_ferry.config import load_flow  # noqa: PLC0415
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

        ferry_run = Run(load_flow(FLOW_FILE), run_id)
    page = ferry_run.report_path
    if page is None:
        raise SandboxError(f"The run {run_id} left no report.")
    report = json.loads(page.with_name("report.json").read_text())
    return Round(written, run, report, (page, ferry_run.data_docs_path))


def _compare_offsets() -> str:
    """Whether the target shows every consumer what the source shows of the topic, offset by offset."""
    source, target = (clusters.clusters()[name].bootstrap for name in ("primary", "backup"))
    copy = f"primary.{PRESERVED}"
    with _stage(f"Comparing {PRESERVED} with {copy}, offset by offset"):
        committed = shown(source, PRESERVED, "read_committed")
        views = [shown(target, copy, level) for level in ("read_committed", "read_uncommitted")]
    if any(view != committed for view in views):
        raise SandboxError(f"The offsets of {PRESERVED} are not those of {copy}.")
    return f"The offsets of {PRESERVED} are those of {copy}: {_summed_up(committed)}."


def _compare_group() -> str:
    """Whether a group would read on the target what it has not read on the source, and nothing else."""
    source, target = (clusters.clusters()[name].bootstrap for name in ("primary", "backup"))
    group, topic = demo_group.GROUP, demo_group.TOPIC
    copy = f"primary.{topic}"
    with _stage(f"Reading on as the group {group}, on both clusters"):
        here, there = demo_group.unread(source, topic), demo_group.unread(target, copy)
    for number, left in here.items():
        other = there[number]
        if (left.records, left.digest) != (other.records, other.digest):
            raise SandboxError(
                f"The group {group} would not read the same of {topic}-{number} on backup."
            )
    records = sum(left.records for left in here.values())
    return (
        f"The group {group} continues on backup where it stopped on primary: the {records:,} records of "
        f"{topic}\nthat it has not read, each once ({_translated(here, there)})."
    )


def _translated(here: Mapping[int, Unread], there: Mapping[int, Unread]) -> str:
    number = max(here)
    return f"offset {here[number].start:,} of partition {number} is {there[number].start:,} there"


def _summed_up(found: Mapping[int, Shown]) -> str:
    records = sum(part.records for part in found.values())
    gaps = sum(part.end - part.start for part in found.values()) - records
    ends = ", ".join(f"{part.end:,}" for part in found.values())
    return f"{records:,} records compared,\n{gaps:,} gaps (aborted records and markers), partitions that end at {ends}"


def _log_handler() -> logging.Handler:
    return RichHandler(console=console, show_time=False, show_level=False, show_path=False)


@contextmanager
def _stage(what: str) -> Iterator[None]:
    """Says what is waited for, while it lasts and with its time when it is over."""
    began = time.monotonic()
    if not console.is_terminal:
        # A log shows no line that is overwritten later.
        console.print(f"{what} ...")
    with console.status(f"{what} ..."):
        yield
    console.print(f"{time.monotonic() - began:6.1f} s  {what}")


def _print_result(rounds: list[Round]) -> None:
    table = Table("round", title="primary -> backup", title_justify="left")
    for heading in ("committed", "copied", "MB", "copying", "whole run"):
        table.add_column(heading, justify="right")
    table.add_column("proof")
    for number, round_ in enumerate(rounds, 1):
        held = sum(bool(expectation["success"]) for expectation in round_.expectations)
        checks = f"{held}/{len(round_.expectations)} checks"
        table.add_row(
            str(number),
            f"{round_.written:,}",
            f"{round_.report['records']:,}",
            f"{round_.report['bytes'] / 1e6:.1f}",
            f"{round_.report['seconds'].get('mirror', 0):.1f} s",
            f"{round_.run.seconds:.0f} s",
            f"[green]complete[/], {checks}" if round_.verified else f"[red]not proved[/], {checks}",
        )
    console.print(table)
    console.print("Committed and copied are records; MB are their batches, compressed as they are.")


def _print_places(airflow: Airflow, last: Round) -> None:
    page, docs = last.pages
    for what, where in (
        ("Report", page),
        ("Data Docs", docs),
        ("Mirrors", f"{airflow.url}/plugin/mirrors"),
        ("The DAG", f"{airflow.url}/dags/{DAG_ID}"),
        ("", f"log in as {sandbox.USER}, password {airflow.password}"),
        ("Try", f"ferry plan --config {FLOW_FILE.relative_to(sandbox.PROJECT)}"),
        ("", f"ferry mirror-maker {_mirrormaker1()}"),
        ("Stop all", "make demo-down"),
    ):
        console.print(f"{what:10} {where}", soft_wrap=True, markup=False)


def _mirrormaker1() -> str:
    """What MirrorMaker 1 between the two clusters would be told."""
    folder = MIRRORMAKER1.relative_to(sandbox.PROJECT)
    return (
        f"--consumer.config {folder}/consumer.properties "
        f"--producer.config {folder}/producer.properties --whitelist customers"
    )


if __name__ == "__main__":
    typer.run(main)
