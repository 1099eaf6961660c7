from typing import Any

import pytest

from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.proofs import ends_before, failed_entries, verifications
from kafka_ferry.ledger.queries.run_starts import RunStart, last_run
from kafka_ferry.ledger.record import Entry
from kafka_ferry.model import Position, TopicPartition, Window

from .entries import (
    NOW,
    a_backfill,
    a_copied_range,
    a_release,
    a_transaction,
    a_verification,
    an_applied,
)
from .projected import LEDGER, OTHER, Topic, in_steps, project


def a_start(offset: int, run: str, writers: int) -> RunStart:
    return RunStart(offset, run, NOW, writers)


def test_where_copying_had_come_to_is_told_by_partition_and_topics(
    table: LedgerTable, ledger: Topic
) -> None:
    recreated = a_copied_range(0, 4, topic_id="another id")
    project(
        table,
        ledger,
        [
            (0, a_transaction(a_copied_range(0, 10), a_copied_range(0, 7, topic="payments"))),
            (2, a_transaction(a_copied_range(10, 20))),
            (4, a_backfill(a_copied_range(0, 3))),
            (6, a_transaction(recreated)),
            (8, a_transaction(a_copied_range(20, 30))),
        ],
    )
    orders = TopicPartition("orders", 0), TopicPartition("primary.orders", 0)
    assert ends_before(table, 8, {"primary.orders"}) == {
        (orders[0], "id of orders", orders[1], "id of primary.orders"): 20,
        (orders[0], "another id", orders[1], "id of primary.orders"): 4,
    }
    assert ends_before(table, 0, {"primary.orders"}) == {}


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ([{"again": ((0, 2),)}], set()),
        ([{"failed": ((1, 3),)}], {1, 2}),
        ([{"failed": ((0, 1),)}, {"failed": ((2, 3),)}], {0, 2}),
        # Until it is proved, and found wrong once more.
        ([{"failed": ((0, 3),)}, {"again": ((1, 2),)}], {0, 2}),
        ([{"failed": ((0, 3),)}, {"again": ((0, 3),)}, {"failed": ((2, 3),)}], {2}),
        # Only records of copied ranges, however far an interval reaches.
        ([{"failed": ((0, 2**63 - 1),)}], {0, 1, 2}),
    ],
)
def test_what_was_found_wrong_stays_so_until_it_is_proved(
    found: list[dict[str, Any]], left: set[int], table: LedgerTable, ledger: Topic
) -> None:
    proved = a_verification(3)
    copied = [a_transaction(a_copied_range(at, at + 1)) for at in range(3)]
    entries = [*copied, proved, *(proved.model_copy(update=it) for it in found)]
    project(table, ledger, [*enumerate(entries)])
    assert failed_entries(table) == left
    wrong = sum("failed" in it for it in found)
    assert len(verifications(table)) == 1 + len(found) - wrong, (
        "to find something wrong proves nothing"
    )


def test_the_last_position_of_a_partition_wins(table: LedgerTable, ledger: Topic) -> None:
    in_steps(table, ledger, 2)
    assert table.positions() == {
        TopicPartition("primary.orders", 0): Position(
            25, "id of orders", "id of primary.orders", NOW + 9, origin="ledger"
        ),
        TopicPartition("primary.payments", 3): Position(
            8, "id of payments", "id of primary.payments", NOW, origin="ledger"
        ),
    }


def test_the_last_position_wins_though_it_is_a_lower_one(table: LedgerTable, ledger: Topic) -> None:
    """A topic that was recreated begins at 0 again."""
    recreated = a_copied_range(0, 4, topic_id="another id")
    project(table, ledger, [*LEDGER, (18, a_transaction(recreated))])
    position = table.positions()[TopicPartition("primary.orders", 0)]
    assert (position.offset, position.topic_id) == (4, "another id")


def test_the_last_run_is_the_newest_one_of_the_flow(table: LedgerTable, ledger: Topic) -> None:
    project(table, ledger, LEDGER[:1])
    assert last_run(table) == a_start(0, "run-1", 4)
    in_steps(table, ledger, 4)
    assert last_run(table) == a_start(12, "run-2", 8)


@pytest.mark.parametrize(
    ("verified", "through"),
    [
        ([], 0),
        ([0], 0),
        ([0, 2], 2),
        ([0, 2, 1], 2),
        # Of what is yet to come nothing was verified, whatever a record says.
        ([0, 2, 30], 2),
        ([1], 0),
    ],
)
def test_what_was_verified_stays_verified(
    table: LedgerTable, ledger: Topic, verified: list[int], through: int
) -> None:
    project(table, ledger, [(2 * i, a_verification(at)) for i, at in enumerate(verified)])
    assert table.verified_through() == through


def test_the_newest_remote_topic_of_each_source_topic_is_known(
    table: LedgerTable, ledger: Topic
) -> None:
    renamed = a_transaction(a_copied_range(20, 25, remote_topic="renamed"))
    project(table, ledger, [*LEDGER, (18, renamed)])

    assert table.topics() == {"orders": "renamed", "payments": "primary.payments"}


def test_what_the_flow_has_given_up_is_known_by_its_id(table: LedgerTable, ledger: Topic) -> None:
    assert table.released_topics() == frozenset()
    releases = [
        (18, a_release("primary.orders", "primary.payments")),
        (20, a_release("primary.others", flow=OTHER)),
        (22, a_release("primary.again")),
    ]
    project(table, ledger, [*LEDGER, *releases])

    assert table.released_topics() == {
        "id of primary.orders",
        "id of primary.payments",
        "id of primary.again",
    }
    assert table.topics() == {"orders": "primary.orders", "payments": "primary.payments"}
    assert last_run(table) == a_start(12, "run-2", 8)


def test_what_the_flow_has_applied_is_all_of_its_entries_together(
    table: LedgerTable, ledger: Topic
) -> None:
    entries: list[tuple[int, Entry]] = [
        (18, an_applied(configs={"a": {"x": "1"}, "b": {}}, missed={"a": 7})),
        (20, an_applied(configs={"a": {"x": "9"}}, flow=OTHER)),
        (22, an_applied(configs={"a": {"x": "2"}}, pending={"a": {"x": "1"}})),
    ]
    for count in (1, 3):
        project(table, ledger, [*LEDGER, *entries[:count]])

    applied = table.applied()
    assert applied.configs == {"a": {"x": "2"}, "b": {}}
    assert (applied.pending, applied.missed) == ({"a": {"x": "1"}}, {"a": 7})
    assert last_run(table) == a_start(12, "run-2", 8)


def test_configs_that_other_runs_have_written_since_are_known(
    table: LedgerTable, ledger: Topic
) -> None:
    entries: list[tuple[int, Entry]] = [
        (18, an_applied(configs={"before": {}})),
        (20, an_applied(configs={"since": {"x": "1"}}, creations={"primary.a": {}})),
        (22, an_applied(configs={"other flow": {}}, flow=OTHER)),
        (24, an_applied(missed={"missed": 1})),
    ]
    project(table, ledger, [*LEDGER, *entries])

    assert table.configs_since(20, but_by="run-9") == {"since"}
    assert table.configs_since(20, but_by="run-1") == frozenset()
    assert table.configs_since(0, but_by="run-9") == {"before", "since"}


def test_a_backfill_moves_no_position_and_is_among_the_ranges(
    table: LedgerTable, ledger: Topic
) -> None:
    ordinary = a_transaction(a_copied_range(20, 30))
    backfilled = a_backfill(a_copied_range(0, 10, topic="orders"))
    project(table, ledger, [(0, ordinary), (1, backfilled)])
    target = TopicPartition("primary.orders", 0)
    assert {tp: position.offset for tp, position in table.positions().items()} == {target: 30}
    assert table.topics() == {"orders": "primary.orders"}
    windows = [entry.window for entry in table.ranges(since=0, of_run="")]
    assert windows == [None, Window(NOW - 1_000, NOW)]
