from kafka_ferry.batches import Segment
from kafka_ferry.plan import TopicPartition
from kafka_ferry.spark.recount import _asked, _claims
from kafka_ferry.verify.claim import Claim

ORDERS, CUSTOMERS = TopicPartition("primary.orders", 0), TopicPartition("primary.customers", 11)


def test_claims_come_to_a_task_as_they_were() -> None:
    asked = {
        ORDERS: [
            Claim((Segment(0, 0, 5), Segment(9, 9, 2**40)), 0, 2**60, True, 2**50, is_first=True),
            Claim((), 7, 7, True),
        ],
        CUSTOMERS: [Claim((Segment(3, 1000, 5),), 3, 8)],
    }
    rows = _asked(asked).to_pylist()
    came = {TopicPartition(row["topic"], row["partition"]): _claims(row) for row in rows}
    assert came == asked
    assert all(
        isinstance(segment, Segment)
        for claims in came.values()
        for claim in claims
        for segment in claim.segments
    )
