import os
import re
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_ferry.errors import FerryError, StateUnreadable, StateUnwritable
from kafka_ferry.state import StateFolder, folder_name, reads_at_most


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


def test_a_file_larger_than_any_of_a_run_is_named_and_takes_no_memory(
    folder: StateFolder, tmp_path: Path
) -> None:
    with (tmp_path / "report.json").open("wb") as file:
        # A hole, which takes nothing of a disk either.
        file.truncate(1 << 40)
    folder.write("plan.json", b"x" * 3_000_000)
    tracemalloc.start()
    with reads_at_most(3_000_000):
        assert folder.read("plan.json") == b"x" * 3_000_000
        with pytest.raises(FerryError, match=r"report\.json in .* has more than 2 MiB.*delete it"):
            folder.read("report.json")
    with reads_at_most(3_000_000, 7_000_000):
        for _ in range(2):
            folder.read("plan.json")
        with pytest.raises(FerryError, match=r"too many bytes together, up to plan\.json"):
            folder.read("plan.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


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


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder outside of the state folder, with a file that no reader of the state folder may see."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "page.html").write_text("fernet key")
    return tmp_path / "elsewhere"


@pytest.fixture(params=["path", "uri"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> StateFolder:
    place = tmp_path / "state"
    place.mkdir()
    return StateFolder(place.as_uri() if request.param == "uri" else str(place)).folder("flow")


@pytest.mark.parametrize("link", ["flow", "flow/docs", "flow/docs/page.html"])
def test_no_link_is_followed_in_any_part_below_the_folder(
    watched: StateFolder, secret: Path, tmp_path: Path, link: str
) -> None:
    place = tmp_path / "state" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(secret / "page.html" if link.endswith("html") else secret)
    (secret / "docs").mkdir()
    (secret / "docs" / "page.html").write_text("fernet key")

    docs = watched.folder("docs")
    uses: list[Callable[[], object]] = [
        lambda: docs.read("page.html"),
        lambda: docs.open_parquet("page.html"),
    ]
    if not link.endswith("html"):
        uses += [lambda: docs.write("page.html", "ours"), docs.names, docs.folders, docs.changes]
        uses += [lambda: watched.delete_folder("docs"), lambda: docs.delete(["page.html"])]
    for use in uses:
        with pytest.raises(FerryError, match="symbolic link"):
            use()
    assert docs.stamp("page.html") is None
    assert (secret / "page.html").read_text() == "fernet key"
    assert (secret / "docs" / "page.html").read_text() == "fernet key"


def test_links_are_named_at_any_depth_for_who_would_follow_them(
    watched: StateFolder, secret: Path, tmp_path: Path
) -> None:
    assert watched.links() == []
    watched.write("deep/er/file", "ours")
    assert watched.links() == []
    place = tmp_path / "state" / "flow"
    (place / "deep" / "er" / "folder").symlink_to(secret)
    (place / "gone").symlink_to(tmp_path / "nothing")
    assert [it.rpartition("/state/")[2] for it in watched.links()] == [
        "flow/deep/er/folder",
        "flow/gone",
    ]


def test_a_link_is_replaced_and_deleted_itself(
    watched: StateFolder, secret: Path, tmp_path: Path
) -> None:
    watched.write("kept.json", "x")
    for name in ("page.html", "other.html"):
        (tmp_path / "state" / "flow" / name).symlink_to(secret / "page.html")
    (tmp_path / "state" / "flow" / "folder").symlink_to(secret)

    watched.write("page.html", "ours")
    watched.delete(["other.html"])

    assert watched.read("page.html") == b"ours"
    assert watched.names() == ["kept.json", "page.html"] and watched.folders() == []
    assert sorted(watched.changes()) == ["kept.json", "page.html"]
    assert (secret / "page.html").read_text() == "fernet key"


def test_what_is_no_file_is_not_waited_for(watched: StateFolder, tmp_path: Path) -> None:
    watched.write("a", "x")
    os.mkfifo(tmp_path / "state" / "flow" / "pipe")
    assert watched.read("pipe") is None
    assert watched.names() == ["a"]


def test_a_name_does_not_lead_out_of_the_folder(watched: StateFolder, secret: Path) -> None:
    watched.write("a", "x")
    for name in ("../../elsewhere/page.html", ".."):
        with pytest.raises(FerryError, match="leads out"):
            watched.read(name)
    assert [watched.read(name) for name in ("n" * 300, "a\0b")] == [None, None]


def test_the_folder_may_be_a_link_itself(tmp_path: Path, secret: Path) -> None:
    """A flow's file names it, and its author could write anywhere."""
    (tmp_path / "named").symlink_to(secret)
    assert StateFolder(str(tmp_path / "named")).read("page.html") == b"fernet key"


def test_only_its_owner_may_enter_a_new_folder(tmp_path: Path) -> None:
    StateFolder(str(tmp_path / "some" / "state")).folder("flow/runs").write("plan.json", "x")
    assert (tmp_path / "some" / "state").stat().st_mode & 0o777 == 0o700
    (tmp_path / "theirs").mkdir(mode=0o755)
    StateFolder(str(tmp_path / "theirs")).folder("flow").write("plan.json", "x")
    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o755


NAMES = [
    "", ".", "..", "...", "../../x", "a/b", "a-b", "a:b", "a\0b", "manual__2026", "é" * 300, "x" * 101, "x" * 102,
    "scheduled__2026-11-26T00:00:00+00:00", "scheduled__2026-11-26T00-00-00-00-00", "a\ud800",
]  # fmt: skip


def test_no_two_things_have_one_folder() -> None:
    folders = {folder_name(name) for name in NAMES}
    assert len(folders) == len(NAMES)
    # Nor has what is called as the folder of another one is.
    assert not folders & {folder_name(name) for name in folders - set(NAMES)}
    for name in folders:
        assert re.fullmatch(r"[A-Za-z0-9._~-]{1,100}", name) and name.strip(".")


@pytest.mark.parametrize("file", ["history.jsonl", "groups-seen.json", "History.JSONL", ".json"])
def test_no_run_has_a_folder_in_the_place_of_a_file_beside_them(file: str) -> None:
    """Whoever may trigger a run chooses its id."""
    assert re.fullmatch(rf"{re.escape(file)}~[0-9a-f]{{16}}", folder_name(file))


def test_a_plain_name_is_its_folders_name() -> None:
    assert folder_name("run-1.2_x") == "run-1.2_x"


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (place := tmp_path / "state").write_text("x")
    folder = StateFolder(str(place)).folder("runs")
    for attempt in (lambda: folder.read("a"), folder.names, folder.stamps):
        with pytest.raises(StateUnreadable, match="must be a folder that this user may read"):
            attempt()
    with pytest.raises(StateUnwritable, match="cannot be written to"):
        folder.write("a", b"")
