"""Which partitions a broker is asked for next."""

from __future__ import annotations

from kafka_ferry.copy.source.cursor import Cursor
from kafka_ferry.copy.source.request_order import most_urgent, next_offsets
from kafka_ferry.model.ranges import Range


def cursor_of(partition: int, *, is_silent: bool = False, wave: int = 0) -> Cursor:
    range_ = Range("orders", partition, 0, 1_000, "id", "to.orders", 0)
    return Cursor(range_, 100, -1, must_be_alone=is_silent, wave=wave)


def test_what_would_expire_first_comes_first() -> None:
    late, soon = cursor_of(0, wave=2), cursor_of(1, wave=1)
    assert most_urgent([late, soon]) == [soon]
    assert most_urgent([]) == []


def test_partitions_that_must_be_alone_and_all_others_take_turns() -> None:
    silent = [cursor_of(number, is_silent=True) for number in range(2)]
    others = [cursor_of(number) for number in range(2, 4)]

    def partitions(*, was_alone: bool, cursors: list[Cursor]) -> list[int]:
        return [tp.partition for tp in next_offsets(cursors, 9, was_alone=was_alone)]

    assert partitions(was_alone=False, cursors=[*silent, *others]) == [0]
    assert partitions(was_alone=True, cursors=[*silent, *others]) == [2, 3]
    assert partitions(was_alone=True, cursors=silent) == [0]
    assert partitions(was_alone=False, cursors=others) == [2, 3]
