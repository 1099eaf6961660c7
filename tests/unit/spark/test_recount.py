from kafka_ferry.spark.recount import _dealt


def test_partitions_are_dealt_among_tasks_and_none_is_without_any() -> None:
    assert _dealt(range(7), 3) == [[0, 3, 6], [1, 4], [2, 5]]
    assert _dealt(range(2), 8) == [[0], [1]]
    assert _dealt([], 8) == []
