"""What expressions gave, joined and divided."""

from __future__ import annotations

from kafka_ferry.transform import Evaluated


def test_parts_with_and_without_failures_and_values_join() -> None:
    found = Evaluated()

    found.add(Evaluated([True]))
    found.add(Evaluated([False, True], [-1, 2]))
    found.add(Evaluated([True], [], [(b"v",)], [3]))
    found.add(Evaluated([True]))

    assert found == Evaluated(
        [True, False, True, True, True],
        [-1, -1, 2, -1, -1],
        [(), (), (), (b"v",), ()],
        [0, 0, 0, 3, 0],
    )


def test_a_part_without_a_failure_says_so_by_having_none() -> None:
    found = Evaluated([True, True, False], [-1, -1, 1], [(b"a",), (b"b",), (b"c",)], [1, 2, 0])

    assert found.part(0, 2) == Evaluated([True, True], [], [(b"a",), (b"b",)], [1, 2])
    assert found.part(2, 3) == Evaluated([False], [1], [(b"c",)], [0])


def test_rows_that_records_share_count_for_each_of_them() -> None:
    found = Evaluated([True, False], [-1, 1], [(b"a",), (b"b",)], [5, 4])

    assert found.at([0, 1, 0]) == Evaluated(
        [True, False, True], [-1, 1, -1], [(b"a",), (b"b",), (b"a",)], [5, 4, 5]
    )
    assert Evaluated([True, False]).at([1, 1, 0]) == Evaluated([False, False, True])
    assert found.at([0, 1]) is found
