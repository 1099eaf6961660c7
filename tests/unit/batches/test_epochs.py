"""Where a log that was copied left the one that its cluster has now."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches.epochs import EpochEnd, EpochHistory, EpochSpan, add_span, branch_end

Log = list[int]
"""The epoch of each offset's batch."""


def spans_of(log: Log) -> tuple[EpochSpan, ...]:
    spans: list[EpochSpan] = []
    for offset, epoch in enumerate(log):
        add_span(spans, EpochSpan(offset, offset + 1, epoch))
    return tuple(spans)


def end_in(log: Log, epoch: int) -> EpochEnd | None:
    """As a broker answers OffsetForLeaderEpoch (``LeaderEpochFileCache.endOffsetFor``)."""
    older = [known for known in log if known <= epoch]
    if not older:
        return None
    newer = [offset for offset, known in enumerate(log) if known > epoch]
    return EpochEnd(older[-1], newer[0] if newer else len(log))


def parting(copied: Log, source: Log) -> int | None:
    return branch_end(EpochHistory(spans_of(copied)), lambda epoch: end_in(source, epoch))


@pytest.mark.parametrize(
    ("copied", "source", "where"),
    [
        ([3] * 10, [3] * 10, 10),
        ([3] * 10, [3] * 6, 6),
        ([3] * 10, [3] * 20, 10),
        ([3] * 10 + [5] * 5, [3] * 12 + [6] * 4, 10),
        ([3] * 10 + [5] * 5, [3] * 9 + [6] * 7, 9),
        ([3] * 10 + [5] * 5, [3] * 30, 10),
        ([1] * 2 + [3] * 4 + [5] * 5, [1] * 2 + [2] * 8 + [6] * 8, 2),
        ([4] * 3, [5] * 9, None),
        ([4] * 3, [], None),
        ([], [4], None),
    ],
)
def test_the_branches_part_where_their_epochs_do(
    copied: Log, source: Log, where: int | None
) -> None:
    assert parting(copied, source) == where


def test_what_lies_before_the_known_epochs_is_not_guessed() -> None:
    history = EpochHistory((EpochSpan(10, 20, 5),), is_whole=False)
    assert branch_end(history, lambda _: EpochEnd(3, 40)) is None


@given(st.data())
def test_logs_that_part_after_any_elections_are_followed_to_where_they_do(
    data: st.DataObject,
) -> None:
    """Each leader begins a new epoch: what two branches have of one epoch is one's beginning of the other's."""
    counts = st.lists(st.integers(1, 4), max_size=4)
    epochs = iter(range(100))
    common = [epoch for count in data.draw(counts) for epoch in [next(epochs)] * count]
    longer = [common[-1]] * data.draw(st.integers(0, 5)) if common else []
    branches = [
        [epoch for count in data.draw(counts) for epoch in [next(epochs)] * count] for _ in range(2)
    ]
    copied, source = common + branches[0], common + longer + branches[1]
    if data.draw(st.booleans()):
        copied, source = common + longer + branches[0], common + branches[1]
    same = 0
    while same < min(len(copied), len(source)) and copied[same] == source[same]:
        same += 1
    found = parting(copied, source)
    assert found == same or (found is None and (same == 0 or not source))
