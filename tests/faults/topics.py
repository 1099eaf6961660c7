"""The source's topics in a storm: how each is written, kept and copied."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.support.records.builders import ConsumedRecord

Ruled = Callable[[ConsumedRecord], ConsumedRecord | None]


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
        rule: its transform rule, without topics; none where it is empty.
        ruled: what the rule makes of a record.
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
    rule: Mapping[str, object] = field(default_factory=dict)
    ruled: Ruled = lambda record: record


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
        "compacted", preserved=True, configs=_COMPACTED_AT_ONCE, counts=_FEW, compacted=True
    ),
    StormTopic("append-time", preserved=True, configs={"message_timestamp_type": "LogAppendTime"}),
    StormTopic("truncated", 2, preserved=True, truncated=True, begins_at=20_000),
)


def _even(record: ConsumedRecord) -> ConsumedRecord | None:
    return None if record.offset % 2 else record


def _masked(record: ConsumedRecord) -> ConsumedRecord:
    if record.value is None:
        return record
    return replace(record, value=hashlib.sha256(record.value).hexdigest().encode())


_EVEN = {"where": "offset % 2 = 0"}
RULED_KINDS = (
    StormTopic("filtered", 2, rule=_EVEN, ruled=_even),
    StormTopic("filtered-in-place", preserved=True, counts=_FEW, rule=_EVEN, ruled=_even),
    StormTopic("masked", 2, rule={"set": {"value": "sha2(value, 256)"}}, ruled=_masked),
)
"""Topics whose records go through a rule, for which a run needs Spark."""
