import pytest

from kafka_ferry.verify.checks import PARTITIONS, RANGES, WARNINGS
from kafka_ferry.verify.rows import PartitionRow, RangeRow

SUITES = [(RANGES, RangeRow), (WARNINGS, RangeRow), (PARTITIONS, PartitionRow)]


@pytest.mark.parametrize(("suite", "row"), SUITES, ids=lambda value: getattr(value, "name", ""))
def test_every_check_looks_at_attributes_that_a_row_has(suite, row) -> None:
    for check in suite.checks:
        for name in (check.left, check.right, check.only_where):
            assert not name or hasattr(row, name), f"{check.name}: {name}"


def test_no_two_checks_have_the_same_name() -> None:
    names = [check.name for suite, _ in SUITES for check in suite.checks]
    assert len(names) == len(set(names))


def test_every_check_says_what_to_look_at() -> None:
    assert all(check.advice.endswith(".") for suite, _ in SUITES for check in suite.checks)
