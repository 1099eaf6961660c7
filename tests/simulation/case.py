"""A case: all that decides a history, from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.simulation.fault import Fault
from tests.simulation.fault_kinds import FAULT_KINDS
from tests.simulation.rule import Kind

OFTEN: Final = (1, 2, 3, 5, 8, 13, 30, 80, 200)
RARE: Final = (1, 1, 2, 3)
_BOTH_WAYS: Final = 0.2
_REPAIRS: Final = 0.25
_TAKEOVERS: Final = 0.15
_LETTERS: Final = 0.15
_RULES: Final = 0.25
_CERTIFICATES: Final = 0.15
_CLEARS: Final = 0.2
LARGEST: Final = 400
"""The largest batch in bytes that the target takes where records go to the dead letter topic."""
# By side, the steps and requests between which something begins or ends, and how often one is chosen.
MOMENTS: Final[Mapping[str, Mapping[str, int]]] = {
    "primary": {
        "plan ListOffsets": 2,
        "plan Fetch": 1,
        "mirror Fetch": 6,
        "mirror Metadata": 1,
        "mirror OffsetForLeaderEpoch": 1,
        "verify ListOffsets": 1,
        "sync_groups OffsetFetch": 1,
    },
    "backup": {
        "plan Metadata": 1,
        "plan OffsetFetch": 1,
        "plan ListOffsets": 1,
        "sync_topics Metadata": 1,
        "mirror FindCoordinator": 1,
        "mirror InitProducerId": 2,
        "mirror DescribeProducers": 2,
        "mirror OffsetFetch": 2,
        "mirror AddPartitionsToTxn": 1,
        "mirror AddOffsetsToTxn": 1,
        "mirror Produce": 6,
        "mirror TxnOffsetCommit": 4,
        "mirror EndTxn": 8,
        "mirror WriteTxnMarkers": 2,
        "verify Fetch": 1,
        "verify Produce": 1,
        "publish Produce": 1,
    },
}


@dataclass(frozen=True)
class TopicCase:
    """A topic of a case.

    Attributes:
        compacted: whether it compacts.
        tiered: whether its older records are in remote storage only.
    """

    name: str
    partitions: int
    compacted: bool = False
    tiered: bool = False


@dataclass(frozen=True)
class Case:
    """All that decides a history.

    Attributes:
        records: of each partition in each run.
        options: the flow's.
        transactions: the share of batches that belong to transactions of the source.
        quiet_from: the run from which on nothing new is written.
        backfills: whether the first run begins at the logs' ends, and backfills bring what was before.
        answer_bytes: how much brokers give at a time (``fetch.max.bytes``); 0 for all that is asked for.
        distance_s: how long a request takes at least to the source.
        producers: how many write a partition's transactions on the source, one after the other; 0 for a new one each.
        offset_bytes: how much one request may commit of a group (``max.message.bytes``).
        batch: how many records a producer of the source sends at a time, at most.
        publishes: whether runs write their reports, which costs time and moves nothing.
        reads_slowly: whether the application stays far behind, among what is older than the flow.
        asks: whether a person asks between runs where the application would continue.
        both_ways: whether clients write to both clusters, under the same names, and a flow goes in each direction.
        repairs: whether an operator does what is advised where the flow has stopped.
        takes_over: whether another mirror has copied some of it before.
        letters: whether some records are too large for the target, and go to the dead letter topic.
        rule: whether a rule changes records, leaves some out, and fails for others: by SQL or a function.
        rule_until: the run at which another rule takes its place; 0 for none.
        certifies: whether runs issue certificates.
        clears: whether steps of earlier runs are done again, as when their tasks are cleared.
        reads_beside: whether the application reads on while a run goes on.
        starts_late: whether retention has taken the first records before the flow begins.
    """

    seed: int
    topics: tuple[TopicCase, ...]
    runs: int
    records: int
    options: Mapping[str, object]
    transactions: float
    faults: tuple[Fault, ...]
    quiet_from: int = 9
    backfills: bool = False
    answer_bytes: int = 0
    distance_s: float = 0.0
    producers: int = 0
    offset_bytes: int = 1_048_576
    publishes: bool = True
    batch: int = 8
    asks: bool = False
    reads_slowly: bool = False
    both_ways: bool = False
    repairs: bool = False
    takes_over: bool = False
    letters: bool = False
    rule: Kind = ""
    rule_until: int = 0
    certifies: bool = False
    clears: bool = False
    reads_beside: bool = False
    starts_late: bool = False

    @classmethod
    def of(
        cls, seed: int, fault_kinds: tuple[str, ...] = tuple(FAULT_KINDS), faults: int = 5
    ) -> Case:
        """The case of a seed."""
        rng = random.Random(seed)
        kinds = [(share > rng.random(), rng.random() < 0.4) for share in (0.3, 0.6)]
        backfills = rng.random() < 0.25
        topics = tuple(
            # Brokers tier no topic that they compact (KIP-405).
            TopicCase(
                name, rng.randint(1, 4), compacted and not backfills, tiered and not compacted
            )
            for name, (compacted, tiered) in zip(("orders", "users"), kinds, strict=True)
        )
        options: dict[str, object] = {
            "auto.offset.reset": "latest" if backfills else "earliest",
            "writers": rng.randint(1, 3),
            "on.source.truncation": rng.choice(("fail", "continue")),
            "on.source.divergence": rng.choice(("fail", "continue", "continue")),
            "on.source.topic.recreated": rng.choice(("fail", "append")),
            "on.target.topic.lost": rng.choice(("fail", "recopy")),
            "on.position.moved": rng.choice(("fail", "ledger")),
            "partition.wait.ms": rng.choice((5_000, 60_000)),
            "join.batches.below": rng.choice((0, 32768)),
            "sync.group.offsets.enabled": rng.random() < 0.4,
            "offsets": "translated"
            if backfills
            else rng.choice(("translated", "auto", {"orders": "preserved"})),
            "fill": rng.choice(("markers", "transactions")),
            "transaction.max.bytes": rng.choice((1, 1_000, 67_108_864, 67_108_864)),
        }
        # Few kinds in a history, so that each meets itself and each other more often (swarm testing).
        few = rng.sample(fault_kinds, min(len(fault_kinds), rng.choice((1, 2, 3, 5))))
        chosen: list[Fault] = []
        for kind in rng.choices(few, k=rng.choice((faults // 2, faults, 2 * faults))):
            chosen.append(_aimed(rng, kind, chosen))
        return (
            cls(
                seed,
                topics,
                3,
                rng.choice((20, 50)),
                options,
                rng.choice((0.0, 0.3)),
                tuple(chosen),
                rng.choice((1, 2, 9, 9)),
                backfills,
                rng.choice((0, 0, 1_024, 400)),
                rng.choice((0.0, 0.0, 0.02)),
                rng.choice((1, 2)),
                rng.choice((700, 1_048_576, 1_048_576)),
                rng.random() < 0.25,
                rng.choice((2, 8, 8)),
                rng.random() < 0.15,
                rng.random() < 0.3,
            )
            ._both_ways(rng)
            ._with_repairs(rng)
            ._with_takeover(rng)
            ._with_letters(rng)
            ._with_rotation(rng)
            ._with_retirement(rng)
            ._with_rule(rng)
            ._with_certificates(rng)
            ._with_reader_and_start(rng)
        )

    def _both_ways(self, rng: random.Random) -> Case:
        """Perhaps the same with a flow in each direction."""
        if self.backfills or rng.random() > _BOTH_WAYS:
            return self
        options = {
            **self.options,
            "replication.policy.class": "IdentityReplicationPolicy",
            "on.returned.records": "leave-out",
            "on.foreign.records": "adopt",
            "offsets": "translated",
        }
        # Clients write to the target all the time, and no run writes the marker of one again.
        faults = [it for it in self.faults if it.kind not in ("write foreign", "lose marker")]
        faults = tuple(it._replace(is_back=rng.random() < 0.5) for it in faults)
        asks = rng.random() < 0.3
        return replace(self, options=options, faults=faults, asks=asks, both_ways=True)

    def _with_repairs(self, rng: random.Random) -> Case:
        """Perhaps the same with an operator."""
        if self.backfills or self.both_ways or rng.random() > _REPAIRS:
            return self
        faults = tuple(
            it._replace(at=it.at.replace("mirror", "repair")) if rng.random() < 0.3 else it
            for it in self.faults
            # A topic that the flow names and that is gone would have to be taken out of its file.
            if it.kind != "delete source"
        )
        if rng.random() < 0.5:
            # A run loses some of what it has just copied, which its verification sees.
            pick, run = rng.getrandbits(32), rng.choice((0, 0, 1, 2))
            faults += (Fault("cut target", rng.randint(1, 4), pick, run, "mirror EndTxn"),)
        return replace(self, faults=faults, repairs=True)

    def _with_takeover(self, rng: random.Random) -> Case:
        """Perhaps the same where the flow continues another mirror's copies."""
        if self.backfills or self.both_ways or self.repairs or rng.random() > _TAKEOVERS:
            return self
        policy = {"replication.policy.class": "IdentityReplicationPolicy", "offsets": "translated"}
        faults = tuple(
            it._replace(at=it.at.replace("mirror", "takeover"), run=0) if rng.random() < 0.4 else it
            for it in self.faults
        )
        return replace(self, options={**self.options, **policy}, faults=faults, takes_over=True)

    def _with_letters(self, rng: random.Random) -> Case:
        """Perhaps the same where the target refuses some records."""
        if self.both_ways or self.takes_over or rng.random() > _LETTERS:
            return self
        options = {
            **self.options,
            "on.rejected.record": "dead-letter",
            "topics.configs": {".*": {"max.message.bytes": str(LARGEST)}},
        }
        return replace(self, options=options, letters=True)

    def _with_rotation(self, rng: random.Random) -> Case:
        """Perhaps the same with runs that read again what was proved long ago."""
        within = rng.choice(("", "", "", "", "10 seconds", "5 minutes"))
        options = {**self.options, "verify.everything.within": within} if within else self.options
        return replace(self, options=options)

    def _with_retirement(self, rng: random.Random) -> Case:
        """Perhaps the same where copies of deleted topics are deleted too, soon."""
        if not any(it.kind == "delete source" for it in self.faults) or rng.random() < 0.3:
            return self
        after_ms = rng.choice((1, 100_000))
        retirement = {"on.source.topic.deleted": "retire", "retire.after.ms": after_ms}
        return replace(self, options={**self.options, **retirement})

    def _with_rule(self, rng: random.Random) -> Case:
        """Perhaps the same with a rule that changes records."""
        if self.both_ways or self.takes_over or rng.random() > _RULES:
            return self
        options = {
            **self.options,
            "on.transform.error": rng.choice(("pass", "dead-letter")),
            "verify.transforms": rng.choice((0, 1, "all")),
        }
        kind, until = rng.choice(("sql", "function")), rng.choice((0, 0, 1, 2))
        # A backfill brings what an earlier rule has left out, also what went to the dead letter topic.
        until = 0 if self.backfills else until
        return replace(self, options=options, rule=kind, rule_until=until)

    def _with_certificates(self, rng: random.Random) -> Case:
        """Perhaps the same with certificates, and perhaps with steps that are done again."""
        clears = rng.random() < _CLEARS
        if rng.random() > _CERTIFICATES:
            return replace(self, clears=clears)
        options = {**self.options, "certificates.keep.count": rng.choice((-1, -1, 1, 2))}
        return replace(self, options=options, publishes=True, certifies=True, clears=clears)

    def _with_reader_and_start(self, rng: random.Random) -> Case:
        """Perhaps the same with an application that reads on while a run goes on, or with logs that begin later."""
        is_read = bool(self.options["sync.group.offsets.enabled"])
        is_beside, is_late = is_read and rng.random() < 0.5, rng.random() < 0.2
        # What was deleted before it was copied is refused there.
        is_late &= not (self.backfills or self.takes_over)
        return replace(self, reads_beside=is_beside, starts_late=is_late)


def _aimed(rng: random.Random, name: str, before: Sequence[Fault]) -> Fault:
    """A fault at a boundary more often than anywhere: at the requests of a step's turn, or where another one is."""
    pick, run = rng.getrandbits(32), rng.choice((0, 0, 1, 1, 2))
    kind = FAULT_KINDS[name]
    if kind.once_a_run:
        return Fault(name, rng.choice(RARE), pick, run)
    if rng.random() < 0.25:
        return Fault(name, rng.choice(OFTEN), pick, run)
    fits = {
        moment: weight
        for side, moments in MOMENTS.items()
        for moment, weight in moments.items()
        if kind.side in ("", side) and (not kind.fits or moment.split()[1] in kind.fits)
    }
    near = [it for it in before if it.at in fits]
    if near and rng.random() < 0.5:
        other = rng.choice(near)
        return Fault(name, other.nth + rng.choice((0, 0, 1)), pick, other.run, other.at)
    (moment,) = rng.choices([*fits], [*fits.values()])
    return Fault(name, rng.choice((1, 1, 2, 2, 3, 4, 6)), pick, run, moment)
