"""Failures of partitions are kept one by one; their sentences are made from them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.results.failures import Failure, RangesFailed
from tests.support.runs.reports import a_failure

FAILURES = (a_failure("orders", 0), a_failure("orders", 1, shard=2))
STOPPED = (
    "orders-0 -> eu.orders-0 stopped at offset 7: too large.",
    "Shard 2: orders-1 -> eu.orders-1 stopped at offset 7: too large.",
)
REFUSED = (Refusal("clicks", "it was recreated.", "Delete it."),)


def test_a_failure_says_shard_partitions_and_offset() -> None:
    assert (*map(str, FAILURES),) == STOPPED


@pytest.mark.parametrize("message", ["too large", "too large."])
def test_its_advice_is_a_sentence_after_what_happened(message: str) -> None:
    failure = replace(FAILURES[0], message=message, advice="Raise max.message.bytes.")
    assert str(failure) == f"{STOPPED[0]} Raise max.message.bytes."


@pytest.mark.parametrize(
    ("failures", "refused", "says"),
    [
        (FAILURES, (), f"2 partitions not copied to the end:\n  {STOPPED[0]}\n  {STOPPED[1]}"),
        (FAILURES[:1], (), f"1 partition not copied to the end:\n  {STOPPED[0]}"),
        (
            FAILURES[:1],
            REFUSED,
            "1 refused by the plan, 1 partition not copied to the end:\n"
            f"  clicks: it was recreated. Delete it.\n  {STOPPED[0]} "
            "\nWhat a plan refuses is refused for the whole run. Once the cause is gone, run again (a backfill "
            "with the same window); in Airflow, clear the task plan.",
        ),
    ],
)
def test_an_error_says_each_of_them_and_keeps_them_between_processes(
    failures: Sequence[Failure], refused: Sequence[Refusal], says: str
) -> None:
    error = RangesFailed(failures, transient=True, refused=refused)
    arrived = pickle.loads(pickle.dumps(error))

    assert str(arrived) == says
    assert (arrived.failures, arrived.refused) == (tuple(failures), tuple(refused))
    assert (arrived.transient, arrived.exit_code) == (True, 6)
