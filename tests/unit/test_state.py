import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_ferry.state import StateFolder


@pytest.fixture(params=["path", "uri"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path.as_uri() if request.param == "uri" else str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"x" * 1_000_000])
def test_a_file_is_read_as_it_was_written(folder: StateFolder, content: bytes) -> None:
    folder.write("plan.json", content)
    assert folder.read("plan.json") == content


def test_text_is_written_as_utf_8(folder: StateFolder) -> None:
    folder.write("plan.json", "täglich")
    assert folder.read("plan.json") == "täglich".encode()


@pytest.mark.parametrize("name", ["nothing", "no/such/folder"])
def test_a_file_that_is_not_there_reads_as_none(folder: StateFolder, name: str) -> None:
    assert folder.read(name) is None
    assert folder.folder("neither").read(name) is None


def test_a_file_is_replaced_whole(folder: StateFolder) -> None:
    folder.write("plan.json", b"a long content")
    folder.write("plan.json", b"short")
    assert folder.read("plan.json") == b"short"


def test_folders_are_made_where_a_file_needs_them(folder: StateFolder) -> None:
    folder.write("runs/run-1/plan.json", b"x")
    assert folder.folder("runs").folder("run-1").read("plan.json") == b"x"
    assert folder.folder("runs/run-1").read("plan.json") == b"x"


def test_nothing_is_made_only_by_naming_it(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path / "state")).folder("runs")
    assert (folder.names(), folder.read("x")) == ([], None)
    folder.delete(["x"])
    assert list(tmp_path.iterdir()) == []


def test_a_reader_never_sees_a_part_of_a_file(folder: StateFolder) -> None:
    contents = [bytes([digit]) * 300_000 for digit in b"01"]
    folder.write("table", contents[0])
    ended = threading.Event()

    def write_many() -> None:
        for number in range(40):
            folder.write("table", contents[number % 2])
        ended.set()

    writer = threading.Thread(target=write_many)
    writer.start()
    while not ended.is_set():
        assert folder.read("table") in contents
    writer.join()


def test_a_write_that_fails_leaves_the_old_content(folder: StateFolder) -> None:
    folder.write("plan.json", b"old")
    with pytest.raises(TypeError):
        folder.write("plan.json", None)  # type: ignore[arg-type]
    assert folder.read("plan.json") == b"old"
    assert folder.names(".json") == ["plan.json"]


def test_a_file_is_on_its_disk_before_it_has_its_name(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut leaves a name with nothing in it."""
    flushed: list[tuple[bytes, bool]] = []
    flush = os.fsync

    def fsync(opened: int) -> None:
        flush(opened)
        content = Path(f"/proc/self/fd/{opened}").read_bytes()
        flushed.append((content, "plan.json" in folder.names()))

    monkeypatch.setattr(os, "fsync", fsync)
    folder.write("plan.json", b"new")

    assert flushed == [(b"new", False)]
    assert folder.read("plan.json") == b"new"


def test_files_without_content_are_named(folder: StateFolder) -> None:
    for name, content in (("a", b""), ("b", b"x"), ("deep/er/c", b"")):
        folder.write(name, content)

    assert sorted(folder.empty_files()) == ["a", "deep/er/c"]
    assert folder.folder("missing").empty_files() == []


def test_a_finished_write_leaves_no_other_file(folder: StateFolder) -> None:
    folder.write("plan.json", b"old")
    folder.write("plan.json", b"new")
    assert folder.names() == ["plan.json"]


def test_names_are_those_of_the_files_directly_in_the_folder(folder: StateFolder) -> None:
    for name in ["b.parquet", "a.parquet", "c.json", "deeper/d.parquet", "e.parquet.part"]:
        folder.write(name, b"x")
    assert folder.names(".parquet") == ["a.parquet", "b.parquet"]
    assert folder.names() == ["a.parquet", "b.parquet", "c.json", "e.parquet.part"]
    assert folder.folder("deeper").names() == ["d.parquet"]
    assert folder.stamps(".parquet") == {
        name: folder.stamp(name) for name in ["a.parquet", "b.parquet"]
    }


def test_files_are_deleted_and_may_be_gone_already(folder: StateFolder) -> None:
    for name in ["a", "b", "c"]:
        folder.write(name, b"x")
    folder.delete(["a", "gone", "no/such/folder", "b"])
    assert folder.names() == ["c"]
    folder.delete(["a", "b", "c"])
    assert folder.names() == []


def test_a_table_is_opened_at_any_place(folder: StateFolder) -> None:
    table = pa.table({"a": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    folder.write("t.parquet", sink.getvalue().to_pybytes())
    assert pq.read_table(folder.open_parquet("t.parquet")) == table


def test_a_folder_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for location in (str(tmp_path), tmp_path.as_uri()):
        folder = StateFolder(location).folder("runs")
        assert folder.local_path == tmp_path / "runs"
        assert folder.uri == f"file://{tmp_path}/runs"
        assert folder.location == f"{location}/runs"
    monkeypatch.chdir(tmp_path)
    assert StateFolder("state").local_path == tmp_path / "state"


def test_a_stores_options_stay_behind_the_folders_name() -> None:
    folder = StateFolder("s3://bucket/ferry/?region=eu-west-1&endpoint_override=h:1").folder("runs")
    assert folder.location == "s3://bucket/ferry/runs?region=eu-west-1&endpoint_override=h:1"
    assert folder.uri == "s3://bucket/ferry/runs"
    assert folder.folder("x").location.startswith("s3://bucket/ferry/runs/x?region")


def test_a_question_mark_in_a_path_is_a_character(tmp_path: Path) -> None:
    StateFolder(str(tmp_path / "why?")).folder("runs").write("x", b"1")
    assert (tmp_path / "why?" / "runs" / "x").read_bytes() == b"1"


def test_a_slash_at_the_end_changes_nothing(tmp_path: Path) -> None:
    StateFolder(f"{tmp_path}/").folder("runs").write("x", b"1")
    assert (tmp_path / "runs" / "x").read_bytes() == b"1"


def test_a_folder_is_copied_with_all_that_is_below_it(folder: StateFolder) -> None:
    old, new = folder.folder("old"), folder.folder("new")
    assert new.is_empty() and new.folders() == []

    for name in ("a", "one/b", "two/deep/c", ".crc"):
        old.write(name, name)
    old.copy_to(new)

    assert not new.is_empty()
    assert new.folders() == ["one", "two"]
    assert [new.read(name) for name in ("a", "one/b", "two/deep/c", ".crc")] == [
        b"a",
        b"one/b",
        b"two/deep/c",
        b".crc",
    ]
