from __future__ import annotations

from kafka_ferry.batched import batched, batched_by_weight


def test_all_items_come_in_their_order_and_so_many_at_most_at_a_time() -> None:
    assert list(batched("abcde", 2)) == [("a", "b"), ("c", "d"), ("e",)]
    assert list(batched(iter(range(4)), 2)) == [(0, 1), (2, 3)]
    assert list(batched([], 2)) == []


def test_parts_weigh_so_much_at_most_and_a_heavier_item_comes_alone() -> None:
    weights = {"a": 2, "b": 1, "c": 1, "d": 9, "e": 3}
    assert list(batched_by_weight(weights, 3)) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(batched_by_weight({}, 3)) == []
