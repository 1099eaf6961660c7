"""Topics whose producers batched differently, copied by ``ferry run`` with the flow's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.copies.clusters import Clusters
from benchmarks.copies.copiers import Copier
from benchmarks.copies.loads import WholeTopic
from benchmarks.copies.topics import BenchmarkTopic

PARTITIONS = 8


@dataclass(frozen=True)
class TopicCase:
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
        topic = BenchmarkTopic(self.topic, PARTITIONS, size, self.batch, self.transaction)
        count = int(records * self.share)
        return WholeTopic(self.topic, copiers, clusters, topic, count, self.options)


PRESERVED: dict[str, object] = {"offsets": "preserved"}
UNJOINED: dict[str, object] = {"join.batches.below": 0}
CASES = (
    TopicCase("large-batches", 1_000_000),
    TopicCase("16-KiB-batches", 16_384),
    TopicCase("16-KiB-unjoined", 16_384, UNJOINED),
    TopicCase("4-KiB-batches", 4_096),
    TopicCase("4-KiB-unjoined", 4_096, UNJOINED),
    TopicCase("large-preserved", 1_000_000, PRESERVED),
    TopicCase("16-KiB-preserved", 16_384, PRESERVED),
    TopicCase("4-KiB-preserved", 4_096, PRESERVED),
    # 1,000 transactions of 100 records: 8,000 offsets without one.
    TopicCase("transactions", 16_384, {}, 100, 0.1),
    TopicCase("transactions-preserved", 16_384, PRESERVED, 100, 0.1),
    TopicCase("transactions-markers", 16_384, PRESERVED | {"fill": "markers"}, 100, 0.1),
)
EVERYDAY = "everyday"
ACCURACY = "accuracy"
