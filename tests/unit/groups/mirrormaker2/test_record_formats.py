"""MirrorMaker 2's records, against the bytes that Kafka's own schemas make of the same values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.groups.mirrormaker2.record_formats import (
    Checkpoint,
    Heartbeat,
    MalformedRecord,
    OffsetSync,
)
from kafka_ferry.model.ranges import TopicPartition

Written = OffsetSync | Checkpoint | Heartbeat

# The values are those of Kafka's own tests of these classes, where it has any.
GOLDEN = [
    (
        OffsetSync(TopicPartition("topic1", 2), 100, 200),
        "0006746f7069633100000002",
        "000000000000006400000000000000c8",
    ),
    (
        Checkpoint("group-1", TopicPartition("topic-2", 3), 4, 5, "metadata-6"),
        "000767726f75702d310007746f7069632d3200000003",
        "000000000000000000040000000000000005000a6d657461646174612d36",
    ),
    (
        Heartbeat("source-1", "target-2", 1234567890),
        "0008736f757263652d3100087461726765742d32",
        "000000000000499602d2",
    ),
    # Without metadata the string is empty, never null.
    (
        Checkpoint("g", TopicPartition("t", 0), 0, 0),
        "000167000174" + "00000000",
        "0000" + "00" * 16 + "0000",
    ),
    # A string's length is that of its bytes.
    (
        Checkpoint("größe", TopicPartition("t", 0), 2**63 - 1, 2**40, "é"),
        "00076772c3b6c39f65" + "000174" + "00000000",
        "0000" + "7fffffffffffffff" + "0000010000000000" + "0002c3a9",
    ),
]


@pytest.mark.parametrize(("written", "key", "value"), GOLDEN)
def test_the_bytes_are_those_of_mirrormaker_2(written: Written, key: str, value: str) -> None:
    assert (written.key().hex(), written.value().hex()) == (key, value)


@pytest.mark.parametrize(("written", "key", "value"), GOLDEN)
def test_the_bytes_of_mirrormaker_2_are_read(written: Written, key: str, value: str) -> None:
    assert type(written).read(bytes.fromhex(key), bytes.fromhex(value)) == written


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
offset = st.integers(0, 2**63 - 1)
partition = st.builds(TopicPartition, text, st.integers(0, 2**31 - 1))
anything = st.one_of(
    st.builds(OffsetSync, partition, offset, offset),
    st.builds(Checkpoint, text, partition, offset, offset, text),
    st.builds(Heartbeat, text, text, offset),
)


@given(written=anything)
def test_what_was_written_is_read_again(written: Written) -> None:
    assert type(written).read(written.key(), written.value()) == written


@given(written=anything)
def test_bytes_after_the_last_field_are_passed_over(written: Written) -> None:
    assert type(written).read(written.key() + b"\0", written.value() + b"more") == written


@given(written=anything, cut=st.integers(min_value=1))
def test_a_record_that_is_cut_off_is_none(written: Written, cut: int) -> None:
    for key, value in (
        (written.key()[: -min(cut, len(written.key()))], written.value()),
        (written.key(), written.value()[: -min(cut, len(written.value()))]),
    ):
        with pytest.raises(MalformedRecord):
            type(written).read(key, value)


@pytest.mark.parametrize("kind", [Checkpoint, Heartbeat])
def test_another_version_is_not_guessed_at(kind: type[Checkpoint] | type[Heartbeat]) -> None:
    written = next(golden for golden, _, _ in GOLDEN if isinstance(golden, kind))
    with pytest.raises(MalformedRecord, match="version 1"):
        kind.read(written.key(), b"\0\1" + written.value()[2:])


@pytest.mark.parametrize("key", [b"\xff\xff", b"\x00\x01\xff" + b"\0" * 4])
def test_a_null_and_what_is_no_text_are_no_strings(key: bytes) -> None:
    with pytest.raises(MalformedRecord):
        OffsetSync.read(key, b"\0" * 16)


def test_what_no_string_of_kafkas_can_hold_is_not_written() -> None:
    longest = "x" * (2**15 - 1)
    assert len(Heartbeat(longest, "", 0).key()) == 2**15 - 1 + 4
    with pytest.raises(MalformedRecord, match="32768 bytes"):
        Heartbeat(longest + "x", "", 0).key()
