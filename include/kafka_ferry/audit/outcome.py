"""What an audit finds out about one pair of partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_ferry.audit.comparison.entries import Entries
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.audit.comparison.walk import WalkState
from kafka_ferry.audit.result import PairCounts
from kafka_ferry.audit.terms import AuditPair


@dataclass
class PairOutcome:
    """The result for a pair, before its topic's other partitions were searched; it pickles.

    Attributes:
        pair: the pair.
        state: of an unfinished walk; None once it is over.
        lost: whether the walk was given up, so that the topic is to be compared without order.
        counts: how its records fared, without those that differ.
        differing: the records that differ, except for ``missing`` and ``foreign``.
        missing: source records that this partition of the target lacks.
        foreign: target records that this partition of the source lacks.
        passes: how often both logs were read.
        seconds: how long it took.
        failure: why the pair could not be compared; "" if it was.
    """

    pair: AuditPair
    state: WalkState | None = None
    lost: bool = False
    counts: PairCounts = field(default_factory=PairCounts)
    differing: list[Differing] = field(default_factory=list)
    missing: Entries = field(default_factory=Entries.of)
    foreign: Entries = field(default_factory=Entries.of)
    passes: int = 1
    seconds: float = 0.0
    failure: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to read."""
        return self.state is None
