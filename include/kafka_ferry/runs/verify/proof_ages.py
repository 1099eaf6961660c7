"""When each range that the target still has was last read back, by the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kafka_ferry.ledger.proofs import verifications
from kafka_ferry.ledger.queries.range_columns import Offsets, TargetRanges, target_ranges
from kafka_ferry.model import TopicPartition
from kafka_ferry.verify.rotation import ProvedEntry

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from kafka_ferry.control import ClusterControl
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic
    from kafka_ferry.model.cluster_state import LogBounds

# The log of a topic that is gone starts after everything.
_GONE: Final = 2**62


@dataclass(frozen=True)
class ProofAges:
    """The proved ranges whose records the target still has, at least in part.

    Attributes:
        ledger_offsets: the ledger's record of each range.
        bytes: bytes of its batches.
        proved_at: when it was last read back, in milliseconds since 1970.
        partitions: its *target* partition, as an index into ``names``.
        names: the target partitions.
    """

    ledger_offsets: Offsets
    bytes: Offsets
    proved_at: Offsets
    partitions: Offsets
    names: tuple[TopicPartition, ...]

    @property
    def oldest(self) -> int:
        """When the range was read back that was not read for the longest time; 0 where there is none."""
        return int(self.proved_at.min()) if len(self.proved_at) else 0

    def by_partition(self) -> dict[TopicPartition, int]:
        """When the oldest proof of each *target* partition was last read back, in milliseconds since 1970."""
        oldest = np.full(len(self.names), _GONE, np.int64)
        np.minimum.at(oldest, self.partitions, self.proved_at)
        return {
            tp: int(at) for tp, at in zip(self.names, oldest.tolist(), strict=True) if at != _GONE
        }

    def entries(self) -> list[ProvedEntry]:
        """The size and the oldest proof of each record of the ledger."""
        offsets, firsts, inverse = np.unique(
            self.ledger_offsets, return_index=True, return_inverse=True
        )
        sizes = np.zeros(len(offsets), np.int64)
        np.add.at(sizes, inverse, self.bytes)
        columns = (offsets, sizes, self.proved_at[firsts])
        return [
            ProvedEntry(*row) for row in zip(*(column.tolist() for column in columns), strict=True)
        ]


def proof_ages(ledger: LedgerTable, target: ClusterControl) -> ProofAges:
    """When the ranges in the ledger, as it was last projected, were last read back.

    Args:
        ledger: the flow's ledger.
        target: says which of them the target still has.

    Raises:
        FerryError: if the target does not answer.
    """
    ranges = target_ranges(ledger, before=ledger.verified_through())
    names = {tp.topic for tp, _ in ranges.names}
    topics, hidden = target.readable_topics(names) if names else ({}, {})
    logs = target.log_bounds(topics.values(), "read_uncommitted") if topics else {}
    return ages_of(ledger, ranges, topics, logs, hidden)


def ages_of(
    ledger: LedgerTable,
    ranges: TargetRanges,
    topics: Mapping[str, Topic],
    logs: Mapping[TopicPartition, LogBounds],
    hidden: Container[str],
) -> ProofAges:
    """``proof_ages`` by what was read.

    Args:
        ledger: the flow's ledger.
        ranges: its ranges that are proved.
        topics: the remote topics that exist, by name.
        logs: where their logs start.
        hidden: the remote topics that may not be described: they may still have all that was copied.
    """
    released = ledger.released_topics()
    starts = []
    for tp, topic_id in ranges.names:
        existing = topics.get(tp.topic)
        is_same = existing and topic_id in ("", existing.topic_id) and topic_id not in released
        start = logs[tp].start if is_same and tp in logs else _GONE
        starts.append(0 if tp.topic in hidden else start)
    alive = ranges.target_ends > np.array(starts, np.int64)[ranges.partitions]
    return ProofAges(
        ranges.ledger_offsets[alive],
        ranges.bytes[alive],
        _proof_times(ledger, ranges.ledger_offsets)[alive],
        ranges.partitions[alive],
        tuple(tp for tp, _ in ranges.names),
    )


def _proof_times(ledger: LedgerTable, offsets: Offsets) -> Offsets:
    """When the ledger's records at these offsets, all of them proved, were last read back."""
    times = np.full(len(offsets), _GONE, np.int64)
    for one in verifications(ledger):
        # The first one that has come past a range has read it.
        fresh = (times == _GONE) & (offsets < one.through)
        times[fresh] = one.proof.at
        for start, end in one.again:
            times[(offsets >= start) & (offsets < end)] = one.proof.at
    return times
