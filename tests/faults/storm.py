"""A storm: runs of a flow again and again, while faults hit them and the source grows."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_ferry.config import Flow
from kafka_ferry.model import TopicPartition
from tests.faults.evidence import Branch, assert_nothing_else
from tests.faults.faults import Fault
from tests.faults.runs import HANGS_AFTER_S, Running, Runs
from tests.faults.sides import Side
from tests.faults.topics import StormTopic
from tests.support.runs.flows import remote
from tests.support.spark.cluster import SparkCluster

# How often, within a storm, all that consumers of the target see is compared.
_LOOKS = 4
# Or else the faults that can hit a run at its start would crowd out those that hit its copying.
_TIMEOUT_S = 1.0
_TICK_S = 0.05


@dataclass
class Storm:
    """What faults may reach, and what has happened so far.

    Attributes:
        follows: whether runs follow a source whose log has lost records (``on.source.divergence``).
        branches: what the target has of branches that the source has lost.
    """

    flow: Flow
    topics: Sequence[StormTopic]
    runs: Runs
    sides: dict[str, Side]
    chance: random.Random
    spark: SparkCluster | None = None
    faults: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    compared: int = 0
    follows: bool = False
    branches: dict[TopicPartition, Branch] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.runs.note = self.note

    def rage(self, faults: Sequence[Fault], count: int, longest_pause: float) -> None:
        """Let ``count`` faults hit, with pauses of up to ``longest_pause`` seconds between them."""
        weights = [fault.weight for fault in faults]
        while self.faults.total() < count:
            (fault,) = self.chance.choices(faults, weights)
            if self._hits(fault):
                self.faults[fault.name] += 1
                self.note(fault.name)
                self._keep_running(self.chance.uniform(0, longest_pause))
                if self.faults.total() % (count // (_LOOKS + 1) or 1) == 0:
                    self.look()

    def look(self) -> None:
        """Compare what consumers of the target see at this moment, while runs go on.

        Raises:
            AssertionError: if it is not the source's.
        """
        for side in self.sides.values():
            side.wait_ready()
        source, target = (self.sides[name].cluster for name in ("source", "target"))
        seen = sum(
            assert_nothing_else(source, topic, target, remote(self.flow, topic.name))
            for topic in self.topics
            if topic.preserved
        )
        self.note(f"{seen} records on the target are the source's")

    def _hits(self, fault: Fault) -> bool:
        """Strike as soon as there is something to hit; False if that takes too long."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            self._keep_running(_TICK_S)
            if fault.strike(self):
                return True
        return False

    def _keep_running(self, seconds: float) -> None:
        """Let the time pass, with a run active all the while."""
        deadline = time.monotonic() + seconds
        while True:
            self.runs.collect()
            if not self.runs.active:
                self.note(f"{self.runs.start().name} starts")
            if time.monotonic() >= deadline:
                return
            time.sleep(_TICK_S)

    def calm_brokers(self) -> None:
        """Wait until all brokers are up and can be reached."""
        for side in self.sides.values():
            side.wait_ready()
            side.cluster.heal()

    def calm(self, most_runs: int = 5) -> None:
        """Everything up, and runs until one has no failures.

        Raises:
            AssertionError: if ``most_runs`` runs had some, although nothing was wrong any more.
        """
        self.calm_brokers()
        self.runs.finish(HANGS_AFTER_S)
        self.runs.next_arguments = []
        for _ in range(most_runs):
            finished = self.runs.ended["finished"]
            self.note(f"{self.runs.start().name} starts, with no more faults")
            self.runs.finish(HANGS_AFTER_S)
            if self.runs.ended["finished"] > finished:
                return
        raise AssertionError(f"{most_runs} runs failed with everything up.")

    def stable_failures(self, most_runs: int = 6) -> list[str]:
        """What runs say, with everything up, when two of them say the same.

        Raises:
            AssertionError: if they go on saying something else.
        """
        before = None
        for _ in range(most_runs):
            said = self._said(self.runs.start())
            if not said or said == before:
                return said
            before = said
        raise AssertionError(f"{most_runs} runs failed in different ways with everything up.")

    def verify(self) -> list[str]:
        """What a verification of all that was ever copied finds."""
        return self._said(self.runs.start_verification())

    def _said(self, run: Running) -> list[str]:
        self.runs.finish(HANGS_AFTER_S)
        failures = run.failures()
        assert failures is not None, f"{run.name} ended without a word of its own"
        said = sorted(failures)
        self.note(f"{run.name} says {said}")
        return said

    def note(self, what: str) -> None:
        """Write a line into the log."""
        self.log.append(f"{self._time()} {what}")

    def table(self) -> str:
        """Faults and runs so far, by kind."""
        ended = ", ".join(f"{count} {how}" for how, count in sorted(self.runs.ended.items()))
        lines = [f"{count:5} {name}" for name, count in sorted(self.faults.items())]
        said = [f"{count:5} {text}" for text, count in self.runs.sentences.most_common(20)]
        head = f"{self.faults.total()} faults in {self._time()} s; runs: {ended}; "
        head += f"{self.compared} records compared"
        return "\n".join([head, *lines, "What failed runs said (numbers as #):", *said])

    def _time(self) -> str:
        return f"{time.monotonic() - self._began:7.2f}"
