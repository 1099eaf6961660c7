"""The files of a Structured Streaming checkpoint, as Spark 4.2 writes them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafka_ferry.errors import CheckpointRefused
from kafka_ferry.groups.spark.checkpoint import (
    MicroBatch,
    Numbers,
    initial_content,
    initial_offsets,
    kafka_offsets,
    kafka_text,
)
from kafka_ferry.model import TopicPartition

HEAD = '{"batchWatermarkMs":7,"batchTimestampMs":1795287003365,"conf":{"a.b":"c"}}'
ORDERS = TopicPartition("orders", 0)


def a_batch(*ends: str) -> bytes:
    return "\n".join(["v1", HEAD, *ends]).encode()


def at(offset: int) -> str:
    return kafka_text({ORDERS: offset})


def test_a_batch_keeps_all_that_is_not_an_offset() -> None:
    for text in (
        a_batch(at(1)),
        a_batch(at(1), "-", at(2)),
        b'v2\n{"a":1}\n0:{"orders":{"0":50}}\nclicks:-',
    ):
        assert bytes(MicroBatch.of("offsets/0", text)) == text


def test_sources_of_version_2_are_known_by_their_ids() -> None:
    batch = MicroBatch.of("offsets/0", b'v2\n{"a":1}\n0:{"orders":{"0":50}}\nclicks:{"c":{"0":1}}')
    assert [(name, end.text) for name, end in batch.sources()] == [
        ("sources/0/0", '{"orders":{"0":50}}'),
        ("sources/clicks/0", '{"c":{"0":1}}'),
    ]


@pytest.mark.parametrize("content", [b"", b"v1", b"v3\n{}\n{}", b"PK\x03\x04\xff", b"v1\n{}"])
def test_a_batch_of_another_version_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(CheckpointRefused, match="offsets/7 is not a batch of version 1 or 2"):
        MicroBatch.of("offsets/7", content)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('{"orders":{"1":5,"0":3}}', {ORDERS: 3, TopicPartition("orders", 1): 5}),
        ("{}", {}),
        # A file source, a rate source, a Delta table, a socket.
        ('{"logOffset":3}', None),
        ('{"offset":3,"timestamp":5}', None),
        ('{"sourceVersion":1,"reservoirId":"a","reservoirVersion":3,"index":-1}', None),
        ("17", None),
        ("-", None),
        ('{"orders":{"0":"3"}}', None),
        ('{"orders":{"a":3}}', None),
        ('{"orders":{"0":true}}', None),
    ],
)
def test_only_what_the_kafka_source_writes_is_taken_for_its_offsets(
    text: str, offsets: Mapping[TopicPartition, int] | None
) -> None:
    assert kafka_offsets(text) == offsets


def test_the_file_of_where_a_source_began_is_as_spark_writes_it() -> None:
    content = b'\0v1\n{"orders":{"0":20,"1":5}}'
    offsets = {ORDERS: 20, TopicPartition("orders", 1): 5}
    assert initial_offsets(content) == offsets
    assert initial_content(offsets) == content
    # Spark 2.1 wrote no version.
    assert initial_offsets(b'\0{"orders":{"0":20}}') == {ORDERS: 20}
    assert initial_offsets(b"\0v1\n17") is None


@pytest.mark.parametrize(
    ("offsets", "commits", "committed", "unfinished", "before"),
    [
        ("0", "", None, 0, None),
        ("0", "0", 0, None, None),
        ("0 1", "0", 0, 1, 0),
        ("3 4 5", "4 5", 5, None, 4),
        ("9 10 11", "9 10", 10, 11, 10),
        # Spark's own unfinished files, and those of a file system.
        ("0 1 .1.8c1e.tmp 1.part", "0 1 .0.crc", 1, None, 0),
    ],
)
def test_the_newest_finished_batch_is_found_and_the_one_after_it(
    offsets: str, commits: str, committed: int | None, unfinished: int | None, before: int | None
) -> None:
    found = Numbers.of(offsets.split(), commits.split())
    assert found == Numbers(committed, unfinished, before)


@pytest.mark.parametrize(
    ("offsets", "commits", "why"),
    [
        ("", "", "holds no batch"),
        ("1 2 3", "1", "batches 2, 3 are not committed"),
        ("0 1", "0 1 2", "batch 2 is committed, and its file in offsets is gone"),
        ("5", "3", "batch 3 is committed"),
    ],
)
def test_what_is_finished_must_be_clear(offsets: str, commits: str, why: str) -> None:
    with pytest.raises(CheckpointRefused, match=why):
        Numbers.of(offsets.split(), commits.split())
