"""A report that has all that can be measured."""

from __future__ import annotations

from kafka_ferry.batches import Spread
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.report.measures import Measures, PartitionMeasures
from kafka_ferry.verify import Verdict
from tests.support.runs.reports import a_report

ORDERS_0 = PartitionMeasures(
    *("orders", 0, "eu.orders", 1_000, 64_000, {"aborted": 7, "lost": 3}, 90, 4_500),
    *(Spread(90, 10, 500, 9_000, 20), Spread(90, 40, 530, 11_700, 50)),
    *(5, 2.5, 1_700_000_000_000),
)
ORDERS_1 = PartitionMeasures(
    *("orders", 1, "eu.orders", 200, 6_000, {"aborted": 1}, 10, 500),
    *(Spread(10, 5, 900, 1_000, 7), Spread(10, 35, 930, 1_300, 37)),
    *(0, 0.0, 1_600_000_000_000),
)
CLICKS_0 = PartitionMeasures("clicks", 0, "eu.clicks", 40, 800)


def moved(topic: str, partition: int, committed: int, **more: object) -> PartitionMove:
    """What became of a group's offset on a partition that ends at 100."""
    target = TopicPartition(f"eu.{topic}", partition)
    fields = {"end": 100, "target": target, "offset": committed, "kind": "exact"} | more
    return PartitionMove(TopicPartition(topic, partition), Committed(committed), **fields)  # type: ignore[arg-type]


GROUPS = GroupMoves(
    at=1_000,
    groups=(
        GroupMove(
            Group("billing"),
            (moved("orders", 0, 60, action="written"), moved("orders", 1, 100, action="written")),
            at=1_100,
        ),
        GroupMove(Group("search"), (moved("clicks", 0, 1, offset=None, action="held"),), at=1_200),
    ),
    done_at=2_000,
)
REPORT = a_report(
    planned_at=5_000,
    seconds={"plan": 0.5, "mirror": 3.0},
    records=100,
    bytes=5_000,
    batches=4,
    reasons={"aborted": 8, "dead-lettered": 2},
    rebuilt={"offset gaps": 2},
    verdict=Verdict(success=True),
    oldest_proof=8_000,
    groups=GROUPS,
    measures=Measures(2.0, 1_600_000_000_000, (CLICKS_0, ORDERS_0, ORDERS_1)),
)
