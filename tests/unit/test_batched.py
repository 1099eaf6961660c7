from __future__ import annotations

from kafka_ferry.batched import batched


def test_all_items_come_in_their_order_and_so_many_at_most_at_a_time() -> None:
    assert list(batched("abcde", 2)) == [("a", "b"), ("c", "d"), ("e",)]
    assert list(batched(iter(range(4)), 2)) == [(0, 1), (2, 3)]
    assert list(batched([], 2)) == []
