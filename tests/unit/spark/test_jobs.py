from kafka_ferry.spark.jobs import dealt


def test_partitions_aredealt_among_tasks_and_none_is_without_any() -> None:
    assert dealt(range(7), 3) == [[0, 3, 6], [1, 4], [2, 5]]
    assert dealt(range(2), 8) == [[0], [1]]
    assert dealt([], 8) == []
