from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafka_ferry.ledger import LedgerError, LedgerTable, table_files
from kafka_ferry.ledger.queries.run_starts import last_run
from kafka_ferry.ledger.record import Entry
from kafka_ferry.ledger.rows import SCHEMA
from kafka_ferry.state import StateFolder

from .entries import (
    FLOW,
    NOW,
    a_copied_range,
    a_run,
    a_transaction,
    a_verification,
)
from .projected import (
    LEDGER,
    OTHER,
    TARGET,
    TOPIC,
    Topic,
    a_table,
    in_steps,
    project,
    projected_table,
)


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_an_entry_or_a_copied_range_is_a_row(table: LedgerTable, ledger: Topic) -> None:
    assert project(table, ledger, [*LEDGER[:2], (8, a_verification(7))]) == 9
    run, orders, payments, verification = table.read().to_pylist()
    nothing = dict.fromkeys(SCHEMA.names)
    common = nothing | {"flow": FLOW, "run": "run-1", "at": NOW}
    told = {"writers": 4, "assignment": "", "file": "", "topics": "", "isolation_level": ""}
    assert run == common | {"ledger_offset": 0, "type": "run"} | told
    assert orders == common | {
        "ledger_offset": 2,
        "type": "transaction",
        "writer": 2,
        "topic": "orders",
        "topic_id": "id of orders",
        "partition": 0,
        "remote_topic": "primary.orders",
        "remote_topic_id": "id of primary.orders",
        "start": 0,
        "end": 10,
        "records": 10,
        "bytes": 1000,
        "batches": 1,
        "reasons": [("aborted", 2)],
        "rebuilt": [("offset gaps", 1)],
        "segments": [{"source": 0, "target": 1000, "records": 10}],
        "digest": "0-10",
        "lost": [{"start": 3, "end": 7}],
        "leader_epoch": 5,
        "epochs": [],
        "rewound_from": -1,
        "preserved": False,
        "adopted": 0,
        "origins": [],
        "begin": "",
        "transform": "",
        "schema_ids": "",
        "target_end": 1010,
        "compared": [],
        "remote_epoch": -1,
        "letters": [],
        "rule_counts": [],
        "last_crc": -1,
    }
    assert (payments["ledger_offset"], payments["topic"], payments["partition"]) == (
        2,
        "payments",
        3,
    )
    assert verification == common | {
        "ledger_offset": 8,
        "type": "verification",
        "through": 7,
        "records": 30,
        "again": [],
        "failed": [],
        "accepted": [],
        "gone": [],
    }


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("rows_at_once", [1, 2, 20_000])
@pytest.mark.parametrize("merge_at", [2, 3, 64])
def test_a_table_made_in_steps_is_the_one_made_at_once(
    table: LedgerTable,
    ledger: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    rows_at_once: int,
    merge_at: int,
) -> None:
    whole = a_table(tmp_path / "whole")
    assert project(whole, ledger, LEDGER) == 17
    monkeypatch.setattr("kafka_ferry.ledger.projection._ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", merge_at)
    assert in_steps(table, ledger, size) == 17
    assert table.read() == whole.read()
    assert table.read().schema == SCHEMA


def test_each_step_reads_what_is_new_and_the_newest_entry_again(
    table: LedgerTable, ledger: Topic
) -> None:
    in_steps(table, ledger, 3)
    assert ledger.starts == [0, 4, 10]
    assert table.next_offset == 17


def test_where_nothing_is_new_nothing_is_written(
    table: LedgerTable, ledger: Topic, tmp_path: Path
) -> None:
    project(table, ledger, LEDGER)
    before = files(tmp_path)
    assert project(table, ledger, LEDGER) == 17
    assert files(tmp_path) == before


def test_a_files_name_says_which_ledger_offsets_it_holds(
    table: LedgerTable, ledger: Topic, tmp_path: Path
) -> None:
    in_steps(table, ledger, 5)
    assert files(tmp_path) == [
        "00000000000000000000-00000000000000000009.parquet",
        "00000000000000000009-00000000000000000017.parquet",
    ]


def test_files_are_merged_when_there_are_many(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 4)
    for count, expected in [(1, 1), (2, 2), (3, 3), (4, 1), (5, 2), (6, 3), (7, 1)]:
        project(table, ledger, LEDGER[:count])
        assert len(files(tmp_path)) == expected


def test_a_table_that_was_deleted_is_recreated(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "_SMALL_BYTES", 0)
    in_steps(table, ledger, 2)
    before = table.read()
    for name in files(tmp_path):
        (tmp_path / name).unlink()
    with pytest.raises(LedgerError, match="was deleted while it was read") as raised:
        table.read()
    assert raised.value.transient
    assert project(table, ledger, LEDGER) == 17
    assert table.read() == before


def test_what_two_runs_projected_at_once_is_there_once(
    table: LedgerTable, ledger: Topic, tmp_path: Path
) -> None:
    """Each went on where it had found the table's end, whatever the other was writing."""
    for begin, end in [(0, 5), (5, 9), (5, 13), (9, 17)]:
        own = tmp_path / f"{begin}-{end}"
        run = a_table(own)
        for until in (begin, end):
            project(run, ledger, [entry for entry in LEDGER if entry[0] < until])
        newest = files(own)[-1]
        (tmp_path / newest).write_bytes((own / newest).read_bytes())
    once = projected_table(tmp_path / "once", ledger, LEDGER)

    assert table.next_offset == 17
    assert table.read() == once.read()


def test_a_file_that_is_missing_among_others_is_recreated(
    table: LedgerTable, ledger: Topic, tmp_path: Path
) -> None:
    in_steps(table, ledger, 2)
    before = table.read()
    (tmp_path / files(tmp_path)[1]).unlink()

    assert project(table, ledger, LEDGER) == 17
    assert table.read() == before


def another_run_projects(table: LedgerTable, folder: Path, ledger: Topic) -> Callable[[], None]:
    """Has another process project the whole ledger after the table's next read."""
    read = table._files.read

    def read_and_project(*arguments: Any) -> pa.Table:
        found = read(*arguments)
        table._files.read = read  # type: ignore[method-assign]
        projected_table(folder, ledger, LEDGER)
        return found

    def begin() -> None:
        table._files.read = read_and_project  # type: ignore[method-assign]

    return begin


@pytest.mark.parametrize("begun", [0, 3])
def test_a_run_that_projects_while_another_one_does_leaves_nothing_out(
    table: LedgerTable, ledger: Topic, tmp_path: Path, begun: int
) -> None:
    """As after the table was deleted while both were active."""
    if begun:
        projected_table(tmp_path, ledger, LEDGER[:begun])
    another_run_projects(table, tmp_path, ledger)()

    assert project(table, ledger, LEDGER) == 17

    once = projected_table(tmp_path / "once", ledger, LEDGER)
    assert a_table(tmp_path).read() == once.read()


def test_what_another_run_projects_while_files_are_merged_is_not_left_out(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in (1, 2, 3):
        project(table, ledger, LEDGER[:count])
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 3)
    another_run_projects(table, tmp_path, ledger)()

    table._merge()

    monkeypatch.undo()
    once = a_table(tmp_path / "once")
    monkeypatch.setattr("kafka_ferry.ledger.projection.read_ledger", ledger.read_ledger)
    project(once, ledger, LEDGER)
    assert project(table, ledger, LEDGER) == 17
    assert table.read() == once.read()


class Killed(Exception):
    """The process ends here."""


def dies_before_the_last_delete(keep: int) -> Callable[[StateFolder, Iterable[str]], None]:
    delete = StateFolder.delete

    def deletes_some(self: StateFolder, names: Iterable[str]) -> None:
        delete(self, islice(names, keep))
        raise Killed

    return deletes_some


@pytest.mark.parametrize("deleted", [0, 1, 3])
def test_an_interrupted_merge_leaves_nothing_out_and_nothing_twice(
    table: LedgerTable,
    ledger: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deleted: int,
) -> None:
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 4)
    with monkeypatch.context() as patch:
        patch.setattr(StateFolder, "delete", dies_before_the_last_delete(deleted))
        with pytest.raises(Killed):
            in_steps(table, ledger, 1)
    # The merged file stands beside those that it replaces.
    assert len(files(tmp_path)) == 1 + 4 - deleted
    assert table.next_offset == 7
    merged = table.read()["ledger_offset"].to_pylist()
    assert merged == [0, 2, 2, 6]
    for count in range(5, 10):
        project(table, ledger, LEDGER[:count])
    assert table.read()["ledger_offset"].to_pylist() == [*merged, 8, 12, 16]


def test_a_merge_that_never_wrote_its_file_changes_nothing(
    table: LedgerTable, ledger: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Killed

    in_steps(table, ledger, 3)
    before = table.read()
    with monkeypatch.context() as patch:
        patch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 2)
        patch.setattr(StateFolder, "write", dies)
        with pytest.raises(Killed):
            table.project(TARGET, TOPIC)
    assert table.read() == before


def test_other_flows_entries_are_left_out_and_passed_over(
    table: LedgerTable, ledger: Topic
) -> None:
    others = [entry for entry in LEDGER if entry[1].flow == OTHER]
    assert project(table, ledger, others) == 15
    assert (table.next_offset, table.read().num_rows) == (15, 0)
    assert (table.positions(), last_run(table), table.verified_through()) == ({}, None, 0)


def test_a_ledger_that_is_recreated_is_read_from_its_start(
    table: LedgerTable, ledger: Topic
) -> None:
    """The plan itself advises to delete the ledger's topic, to copy everything again."""
    project(table, ledger, LEDGER)
    recreated = [(0, a_run("run-3")), (2, a_transaction(a_copied_range(0, 4), run="run-3"))]
    assert project(table, ledger, recreated) == 3
    assert [row["run"] for row in table.read().to_pylist()] == ["run-3", "run-3"]


def verified(*, run: str = "run-1", through: int = 10) -> Entry:
    return a_verification(through).model_copy(update={"run": run})


def longer(entries: list[tuple[int, Entry]]) -> list[tuple[int, Entry]]:
    return [*entries, *((offset + 1_000, a_run("run-9")) for offset, _ in entries)]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("table_has", "topic_has"),
    [
        # A state folder of another ledger, which is longer by now.
        ([(0, a_run()), (2, verified(through=1))], [(0, a_run("other")), (2, a_run("other"))]),
        # Forged, or of an older state: more was verified, or less.
        ([(0, a_run()), (12, verified(through=11))], [(0, a_run()), (12, verified(through=2))]),
        ([(0, a_run()), (12, verified(through=1))], [(0, a_run()), (12, verified(through=11))]),
        (
            [(0, a_run()), (12, verified()), (14, a_run("run-2"))],
            [(0, a_run()), (14, a_run("run-2"))],
        ),
        # The ledger's log was truncated (an unclean leader election).
        ([(0, a_run()), (12, verified()), (14, a_run("run-2"))], [(0, a_run()), (12, verified())]),
    ],
)
def test_a_table_that_says_what_the_topic_does_not_is_recreated(
    ledger: Topic,
    tmp_path: Path,
    table_has: list[tuple[int, Entry]],
    topic_has: list[tuple[int, Entry]],
    far: bool,
) -> None:
    if far:
        table_has, topic_has = longer(table_has), longer(topic_has)
    projected_table(tmp_path, ledger, table_has)
    once = projected_table(tmp_path / "once", ledger, topic_has)

    later = projected_table(tmp_path, ledger, topic_has)

    assert later.read() == once.read()


@pytest.mark.parametrize("is_same_process", [True, False])
def test_a_table_that_is_relied_on_is_not_made_anew_by_a_ledger_that_lost_entries(
    ledger: Topic, tmp_path: Path, is_same_process: bool
) -> None:
    table = projected_table(tmp_path, ledger, [(0, a_run()), (2, a_run("run-2"))])
    before = files(tmp_path)
    ledger.entries = [(0, a_run()), (2, a_run("run-3")), (4, a_run("run-4"))]
    step = table if is_same_process else a_table(tmp_path)
    for _ in range(2):
        with pytest.raises(LedgerError, match="no longer has all that this run has read of it"):
            step.project(TARGET, TOPIC, is_relied_on=lambda: True)
    assert files(tmp_path) == before
    assert step.project(TARGET, TOPIC, is_relied_on=lambda: False) == 5
    assert [row["run"] for row in step.read().to_pylist()] == ["run-1", "run-3", "run-4"]


def test_a_table_is_compared_once_and_by_what_lies_near_its_end(
    ledger: Topic, tmp_path: Path
) -> None:
    entries = [(0, a_run()), (2, verified(through=1)), (900, a_run("run-2"))]
    folder = StateFolder(str(tmp_path))
    project(LedgerTable(folder, FLOW), ledger, entries)
    ledger.starts.clear()
    later = LedgerTable(folder, FLOW)
    project(later, ledger, entries)
    project(later, ledger, [*entries, (902, a_run("run-3"))])
    assert ledger.starts == [2, 900, 900]


@pytest.mark.parametrize("columns", [None, ["topic", "end"]])
def test_an_empty_table_has_its_columns(table: LedgerTable, columns: list[str] | None) -> None:
    assert table.read(columns=columns).schema.names == (columns or SCHEMA.names)
    assert table.read(columns=columns).num_rows == 0


@pytest.mark.parametrize(
    ("filter_", "offsets"),
    [
        (pc.field("type") == "run", [0, 12]),
        (pc.field("ledger_offset") >= 6, [6, 8, 12, 16]),
        (pc.field("topic") == "payments", [2]),
        (pc.field("topic") == "none", []),
    ],
)
def test_rows_are_read_by_filter_and_column(
    table: LedgerTable, ledger: Topic, filter_: Any, offsets: list[int]
) -> None:
    in_steps(table, ledger, 2)
    rows: pa.Table = table.read(filter_, ["ledger_offset", "run"])
    assert rows.schema.names == ["ledger_offset", "run"]
    assert rows["ledger_offset"].to_pylist() == offsets


# What a power cut, or another client, leaves in its folder


def torn(content: bytes) -> dict[str, bytes]:
    """What may be left of a file that was never flushed to the disk."""
    half = len(content) // 2
    return {
        "empty": b"",
        "cut off": content[:half],
        "zeros": bytes(len(content)),
        "zeros in its pages": content[:4] + bytes(60) + content[64:],
        "without a column": _without_a_column(content),
    }


def _without_a_column(content: bytes) -> bytes:
    """What another program may have written."""
    sink = pa.BufferOutputStream()
    if content:
        pq.write_table(pq.read_table(pa.BufferReader(content)).drop_columns(["rewound_from"]), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("how", torn(b"").keys())
def test_what_cannot_be_read_is_projected_again(
    ledger: Topic, tmp_path: Path, how: str, number: int
) -> None:
    first = a_table(tmp_path)
    in_steps(first, ledger, 3)
    before = first.read()
    file = tmp_path / files(tmp_path)[number]
    file.write_bytes(torn(file.read_bytes())[how])
    table = a_table(tmp_path)

    assert project(table, ledger, LEDGER) == 17
    assert table.read() == before
    assert table.verified_through() == 7
    assert a_table(tmp_path).read() == before


def test_a_file_is_torn_while_files_are_merged(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_steps(table, ledger, 1)
    before = table.read()
    (tmp_path / files(tmp_path)[2]).write_bytes(b"")
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 2)

    assert project(table, ledger, LEDGER) == 17
    assert table.read() == before


def test_a_command_that_only_reads_says_what_to_do(
    table: LedgerTable, ledger: Topic, tmp_path: Path
) -> None:
    project(table, ledger, LEDGER)
    name = files(tmp_path)[0]
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(LedgerError, match="Run the flow: it recreates the table") as caught:
        a_table(tmp_path).read()
    assert caught.value.transient
    assert files(tmp_path) == [name]


def test_a_disk_that_fails_destroys_nothing(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(table, ledger, LEDGER)

    def fails(*_: object) -> None:
        raise OSError("Input/output error")

    before = files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(StateFolder, "open_parquet", fails)
        with pytest.raises(OSError, match="Input/output"):
            table.read()
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        "copy of the table.parquet",
        "0-99.parquet",
        "a-b-c.parquet",
        f"{0:020}-{17:020}.parquet.bak",
        "x.synced",
        "-1.synced",
        f"{0:020}-{17:020}.parquet.0123.part",
    ],
)
def test_a_stray_file_does_not_matter(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_bytes(b"anything")
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 2)

    in_steps(table, ledger, 1)

    assert table.read()["ledger_offset"].to_pylist() == [0, 2, 2, 6, 8, 12, 16]
    assert table.synced_groups() == {}
    assert (tmp_path / name).read_bytes() == b"anything"


def test_a_merge_that_finds_nothing_new_keeps_its_file(
    table: LedgerTable, ledger: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a merge that was interrupted, when nothing is written to the ledger until the next run."""
    in_steps(table, ledger, 3)
    before = table.read()
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 1)

    for _ in range(2):
        assert project(table, ledger, LEDGER) == 17
        assert table.read() == before
