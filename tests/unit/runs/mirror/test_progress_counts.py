"""What a run has copied so far, counted from ledger entries, without Kafka."""

from __future__ import annotations

from kafka_ferry.ledger.record import Entry
from kafka_ferry.runs.mirror.progress_counts import CopiedCounts, ProgressCounts
from tests.unit.runs.copying import FLOW, PLAN, entry


def test_each_transaction_is_counted_once_and_only_those_of_the_run(
    ledger: list[tuple[int, Entry]],
) -> None:
    ledger += [
        (99, entry("orders", 0, 10, 20)),
        (100, entry("orders", 0, 10, 20)),
        (102, entry("orders", 0, 20, 60, run="run-0")),
        (104, entry("orders", 0, 20, 60, flow="primary->elsewhere")),
        (106, entry("unplanned", 0, 0, 5)),
    ]
    tally = ProgressCounts(FLOW, PLAN)
    tally.update()
    tally.update()
    assert tally.topics["orders"] == CopiedCounts(100, 10, 9, 1000, partitions=2)
    ledger.append((108, entry("orders", 1, 0, 50)))
    tally.update()
    assert tally.topics["orders"] == CopiedCounts(100, 60, 58, 6000, partitions=2)
    assert tally.whole == CopiedCounts(120, 60, 58, 6000, partitions=3)
    assert tally.whole.left == 60
    assert tally.topics.keys() == {"orders", "payments"}


def test_a_shard_counts_what_is_its_own(ledger: list[tuple[int, Entry]]) -> None:
    ledger += [(100, entry("orders", 0, 10, 20)), (102, entry("orders", 1, 0, 20))]
    tally = ProgressCounts(FLOW, PLAN, 1)
    tally.update()
    assert tally.topics["orders"] == CopiedCounts(50, 20, 19, 2000, partitions=1)


def test_what_is_copied_again_is_not_done_twice(ledger: list[tuple[int, Entry]]) -> None:
    """A position may be set back, where the source's log was cut."""
    ledger += [(100, entry("orders", 0, 10, 60)), (102, entry("orders", 0, 30, 60))]
    tally = ProgressCounts(FLOW, PLAN)
    tally.update()
    assert tally.topics["orders"].done == 50
