"""Where a topic's first copy begins by a file or by its log; groups and times need a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.model import LogBounds, Position, TopicPartition
from kafka_ferry.model.cluster_state import TopicStarts
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.runs.plan.first_starts import topic_starts
from kafka_ferry.runs.state.run_context import RunContext
from tests.unit.ledger.entries import a_copied_range, a_transaction
from tests.unit.plan.builders import a_flow, a_remote, a_source

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
BOUNDS = {P0: LogBounds(10, 50), P1: LogBounds(0, 7)}  # partition 2 has no leader
ORDERS = Pair("orders", a_source(partitions=3), "primary.orders", a_remote(partitions=3), {})
RunWith = Callable[..., RunContext]


def begins(start: str, run: RunContext, pair: Pair = ORDERS) -> TopicStarts:
    return topic_starts(a_flow(topics_start={"orders": start}), run.ledger, BOUNDS, [pair])


@pytest.mark.parametrize(("start", "offsets"), [("earliest", (10, 0)), ("latest", (50, 7))])
def test_a_log_says_where_it_starts_and_ends(
    run_with: RunWith, start: str, offsets: tuple[int, int]
) -> None:
    assert begins(start, run_with()).offsets == dict(zip((P0, P1), offsets, strict=True))


def test_a_topic_of_which_the_option_says_nothing_begins_as_all_do(run_with: RunWith) -> None:
    other = replace(ORDERS, topic="payments", source=a_source("payments"))
    assert begins("latest", run_with(), other) == TopicStarts()
    gone = replace(ORDERS, source=None)
    assert begins("latest", run_with(), gone) == TopicStarts()


def test_a_partition_that_was_begun_goes_on_and_a_new_one_loses_nothing(run_with: RunWith) -> None:
    begun = replace(ORDERS, positions={0: Position(20, "id of orders", "id of primary.orders")})
    # Partition 1 is new since: what came to it is copied from its log's start.
    assert begins("latest", run_with(), begun).offsets == {}
    assert begins("earliest", run_with(), begun).offsets == {P1: 0}


def test_what_is_copied_again_begins_where_it_began(run_with: RunWith) -> None:
    copied = a_copied_range(30, 40, topic_id="id of orders", partition=0, begin="latest")
    found = begins("latest", run_with(a_transaction(copied)))
    assert found.offsets == {P0: 30, P1: 7}
    assert found.begun == {copied.remote_topic_id: "latest"}


@pytest.mark.parametrize(
    ("content", "offsets"),
    [
        ("orders: {0: 12, 1: 3}", {P0: 12, P1: 3}),
        ('{"orders": {"0": 12}, "other": {"0": 1}}', {P0: 12, P1: 0}),
        ("orders: {}", {P0: 10, P1: 0}),
    ],
)
def test_a_file_says_where_partitions_begin_and_the_others_begin_with_their_logs(
    run_with: RunWith, tmp_path: Path, content: str, offsets: dict[TopicPartition, int]
) -> None:
    file = tmp_path / "starts.yaml"
    file.write_text(content)
    assert begins(f"file={file}", run_with()).offsets == offsets


MUST_HAVE = "must have topics, each with its partitions and their offsets"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        ("payments: {0: 1}", "has no topic orders"),
        ("[]", MUST_HAVE),
        ("orders: 12", MUST_HAVE),
        ("orders: {first: 12}", MUST_HAVE),
        ("orders: {0: -1}", MUST_HAVE),
        ("orders: {0: true}", MUST_HAVE),
        ("orders: {0: null}", MUST_HAVE),
        ("orders: {0: 1.5}", MUST_HAVE),
        ("orders: {0: '12'}", MUST_HAVE),
    ],
)
def test_a_file_that_says_something_else_is_an_error_of_the_option(
    run_with: RunWith, tmp_path: Path, content: str | None, reason: str
) -> None:
    file = tmp_path / "starts.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        begins(f"file={file}", run_with())
    assert caught.value.key == "topics.start"
    assert f"{file} {reason}" in str(caught.value)


def test_without_the_option_the_ledger_is_not_read(flow: Flow) -> None:
    unread: RunContext = RunContext.of(flow, "run-1")  # not projected
    assert topic_starts(flow, unread.ledger, BOUNDS, [ORDERS]) == TopicStarts()
