"""Remote topics that several flows write to: tells other flows' records from foreign ones. Pure.

The other flows' claims are recounted like a flow's own, after these, and then removed again::

    [own a0][other b0] x [own a1][other b1] y [everything after an end ...)

``x`` and ``y`` are in no ledger: ``x`` is before a record of the flow's own, and counts as foreign in its
range; ``y`` is after the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kafka_ferry.batches import Segment
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.verify.claim import FOR_EVER, RangeClaim
from kafka_ferry.verify.recount_result import PartitionRecount


def with_strangers(
    recounts: Mapping[TopicPartition, PartitionRecount],
    claims: Mapping[TopicPartition, Sequence[RangeClaim]],
) -> Iterator[TopicPartition]:
    """The partitions with records that their claims do not explain; preserved offsets are never shared."""
    for tp, of_partition in claims.items():
        recount = recounts[tp]
        strange = recount.beyond or any(of_range.foreign for of_range in recount.ranges)
        if strange and not any(claim.preserved for claim in of_partition):
            yield tp


def without_locals(
    recounts: Mapping[TopicPartition, PartitionRecount],
    claims: Mapping[TopicPartition, Sequence[RangeClaim]],
) -> dict[TopicPartition, PartitionRecount]:
    """The recounts without foreign records, where the target's own producers write to the remote topics."""
    return {
        tp: recount
        if any(claim.preserved for claim in claims[tp])
        else recount._replace(
            ranges=tuple(replace(of_range, foreign=0) for of_range in recount.ranges), beyond=0
        )
        for tp, recount in recounts.items()
    }


def everything_after(end: int) -> RangeClaim:
    """A claim to everything at or after the target offset ``end``."""
    return RangeClaim((Segment(0, end, FOR_EVER),), 0, FOR_EVER)


def without_others(
    recount: PartitionRecount, claims: Sequence[RangeClaim], own: int
) -> PartitionRecount:
    """What the recount of all ``claims`` found for the first ``own`` of them.

    Records that no ledger claims were counted with the claim whose record follows them.
    """
    ranges, beyond = list(recount.ranges[:own]), recount.beyond
    strangers = recount.strangers
    starts = [
        (segment.target, number) for number in range(own) for segment in claims[number].segments
    ]
    for claim, of_other in zip(claims[own:], recount.ranges[own:], strict=True):
        following = [start for start in starts if start[0] > claim.segments[0].target]
        if following:
            _, number = min(following)
            own_recount = ranges[number]
            ranges[number] = replace(
                own_recount,
                foreign=own_recount.foreign + of_other.foreign,
                strangers=(*own_recount.strangers, *of_other.strangers),
            )
        else:
            beyond += of_other.foreign
            strangers += of_other.strangers
    return recount._replace(ranges=tuple(ranges), beyond=beyond, strangers=strangers)
