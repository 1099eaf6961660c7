"""What was read back of a partition, as it is once the start of its log has moved. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.rows import PartitionRecount, Recount


def as_of(
    log_start: int, claims: Sequence[RangeClaim], recount: PartitionRecount
) -> PartitionRecount:
    """The recount without the records that have expired since the partition was read.

    A record that was missing when it was read stays missing.

    Args:
        log_start: the first offset of the log now.
        claims: what the ledger claims of each range.
        recount: what was read back of them, in the same order.
    """
    ranges = tuple(
        _without(claim.count_expired(log_start), range_recount)
        for claim, range_recount in zip(claims, recount.ranges, strict=True)
    )
    return recount._replace(ranges=ranges)


def _without(expired: int, recount: Recount) -> Recount:
    since = max(0, expired - recount.expired)
    return replace(
        recount, records=max(0, recount.records - since), expired=max(expired, recount.expired)
    )
