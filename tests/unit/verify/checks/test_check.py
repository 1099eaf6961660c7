import pytest

from kafka_ferry.config.options.verify import CHECKS
from kafka_ferry.verify.checks import PARTITIONS, RANGES, WARNINGS
from kafka_ferry.verify.expectations.tables import columns
from kafka_ferry.verify.groups import GROUPS
from kafka_ferry.verify.topics import TOPICS

SUITES = [RANGES, WARNINGS, PARTITIONS, TOPICS, GROUPS]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_check_looks_at_columns_that_a_table_has(suite) -> None:
    for check in suite.checks:
        for name in (check.left, check.right, check.only_where):
            assert not name or name in columns(suite.table), f"{check.name}: {name}"


def test_the_options_know_every_check_by_its_key() -> None:
    assert tuple(check.key for suite in SUITES for check in suite.checks) == CHECKS


def test_no_two_checks_have_the_same_name() -> None:
    names = [check.name for suite in SUITES for check in suite.checks]
    assert len(names) == len(set(names))


def test_every_check_says_what_to_look_at() -> None:
    assert all(check.advice.endswith(".") for suite in SUITES for check in suite.checks)


def test_no_advice_leads_to_the_command_that_shows_it() -> None:
    assert not [
        check.key
        for suite in SUITES
        for check in suite.checks
        if "repair --findings" in check.advice
    ]
