from kafka_ferry.spark.jobs import deal


def test_partitions_are_dealt_among_tasks_and_none_is_without_any() -> None:
    assert deal(range(7), 3) == [[0, 3, 6], [1, 4], [2, 5]]
    assert deal(range(2), 8) == [[0], [1]]
    assert deal([], 8) == []
