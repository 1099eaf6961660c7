"""What was read back of a partition, as it is once the start of its log has moved. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.rows import PartitionRecount, Recount


def as_of(
    log_start: int, claims: Sequence[RangeClaim], found: PartitionRecount
) -> PartitionRecount:
    """The recount without the records that have expired since the partition was read.

    A record that was missing when it was read stays missing.

    Args:
        log_start: the first offset of the log now.
        claims: what the ledger claims of each range.
        found: what was read back of them, in the same order.
    """
    ranges = tuple(
        _without(claim.count_expired(log_start), it)
        for claim, it in zip(claims, found.ranges, strict=True)
    )
    return found._replace(ranges=ranges)


def _without(expired: int, found: Recount) -> Recount:
    since = max(0, expired - found.expired)
    return replace(
        found, records=max(0, found.records - since), expired=max(expired, found.expired)
    )
