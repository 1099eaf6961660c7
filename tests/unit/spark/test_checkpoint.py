"""The ranges beside a query's checkpoint: what each start was given, for as long as Spark's log names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.local_files import LinkRefused
from kafka_ferry.model import Range
from kafka_ferry.model.ranges import Backfill, Settled
from kafka_ferry.spark.checkpoint import QueryCheckpoint, StartRanges
from kafka_ferry.state import StateFolder

ORDERS = Range("orders", 11, 2**60, 2**60 + 5, "id", "primary.orders", 3)
RANGES = (
    ORDERS,
    replace(ORDERS, topic="täglich", start=7, end=7, log_start=3, preserved=True),
    replace(ORDERS, origins=("S", "T"), returned_since=17, expires_at=2**40),
    replace(ORDERS, backfill=Backfill(5, 2**62, 7, (Settled(1, 2, -(2**63), 2**62),))),
)


def a_start(number: int, *ranges: Range) -> StartRanges:
    return StartRanges(f"run-{number}", f"attempt-{number}", number, ranges)


def left_in(folder: Path) -> set[str]:
    """The names of all files, without the one that says where the checkpoint is."""
    return {it.name for it in folder.rglob("*") if it.is_file()} - {"location"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> QueryCheckpoint:
    return QueryCheckpoint(StateFolder(str(tmp_path / "checkpoint")))


def test_a_start_s_file_says_from_which_to_which_offset(
    checkpoint: QueryCheckpoint, tmp_path: Path
) -> None:
    checkpoint.add(a_start(1, *RANGES))

    (file,) = (tmp_path / "checkpoint" / "ranges").iterdir()
    assert file.name == "1-attempt-1.json"
    assert StartRanges.from_json(file.read_bytes()) == a_start(1, *RANGES)


def test_files_stay_while_spark_may_ask_for_them(
    checkpoint: QueryCheckpoint, tmp_path: Path
) -> None:
    for number in range(12):
        checkpoint.add(a_start(number, ORDERS))

    assert len(list((tmp_path / "checkpoint" / "ranges").iterdir())) == 12


def test_a_long_checkpoint_is_begun_again(
    checkpoint: QueryCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.spark.checkpoint._MAX_FILES", 3)
    for number in range(3):
        checkpoint.add(a_start(number, ORDERS))
    spark_s = tmp_path / "checkpoint" / "offsets" / "2"
    spark_s.parent.mkdir()
    spark_s.touch()
    (tmp_path / "checkpoint" / "metadata").touch()

    checkpoint.add(a_start(3, ORDERS))

    assert left_in(tmp_path / "checkpoint") == {"3-attempt-3.json"}


def test_a_checkpoint_without_its_files_is_begun_again(
    checkpoint: QueryCheckpoint, tmp_path: Path
) -> None:
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    assert not checkpoint.has_ranges

    checkpoint.add(a_start(1, ORDERS))

    assert not offsets.exists()
    assert checkpoint.has_ranges


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_checkpoint_that_was_deleted_while_a_query_used_it_is_begun_again(
    log: str, checkpoint: QueryCheckpoint, tmp_path: Path
) -> None:
    """What the query wrote after that has no metadata, and Spark starts none with it."""
    checkpoint.add(a_start(1, ORDERS))
    (tmp_path / "checkpoint" / log).mkdir()
    (tmp_path / "checkpoint" / log / "0").write_text("v1")

    checkpoint.add(a_start(2, ORDERS))

    assert left_in(tmp_path / "checkpoint") == {"2-attempt-2.json"}


def test_a_checkpoint_that_was_moved_is_begun_again(
    checkpoint: QueryCheckpoint, tmp_path: Path
) -> None:
    """Spark's log has the whole names of the files of ranges, and finds none of them elsewhere."""
    checkpoint.add(a_start(1, ORDERS))
    assert checkpoint.moved_from == ""
    (tmp_path / "checkpoint" / "metadata").touch()
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    moved = QueryCheckpoint(StateFolder(str(tmp_path / "moved")))
    assert moved.moved_from == checkpoint.uri

    for number in (2, 3):
        moved.add(a_start(number, ORDERS))
        assert moved.moved_from == ""

    assert left_in(tmp_path / "moved") == {"2-attempt-2.json", "3-attempt-3.json"}


def test_a_checkpoint_of_which_it_is_not_known_where_it_was_is_begun_again(
    checkpoint: QueryCheckpoint, tmp_path: Path
) -> None:
    checkpoint.add(a_start(1, ORDERS))
    (tmp_path / "checkpoint" / "location").unlink()
    assert checkpoint.moved_from == ""
    checkpoint.add(a_start(2, ORDERS))
    assert left_in(tmp_path / "checkpoint") == {"2-attempt-2.json"}


@pytest.mark.parametrize("torn", ["offsets/1", "commits/0", "sources/0/1", "metadata", "ranges/x"])
def test_a_checkpoint_with_an_empty_file_is_begun_again(
    checkpoint: QueryCheckpoint, tmp_path: Path, torn: str
) -> None:
    """As a power cut leaves the last files that Spark wrote: no query starts from them."""
    folder = tmp_path / "checkpoint"
    checkpoint.add(a_start(1, ORDERS))
    for name in ("offsets/0", "offsets/1", "commits/0", "sources/0/1", "metadata"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("v1")
    (folder / torn).write_bytes(b"")

    checkpoint.add(a_start(2, ORDERS))

    assert left_in(folder) == {"2-attempt-2.json"}


@pytest.mark.parametrize("link", ["offsets", "metadata", "sources/0"])
def test_a_checkpoint_with_a_link_is_given_to_no_query(
    checkpoint: QueryCheckpoint, tmp_path: Path, link: str
) -> None:
    """Spark follows links: a user of the state folder could have it write, and read, elsewhere."""
    checkpoint.add(a_start(1, ORDERS))
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "checkpoint" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(LinkRefused, match=f"{link} is a symbolic link"):
        checkpoint.add(a_start(2, ORDERS))


def test_a_location_is_no_pattern(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path / "a[1]{b}*?"))
    assert QueryCheckpoint(folder).source_pattern.endswith(r"/a\[1\]\{b\}\*\?/ranges")
