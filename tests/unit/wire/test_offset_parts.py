"""Offsets go to a broker in parts that it takes, each offset in one of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.errors import BrokerError, FerryError
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.offset_parts import PART_BYTES, commit_in_halves, parts_of

Offsets = Mapping[TopicPartition, Committed]
GROUP = "ferry.a->b"


def offsets_of(count: int, metadata: str = "m") -> dict[TopicPartition, Committed]:
    return {
        TopicPartition(f"t{n % 7}", n // 7): Committed(n, metadata=metadata) for n in range(count)
    }


def test_few_offsets_go_in_one_part_and_none_in_none() -> None:
    few = offsets_of(30)
    assert list(parts_of(GROUP, few)) == [few]
    assert list(parts_of(GROUP, {})) == []


@pytest.mark.parametrize("metadata", ["", "é" * 150, "m" * 4_096])
def test_many_offsets_go_in_parts_none_of_which_is_too_large(metadata: str) -> None:
    many = offsets_of(5_000, metadata)

    parts = list(parts_of(GROUP, many))

    assert [entry for part in parts for entry in part.items()] == list(many.items())
    # What a record of __consumer_offsets takes at least, with its key and its value.
    fixed = 40 + len(GROUP) + len("t0") + len(metadata.encode())
    assert all(fixed * len(part) <= PART_BYTES for part in parts)
    assert len(parts) == -(-5_000 // len(parts[0]))


@pytest.mark.parametrize("code", [-1, 10, 18, 28])
@given(count=st.integers(1, 70), limit=st.integers(1, 70))
def test_what_a_broker_does_not_take_whole_is_halved_until_it_does(
    code: int, count: int, limit: int
) -> None:
    taken: list[TopicPartition] = []

    def commit(part: Offsets) -> dict[TopicPartition, int]:
        if len(part) > limit:
            raise fault(code, "Committing")
        taken.extend(part)
        return {tp: 3 for tp, offset in part.items() if offset.offset == 1}

    many = offsets_of(count)

    refused = commit_in_halves(commit, many)

    assert taken == list(many)
    assert refused == {tp: 3 for tp, offset in many.items() if offset.offset == 1}


@pytest.mark.parametrize(("code", "asked"), [(-1, 4), (90, 1), (16, 1), (30, 1)])
def test_an_error_that_is_not_about_the_size_is_raised_soon(code: int, asked: int) -> None:
    sizes = []

    def commit(part: Offsets) -> dict[TopicPartition, int]:
        sizes.append(len(part))
        raise fault(code, "Committing")

    with pytest.raises(FerryError):
        commit_in_halves(commit, offsets_of(8))
    assert len(sizes) == asked


def test_a_single_offset_that_is_refused_is_not_tried_again() -> None:
    def commit(_: Offsets) -> dict[TopicPartition, int]:
        raise fault(-1, "Committing")

    with pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR"):
        commit_in_halves(commit, offsets_of(1))
