from dataclasses import replace

from kafka_ferry.batches import Absent, ConvertedBatch, Reason, gap, lost_batch
from kafka_ferry.batches.epochs import OLDEST_EPOCH


def test_a_gap_is_nothing_but_compacted_offsets() -> None:
    assert gap(3, 8) == ConvertedBatch(3, 8, absent=(Absent(3, 8, Reason.COMPACTED),))
    assert gap(3, 8).reasons == {Reason.COMPACTED: 5}
    assert gap(3, 8, 4) == replace(gap(3, 8), leader_epoch=4)


def test_lost_offsets_are_nothing_but_lost() -> None:
    absent = (Absent(3, 8, Reason.LOST),)
    assert lost_batch(3, 8) == ConvertedBatch(3, 8, absent=absent, leader_epoch=OLDEST_EPOCH)


def test_the_offsets_without_a_record_are_counted_by_reason() -> None:
    absent = (
        Absent(0, 2, Reason.ABORTED),
        Absent(2, 3, Reason.CONTROL),
        Absent(9, 12, Reason.ABORTED),
    )
    assert ConvertedBatch(0, 12, None, ((3, 6),), absent).reasons == {
        Reason.ABORTED: 5,
        Reason.CONTROL: 1,
    }
