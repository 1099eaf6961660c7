"""Coordinators of transactions and of groups, as Kafka's documents and TransactionCoordinator have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.cluster import SimCluster

NONE: Final = 0
PRODUCER_EPOCH: Final = 47
TXN_STATE: Final = 48
PRODUCER_MAPPING: Final = 49
CONCURRENT: Final = 51
FENCED: Final = 90
TXN_TIMEOUT: Final = 50
_MARKERS_S: Final = 0.002


class Committed(NamedTuple):
    """A group's offset of a partition."""

    offset: int
    epoch: int
    metadata: str


Offsets = dict[TopicPartition, Committed]


@dataclass
class Transaction:
    """The last transaction of a transactional id.

    Attributes:
        state: Kafka's name of it.
        number: counts transactions and fences, so that a late event finds that it is late.
        last_epoch: the epoch that may still ask for the one after it (KIP-360, KIP-588); -1 for none.
    """

    producer: int
    epoch: int = -1
    state: str = "Empty"
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    timeout_ms: int = 60_000
    began: float = -1.0
    number: int = 0
    last_epoch: int = -1


class Transactions:
    """All transactional ids of a cluster.

    Attributes:
        epoch: the coordinator's own, which its markers carry.
        on_commit: looks at each transaction before it is committed.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.by_id: dict[str, Transaction] = {}
        self.epoch = 0
        self.on_commit: Callable[[Transaction], None] = lambda _: None

    def start(self, name: str, timeout_ms: int, producer: int, epoch: int) -> tuple[int, int, int]:
        """InitProducerId: an error code, producer id and epoch."""
        if not 0 < timeout_ms <= self._cluster.longest_transaction_ms:
            return TXN_TIMEOUT, -1, -1
        known = self.by_id.get(name)
        if known is None:
            known = self.by_id[name] = Transaction(self._cluster.new_producer())
        if producer >= 0 and known.epoch >= 0 and producer != known.producer:
            return PRODUCER_EPOCH, -1, -1
        if known.state in ("PrepareCommit", "PrepareAbort"):
            return CONCURRENT, -1, -1
        if known.state == "Ongoing":
            # Whatever the epoch, which only the next try is asked for (``TransactionCoordinator``).
            self._fence(name, known)
            return CONCURRENT, -1, -1
        if producer < 0 or known.epoch < 0:
            known.epoch, known.last_epoch = known.epoch + 1, -1
        elif epoch == known.epoch:
            known.epoch, known.last_epoch = known.epoch + 1, epoch
        elif epoch != known.last_epoch:
            return PRODUCER_EPOCH, -1, -1
        known.state, known.timeout_ms = "Empty", timeout_ms
        known.partitions, known.groups = set(), set()
        known.number += 1
        return NONE, known.producer, known.epoch

    def _fence(self, name: str, known: Transaction) -> None:
        known.last_epoch, known.epoch = known.epoch, known.epoch + 1
        self._decide(name, known, commit=False)

    def join(
        self,
        name: str,
        producer: int,
        epoch: int,
        partitions: Iterable[TopicPartition] = (),
        group: str = "",
    ) -> int:
        """Add partitions or a group to the transaction, which begins with the first of them."""
        if code := self._refusal(name, producer, epoch):
            return code
        known = self.by_id[name]
        if known.state.startswith("Prepare"):
            return CONCURRENT
        if known.state != "Ongoing":
            known.state, known.began = "Ongoing", self._cluster.world.now
            known.partitions, known.groups = set(), set()
            known.number += 1
            self._end_after(name, known)
        known.partitions |= {*partitions}
        known.groups |= {group} if group else set()
        return NONE

    def _end_after(self, name: str, known: Transaction) -> None:
        number = known.number

        def end() -> None:
            if (known.number, known.state) == (number, "Ongoing") and self.by_id.get(name) is known:
                self._fence(name, known)

        self._cluster.world.at(self._cluster.world.now + known.timeout_ms / 1000, end)

    def _refusal(self, name: str, producer: int, epoch: int) -> int:
        known = self.by_id.get(name)
        if known is None or known.producer != producer:
            return PRODUCER_MAPPING
        return NONE if known.epoch == epoch else FENCED

    def end(self, name: str, producer: int, epoch: int, *, commit: bool) -> int:
        if code := self._refusal(name, producer, epoch):
            return code
        known = self.by_id[name]
        wanted = "Commit" if commit else "Abort"
        if known.state == "Ongoing":
            if commit:
                self.on_commit(known)
            self._decide(name, known, commit=commit)
            return NONE
        if known.state == f"Complete{wanted}":
            return NONE
        return CONCURRENT if known.state == f"Prepare{wanted}" else TXN_STATE

    def _decide(self, name: str, known: Transaction, *, commit: bool) -> None:
        known.state = "PrepareCommit" if commit else "PrepareAbort"
        known.number += 1
        number = known.number

        def write_markers() -> None:
            if (known.number, known.state[:7]) != (number, "Prepare"):
                return
            for tp in sorted(known.partitions):
                if self._cluster.write_marker(tp, known, self.epoch, commit=commit):
                    # Its leader answers with an error, and is asked again.
                    self._cluster.world.at(self._cluster.world.now + 0.05, write_markers)
                    return
                known.partitions = known.partitions - {tp}
            for group in known.groups:
                if self._cluster.lacks_leader(group):
                    self._cluster.skipped_markers.append(TopicPartition(group, -1))
                    continue
                self._cluster.groups.settle(group, known.producer, commit=commit)
            known.state = "CompleteCommit" if commit else "CompleteAbort"
            known.partitions, known.groups = set(), set()

        pause = _MARKERS_S * self._cluster.world.random.choice([0, 1, 1, 10])
        self._cluster.world.at(self._cluster.world.now + pause, write_markers)

    def may_write(self, name: str, producer: int, epoch: int, tp: TopicPartition) -> int:
        """Whether a partition's leader accepts a transactional batch (KIP-890): 0 or an error code."""
        known = self.by_id.get(name)
        if known is None or known.producer != producer:
            return PRODUCER_MAPPING
        if known.epoch != epoch:
            return PRODUCER_EPOCH
        return NONE if known.state == "Ongoing" and tp in known.partitions else TXN_STATE

    def forget(self) -> None:
        """Let idle transactional ids expire."""
        for name, known in [*self.by_id.items()]:
            if known.state in ("Empty", "CompleteCommit", "CompleteAbort"):
                del self.by_id[name]

    def go_back(self, epochs: int) -> None:
        """Lose the newest records of idle transactional ids, as an unclean election of their partition does."""
        for known in self.by_id.values():
            if known.state in ("Empty", "CompleteCommit", "CompleteAbort"):
                known.epoch, known.last_epoch = max(known.epoch - epochs, 0), -1


class Groups:
    """All groups of a cluster: what they have committed, and what transactions still hold back."""

    def __init__(self) -> None:
        self.offsets: dict[str, Offsets] = {}
        self._pending: dict[tuple[str, int], Offsets] = {}
        self.history: list[tuple[float, dict[str, Offsets]]] = []
        self.now: Callable[[], float] = lambda: 0.0

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets at once."""
        self._remember()
        self.offsets.setdefault(group, {}).update(offsets)

    def hold(self, group: str, producer: int, offsets: Offsets) -> None:
        """Commit offsets as a part of a transaction."""
        self._pending.setdefault((group, producer), {}).update(offsets)

    def settle(self, group: str, producer: int, *, commit: bool) -> None:
        """End a transaction's offsets."""
        held = self._pending.pop((group, producer), {})
        if commit and held:
            self.commit(group, held)

    def held(self, group: str, producer: int) -> Offsets:
        """What a producer's transaction holds back."""
        return self._pending.get((group, producer), {})

    def pending(self) -> Iterator[tuple[str, TopicPartition]]:
        """The groups' partitions of which a transaction holds an offset back."""
        return ((group, tp) for (group, _), held in self._pending.items() for tp in held)

    def _remember(self) -> None:
        self.history.append((self.now(), {name: {**it} for name, it in self.offsets.items()}))

    def go_back(self, moment: float) -> None:
        """Lose what was committed since a moment, as an unclean election of an internal partition does."""
        for at, before in self.history:
            if at >= moment:
                self.offsets = {name: {**it} for name, it in before.items()}
                return
