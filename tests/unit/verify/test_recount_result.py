"""What has expired since a partition was read back."""

from kafka_ferry.batches import Segment
from kafka_ferry.verify import PartitionRecount, Recount
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.recount_result import as_of

CLAIMS = [
    RangeClaim((Segment(0, 100, 10),), 0, 10),
    RangeClaim((Segment(10, 111, 5), Segment(20, 120, 5)), 10, 25),
]


def test_records_that_have_expired_since_are_no_longer_there() -> None:
    found = PartitionRecount((Recount(10, "a"), Recount(10, "b")), beyond=2)
    assert as_of(122, CLAIMS, found) == PartitionRecount(
        (Recount(0, "a", expired=10), Recount(3, "b", expired=7)), beyond=2
    )


def test_nothing_changes_while_the_log_begins_where_it_did() -> None:
    found = PartitionRecount((Recount(6, "a", expired=4), Recount(10, "b")), beyond=0)
    assert as_of(104, CLAIMS, found) == found
    assert as_of(0, CLAIMS, found) == found


def test_a_record_that_was_missing_stays_missing() -> None:
    found = PartitionRecount((Recount(3, "a", expired=4), Recount(9, "b")), beyond=0)
    late, _ = as_of(110, CLAIMS, found).ranges
    assert (late.records, late.expired) == (0, 10)
    late, later = as_of(106, CLAIMS, found).ranges
    assert (late.records, late.expired) == (1, 6)
    assert later.records == 9
