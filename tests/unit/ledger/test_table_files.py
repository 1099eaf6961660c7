"""The files of a projected ledger, as those who ask it many questions read them."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafka_ferry.ledger.rows import SCHEMA
from kafka_ferry.ledger.table_files import TableFiles
from kafka_ferry.state import StateFolder


def rows(first: int, end: int, run: str = "r1") -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"ledger_offset": at, "flow": "eu", "type": "run", "run": run, "at": 1}
            for at in range(first, end)
        ],
        SCHEMA,
    )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened."""
    counted: Counter[str] = Counter()
    open_parquet = StateFolder.open_parquet

    def count(self: StateFolder, name: str) -> pa.NativeFile:
        counted[name] += 1
        return open_parquet(self, name)

    monkeypatch.setattr(StateFolder, "open_parquet", count)
    return counted


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(StateFolder(str(tmp_path)))


def runs_of(files: TableFiles, filter_: pc.Expression | None = None) -> list[str]:
    found: list[str] = files.read(files.parts(), filter_, ["run"])["run"].to_pylist()
    return found


def test_a_small_file_is_opened_once_however_many_questions_there_are(
    files: TableFiles, opened: Counter[str]
) -> None:
    names = [files.write(rows(0, 2), 0, 2), files.write(rows(2, 3, "r2"), 2, 3)]

    assert runs_of(files) == ["r1", "r1", "r2"]
    assert runs_of(files, pc.field("run") == "r2") == ["r2"]
    assert runs_of(files, pc.field("ledger_offset") >= 1) == ["r1", "r2"]

    assert opened == dict.fromkeys(names, 1)


@pytest.mark.parametrize("are_lists", [False, True])
def test_a_file_that_spreads_to_many_times_its_size_is_damaged(
    files: TableFiles, tmp_path: Path, are_lists: bool
) -> None:
    """A value that is repeated takes next to no bytes; so does a list of one that is."""
    many = rows(0, 1).take([0] * 200_000)
    if are_lists:
        at = next(n for n, field in enumerate(SCHEMA) if pa.types.is_list(field.type))
        values = pa.nulls(2_000_000, SCHEMA.field(at).type.value_type)
        column = pa.ListArray.from_arrays(pa.array([0, 2_000_000], pa.int32()), values)
        many = rows(0, 1).set_column(at, SCHEMA.field(at), column.cast(SCHEMA.field(at).type))
    name = files.write(many, 0, 1)
    assert (tmp_path / name).stat().st_size < 120_000

    with pytest.raises(pa.ArrowInvalid, match="which no run has written"):
        files.read(files.parts())

    assert files.damaged_files(files.parts()) == [name]


@pytest.mark.parametrize("by", ["dictionary", "page"])
def test_a_file_whose_texts_spread_is_damaged(files: TableFiles, tmp_path: Path, by: str) -> None:
    """One text of a megabyte in a dictionary, to which each row refers; or equal ones, compressed."""
    at = SCHEMA.get_field_index("digest")
    texts = pa.array(["x" * 1_000_000]).take(pa.array([0] * 300))
    many = rows(0, 1).take([0] * 300).set_column(at, SCHEMA.field(at), texts)
    name = f"{0:020d}-{1:020d}.parquet"
    is_by_dictionary = by == "dictionary"
    pq.write_table(many, tmp_path / name, compression="zstd", use_dictionary=is_by_dictionary)
    assert (tmp_path / name).stat().st_size < 200_000

    with pytest.raises(pa.ArrowInvalid, match=r"which no run has written|this release does not"):
        files.read(files.parts())


def test_what_another_run_wrote_under_the_same_name_is_read(
    files: TableFiles, tmp_path: Path, opened: Counter[str]
) -> None:
    name = files.write(rows(0, 2), 0, 2)
    runs_of(files)

    TableFiles(StateFolder(str(tmp_path))).write(rows(0, 2, "another"), 0, 2)

    assert runs_of(files) == ["another", "another"]
    assert opened[name] == 2


def test_a_large_file_is_not_kept_and_its_rows_stay_in_order(
    files: TableFiles, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = files.write(rows(0, 1, "a"), 0, 1)
    large = files.write(rows(1, 2_000, "b"), 1, 2_000)
    files.write(rows(2_000, 2_001, "c"), 2_000, 2_001)
    monkeypatch.setattr(
        "kafka_ferry.ledger.table_files._SMALL_BYTES",
        files.parts()[0].size,
    )

    for least in (-1, 0):
        of_all = pc.field("ledger_offset") >= least
        assert list(dict.fromkeys(runs_of(files, of_all))) == ["a", "b", "c"]

    assert (opened[small], opened[large]) == (1, 2)


def test_of_files_that_overlap_each_offset_is_read_once_also_from_memory(
    files: TableFiles,
) -> None:
    files.write(rows(0, 2, "first"), 0, 2)
    files.write(rows(1, 4, "second"), 1, 4)

    for _ in range(2):
        assert runs_of(files) == ["first", "first", "second", "second"]

    # A merge that wrote its file and did not yet delete what it replaces.
    files.write(rows(0, 4, "merged"), 0, 4)
    assert runs_of(files) == ["merged"] * 4


def test_a_question_that_is_asked_again_is_answered_from_memory_while_the_files_are_the_same(
    files: TableFiles,
) -> None:
    files.write(rows(0, 2), 0, 2)

    def ask(run: str, columns: list[str]) -> pa.Table:
        return files.read(files.parts(), pc.field("run") == run, columns)

    answer = ask("r1", ["run"])
    assert ask("r1", ["run"]) is answer
    assert ask("r2", ["run"]).num_rows == 0
    assert ask("r1", ["type"]).column_names == ["type"]

    files.write(rows(2, 3), 2, 3)
    assert ask("r1", ["run"]).num_rows == 3
