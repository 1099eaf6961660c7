"""The newest records of small topics are kept in bounded memory."""

from __future__ import annotations

import pytest

from kafka_ferry.control import compacted
from kafka_ferry.control.compacted import StoredRecord
from kafka_ferry.control.wire_records import WireRecord
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition


def _records(*contents: tuple[bytes | None, bytes | None]) -> list[WireRecord]:
    at = TopicPartition("small", 0)
    return [WireRecord(at, (n, 7, b"", b""), it) for n, it in enumerate(contents)]


def test_the_newest_record_of_a_key_counts_and_older_ones_take_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compacted, "_MOST", 1_000)
    records = _records(*[(b"k", bytes(500))] * 10, (None, bytes(5_000)), (b"k", None))
    assert compacted._newest(records, "small") == [StoredRecord(0, b"k", None, 7)]


@pytest.mark.parametrize("value", [None, bytes(500)])
def test_more_than_there_is_room_for_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, value: bytes | None
) -> None:
    monkeypatch.setattr(compacted, "_MOST", 100_000)
    records = _records(*[(b"%d" % n, value) for n in range(1_000)])
    with pytest.raises(FerryError, match="newest records of small have more than 0 MiB"):
        compacted._newest(records, "small")
