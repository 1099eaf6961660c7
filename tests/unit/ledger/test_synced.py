"""What was last committed for groups, out of the ledger's entries or of what is stored of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config import Cluster
from kafka_ferry.ledger import GroupsEntry, LedgerTable, SyncedOffset
from kafka_ferry.ledger.record import Entry
from kafka_ferry.ledger.synced import fold_synced, store_synced, stored_synced
from kafka_ferry.state import StateFolder

from .entries import FLOW, NOW, a_run

TARGET = Cluster(alias="backup", properties={"bootstrap.servers": "target:9092"})


def an_entry(synced: dict[str, dict[str, dict[int, int]]]) -> GroupsEntry:
    """What was committed, each offset twice as much on the source."""
    return GroupsEntry(
        flow=FLOW,
        run="run-1",
        at=NOW,
        synced={
            group: {
                topic: {p: SyncedOffset(source=2 * o, target=o) for p, o in partitions.items()}
                for topic, partitions in topics.items()
            }
            for group, topics in synced.items()
        },
    )


ENTRIES = [
    an_entry({"a": {"t": {0: 1, 1: 1}}, "b": {"t": {0: 1}}}),
    an_entry({"a": {"t": {1: 2}, "u": {0: 5}}}),
    an_entry({"b": {"t": {0: 3}}, "c": {"t": {0: 9}}}),
]
TOGETHER = {
    "a": {("t", 0): 1, ("t", 1): 2, ("u", 0): 5},
    "b": {("t", 0): 3},
    "c": {("t", 0): 9},
}


def targets(synced: dict[str, dict[tuple[str, int], SyncedOffset]]) -> object:
    assert all(o.source == 2 * o.target for offsets in synced.values() for o in offsets.values())
    return {group: {k: o.target for k, o in offsets.items()} for group, offsets in synced.items()}


class Ledger:
    """A table, and the topic that it is made from."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.table = LedgerTable(StateFolder(str(folder)), FLOW)
        self.topic: list[tuple[int, Entry]] = []
        monkeypatch.setattr(
            "kafka_ferry.ledger.projection.read_ledger",
            lambda cluster, topic, start: iter([e for e in self.topic if e[0] >= start]),
        )

    def append(self, *entries: Entry) -> None:
        for entry in entries:
            self.topic.append((2 * len(self.topic), entry))
            self.table.project(TARGET, "ledger")

    def texts(self) -> int:
        """How many entries' texts the table has."""
        return sum(bool(text) for text in self.table.read()["groups"].to_pylist())


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return Ledger(tmp_path, monkeypatch)


def test_the_newest_entry_on_a_partition_counts(ledger: Ledger) -> None:
    assert ledger.table.synced_groups() == {}
    ledger.append(a_run(), *ENTRIES)
    assert targets(ledger.table.synced_groups()) == TOGETHER


def test_what_is_stored_is_not_read_again_and_later_entries_count(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.ledger.table._FOLD_AT_BYTES", 1)
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 3)
    for entry in ENTRIES[:2]:
        ledger.append(entry)
        ledger.table.synced_groups()
    assert [file.suffix for file in ledger.folder.iterdir()].count(".synced") == 1
    ledger.append(ENTRIES[2])
    # The merge has left out what is folded.
    assert ledger.texts() == 1
    assert targets(ledger.table.synced_groups()) == TOGETHER
    assert targets(ledger.table.synced_groups()) == TOGETHER


def test_a_few_entries_are_not_stored(ledger: Ledger) -> None:
    ledger.append(*ENTRIES)
    ledger.table.synced_groups()
    assert {file.suffix for file in ledger.folder.iterdir()} == {".parquet"}


def test_a_table_that_is_deleted_comes_back_whole(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.ledger.table._FOLD_AT_BYTES", 1)
    ledger.append(*ENTRIES[:2])
    ledger.table.synced_groups()
    for file in ledger.folder.iterdir():
        file.unlink()
    ledger.append(ENTRIES[2])
    assert targets(ledger.table.synced_groups()) == TOGETHER


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1),
        st.dictionaries(
            st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2**31 - 1)),
            st.builds(
                SyncedOffset,
                source=st.integers(-1, 2**63 - 1),
                target=st.integers(-1, 2**63 - 1),
                source_cluster_id=st.sampled_from(["", "S", "T"]),
                at=st.integers(0, 2**63 - 1),
                refuted=st.booleans(),
            ),
            min_size=1,
        ),
    )
)
def test_what_is_stored_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    synced: dict[str, dict[tuple[str, int], SyncedOffset]],
) -> None:
    folder = StateFolder(str(tmp_path_factory.mktemp("synced")))
    assert stored_synced(folder) == (0, {})
    store_synced(folder, 7, {})
    store_synced(folder, 9, synced)
    assert stored_synced(folder) == (9, synced)


def test_folding_nothing_changes_nothing() -> None:
    synced = {"a": {("t", 0): SyncedOffset(source=2, target=1)}}
    fold_synced(synced, [])
    assert targets(synced) == {"a": {("t", 0): 1}}


def test_each_offset_is_of_the_cluster_that_its_newest_entry_names(ledger: Ledger) -> None:
    first, second, _ = ENTRIES
    ledger.append(first.model_copy(update={"source_cluster_id": "S"}), second)
    known = ledger.table.synced_groups()["a"]
    clusters = {key: offset.source_cluster_id for key, offset in known.items()}
    assert clusters == {("t", 0): "S", ("t", 1): "", ("u", 0): ""}


@pytest.mark.parametrize("left", [b"", b"PAR1", bytes(500)], ids=["empty", "cut off", "zeros"])
def test_what_is_stored_and_cannot_be_read_comes_from_the_topic(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    """Merged files have left out what it held."""
    monkeypatch.setattr("kafka_ferry.ledger.table._FOLD_AT_BYTES", 1)
    monkeypatch.setattr("kafka_ferry.ledger.projection._MERGE_AT", 3)
    for entry in ENTRIES:
        ledger.append(entry)
        ledger.table.synced_groups()
    ledger.append(a_run())
    (stored,) = ledger.folder.glob("*.synced")
    stored.write_bytes(left)

    assert targets(ledger.table.synced_groups()) == TOGETHER
    assert targets(ledger.table.synced_groups()) == TOGETHER
