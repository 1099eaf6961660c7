"""What is read of a checkpoint's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.errors import CheckpointRefused
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.sync_groups.spark_checkpoint import read_checkpoint
from kafka_ferry.state import StateFolder

FILES = {
    "metadata": '{"id":"59f2cac4"}',
    "offsets/3": 'v1\n{}\n{"orders":{"0":3}}',
    "offsets/4": 'v1\n{}\n{"orders":{"0":4}}',
    "offsets/.4.crc": "crc",
    "offsets/5": 'v1\n{}\n{"orders":{"0":5}}',
    "commits/3": "of 3",
    "commits/4": "of 4",
    "sources/orders_named/0": '\0v1\n{"orders":{"0":0}}',
}


def a_folder(folder: Path, **more: str) -> StateFolder:
    for name, content in (FILES | more).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return StateFolder(str(folder))


def test_only_the_batches_that_matter_are_read(tmp_path: Path) -> None:
    found = read_checkpoint(a_folder(tmp_path))

    assert found.batches.keys() == {4, 5}
    assert (found.numbers.committed, found.numbers.unfinished) == (4, 5)
    assert found.commits == {4: b"of 4"}
    assert found.initial == {"sources/orders_named/0": {TopicPartition("orders", 0): 0}}
    assert not found.stateful


def test_state_is_seen_and_state_that_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    moved = {"state/0/_metadata/metadata": "v1", "state/0/0/1.delta": "binary"}
    assert read_checkpoint(a_folder(tmp_path, **moved)).stateful

    fixed = {"state/1/_metadata/v2/0": "v2"}
    with pytest.raises(CheckpointRefused, match="transformWithState"):
        read_checkpoint(a_folder(tmp_path, **fixed))
