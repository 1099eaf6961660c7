"""Topics whose producers batched differently, copied by ``ferry run`` with the flow's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.clusters import Clusters
from benchmarks.copiers import Copier
from benchmarks.loads import WholeTopic
from benchmarks.topics import Topic

PARTITIONS = 8


@dataclass(frozen=True)
class Case:
    """A topic whose producer batched in some way, and how it is copied.

    Attributes:
        topic: its name.
        batch: the producer's ``batch.size`` in bytes.
        options: of the flow.
        transaction: records in each of the producer's transactions, over all partitions; 0 for none.
        share: how much of the records that were asked for the topic gets.
    """

    topic: str
    batch: int
    options: dict[str, object] = field(default_factory=dict)
    transaction: int = 0
    share: float = 1.0

    def load(
        self, clusters: Clusters, copiers: Sequence[Copier], records: int, size: int
    ) -> WholeTopic:
        """The case as a load."""
        topic = Topic(self.topic, PARTITIONS, size, self.batch, self.transaction)
        count = int(records * self.share)
        return WholeTopic(self.topic, copiers, clusters, topic, count, self.options)


PRESERVED: dict[str, object] = {"offsets": "preserved"}
UNJOINED: dict[str, object] = {"join.batches.below": 0}
CASES = (
    Case("large-batches", 1_000_000),
    Case("16-KiB-batches", 16_384),
    Case("16-KiB-unjoined", 16_384, UNJOINED),
    Case("4-KiB-batches", 4_096),
    Case("4-KiB-unjoined", 4_096, UNJOINED),
    Case("large-preserved", 1_000_000, PRESERVED),
    Case("16-KiB-preserved", 16_384, PRESERVED),
    Case("4-KiB-preserved", 4_096, PRESERVED),
    # 1,000 transactions of 100 records: 8,000 offsets without one.
    Case("transactions", 16_384, {}, 100, 0.1),
    Case("transactions-preserved", 16_384, PRESERVED, 100, 0.1),
    Case("transactions-markers", 16_384, PRESERVED | {"fill": "markers"}, 100, 0.1),
)
EVERYDAY = "everyday"
ACCURACY = "accuracy"
