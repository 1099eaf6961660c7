"""The source's topics in a storm: how each is written, kept and copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StormTopic:
    """A topic of the source.

    Attributes:
        name: its name.
        partitions: how many it has.
        preserved: whether its records keep their offsets on the target.
        configs: its configs; the dots of their names are underscores.
        counts: how many records a portion may have.
        transactional: whether every record is of a transaction.
        compacted: whether the cleaner removes records, on both sides.
        truncated: whether the storm deletes its oldest records now and then.
        begins_at: where the log of its first partition starts before the storm.
    """

    name: str
    partitions: int = 1
    preserved: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    counts: Sequence[int] = (1, 5, 20, 100, 200)
    transactional: bool = False
    compacted: bool = False
    truncated: bool = False
    begins_at: int = 0


# An offset without a record takes up to 6 ms of copying: where most are without, they are few.
_FEW = (1, 2, 5, 10)
_COMPACTED_AT_ONCE = {
    "cleanup_policy": "compact",
    "segment_ms": "1000",
    "min_cleanable_dirty_ratio": "0.01",
}

KINDS = (
    StormTopic("translated", 3),
    StormTopic("translated-too", 1),
    StormTopic("plain", 2, preserved=True),
    StormTopic("transactions", 2, preserved=True, counts=_FEW, transactional=True),
    StormTopic(
        "compacted",
        preserved=True,
        configs=_COMPACTED_AT_ONCE,
        counts=_FEW,
        compacted=True,
    ),
    StormTopic("append-time", preserved=True, configs={"message_timestamp_type": "LogAppendTime"}),
    StormTopic("truncated", 2, preserved=True, truncated=True, begins_at=20_000),
)
