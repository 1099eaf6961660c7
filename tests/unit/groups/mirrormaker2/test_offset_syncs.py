"""Offset syncs: which there are, and what MirrorMaker 2's own store makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.groups.mirrormaker2.offset_syncs import offset_syncs
from kafka_ferry.groups.mirrormaker2.record_formats import OffsetSync
from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.model.ranges import TopicPartition
from tests.support.records.model_log import Mirror, a_range

SOURCE = TopicPartition("orders", 0)


def syncs_of(offsets: OffsetMap) -> list[OffsetSync]:
    target = TopicPartition("primary.orders", 0)
    return offset_syncs(Route(SOURCE, target, "primary.orders' id", False, offsets))


def pairs(offsets: OffsetMap) -> list[tuple[int, int]]:
    return [(sync.upstream, sync.downstream) for sync in syncs_of(offsets)]


class Store:
    """``OffsetSyncStore`` of Kafka 4.3.1 for one partition, whose topic of checkpoints it could read."""

    SIZE = 64

    def __init__(self) -> None:
        self._syncs: list[OffsetSync] = []

    def add(self, new: OffsetSync) -> None:
        if not self._syncs or new.upstream < self._syncs[0].upstream:
            self._syncs = [new] * self.SIZE
            return
        old, syncs, replacement, at = list(self._syncs), self._syncs, new, 0
        syncs[0] = new
        for now in range(1, self.SIZE):
            before = now - 1
            while True:
                candidate = old[at]
                recent = self._near(syncs[before], candidate, before, now)
                apart = self._apart(syncs[before], candidate, before)
                fits_next = now + 1 == self.SIZE or self._apart(candidate, syncs[now + 1], now)
                again = at + 1 < self.SIZE and candidate is old[at + 1]
                promoted = recent and apart and fits_next
                if promoted:
                    replacement = candidate
                skip = again or not apart
                if promoted or skip:
                    at += 1
                if not (at < now and skip):
                    break
            if self._near(syncs[before], syncs[now], before, now):
                break
            syncs[now] = replacement

    def translate(self, offset: int) -> int:
        for sync in self._syncs:
            if sync.upstream <= offset:
                return sync.downstream + (offset != sync.upstream)
        return -1

    @staticmethod
    def _near(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
        bound = older.upstream + 2**j - 2**i
        return newer is older or bound >= 2**63 or newer.upstream <= bound

    @staticmethod
    def _apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
        bound = older.upstream + 2 ** max(i - 2, 0)
        return newer is older or (bound < 2**63 and newer.upstream >= bound)


def read_by_store(*rounds: Sequence[OffsetSync]) -> Store:
    store = Store()
    for syncs in rounds:
        for sync in syncs:
            store.add(sync)
    return store


def test_the_last_record_has_one_and_others_ever_further_apart() -> None:
    offsets = OffsetMap.of([a_range(0, 100, [(0, 1000, 100)])])
    assert [up for up, _ in pairs(offsets)] == [0, 36, 68, 84, 92, 96, 98, 99]
    assert all(down == up + 1000 for up, down in pairs(offsets))


def test_offsets_without_a_record_have_none() -> None:
    # 0 to 9 and 30 to 34 are records; after the last one are aborted ones.
    offsets = OffsetMap.of([a_range(0, 40, [(0, 0, 10), (30, 11, 5)])])
    assert pairs(offsets)[-1] == (34, 15)
    assert {up for up, _ in pairs(offsets)} <= {*range(10), *range(30, 35)}


@pytest.mark.parametrize(
    "offsets", [OffsetMap.of([]), OffsetMap.of([a_range(0, 5)]), OffsetMap.of([a_range(7, 7)])]
)
def test_where_nothing_was_copied_there_is_none(offsets: OffsetMap) -> None:
    assert syncs_of(offsets) == []


def test_a_record_with_older_ones_after_it_has_none() -> None:
    # What was copied last comes first on the source: a group that is before it has to read all of it.
    offsets = OffsetMap.of([a_range(100, 110, [(100, 0, 10)]), a_range(0, 100, [(0, 11, 100)])])
    assert {up for up, _ in pairs(offsets)} <= set(range(100, 110))


EVENTS = ("write", "abort", "commit", "compact", "expire", "copy", "break_off", "begin_at_end")
IN_ANY_ORDER = (*EVENTS, "copy_earlier", "cut", "copy_by_another")
HISTORIES = st.lists(st.tuples(st.sampled_from(IN_ANY_ORDER), st.integers(0, 40)), max_size=30)


@given(HISTORIES)
def test_mirrormaker_2_never_passes_over_what_a_group_has_not_read(
    steps: list[tuple[str, int]],
) -> None:
    mirror, rounds = Mirror(), []
    for event, number in steps:
        getattr(mirror, event)(number)
        if event == "copy":
            rounds.append(syncs_of(OffsetMap.of(mirror.ranges)))
    rounds.append(syncs_of(OffsetMap.of(mirror.ranges)))
    store, offsets = read_by_store(*rounds), OffsetMap.of(mirror.ranges)
    for offset in range(len(mirror.source) + 3):
        exact = offsets.translate(offset)
        if exact is not None and rounds[-1]:
            assert store.translate(offset) <= exact.offset


@pytest.mark.parametrize("count", [1_000_000])
def test_a_group_that_is_behind_reads_less_again_than_it_is_behind(count: int) -> None:
    store = read_by_store(syncs_of(OffsetMap.of([a_range(0, count, [(0, 0, count)])])))
    assert store.translate(count) == count
    for behind in (1, 10, 100, 1_000, 100_000, 900_000):
        again = count - behind - store.translate(count - behind)
        assert 0 <= again <= behind
