"""What an earlier run has found of groups, and the last has not."""

from __future__ import annotations

import pytest

from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove, lost_since
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition

ORDERS, STOCK, OTHER = (TopicPartition(name, 0) for name in ("orders", "stock", "other"))
DAY_MS = 24 * 60 * 60 * 1000


def found(at: int, *partitions: TopicPartition, **more: object) -> GroupMove:
    moves = tuple(PartitionMove(tp, Committed(7)) for tp in partitions)
    return GroupMove(Group("app"), moves, at=at, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "gone"),
    [
        ([found(0, ORDERS, STOCK)], []),
        ([found(0, ORDERS)], [found(5, STOCK)]),
        # The flow does not copy its topic any more.
        ([found(0, ORDERS, outside=((STOCK, 7),))], []),
        ([found(0)], [found(5, ORDERS, STOCK)]),
        ([], [found(5, ORDERS, STOCK)]),
        # It was deleted there because of that.
        ([GroupMove(Group("app"), (PartitionMove(ORDERS, None), PartitionMove(STOCK, None)))], []),
    ],
)
def test_what_is_gone_is_kept_with_the_time_when_it_was_found(
    now: list[GroupMove], gone: list[GroupMove]
) -> None:
    earlier = GroupMoves(5, (found(0, ORDERS, STOCK),))
    assert lost_since(earlier, GroupMoves(9, tuple(now))) == tuple(gone)


def test_for_seven_days_unless_it_is_there_again() -> None:
    earlier = GroupMoves(5, (found(5, ORDERS),), gone=(found(3, STOCK), found(3, OTHER)))
    now = GroupMoves(3 + 7 * DAY_MS, (found(0, ORDERS, STOCK),))
    assert lost_since(earlier, now) == (found(3, OTHER),)
    assert lost_since(earlier, GroupMoves(now.at + 1, now.groups)) == ()
