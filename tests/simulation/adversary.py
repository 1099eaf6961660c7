"""Injects the faults of a history, each at the request that it waits for."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.messages import name_of
from tests.simulation.fault import Fault, Injection
from tests.simulation.fault_kinds import FAULT_KINDS, of_a_process
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.history import History


def _same(answer: Any) -> Any:
    return answer


@dataclass
class Adversary:
    """Injects the faults of a history.

    Args:
        history: the history.
        faults: the faults.

    Attributes:
        injected: those that were injected.
    """

    history: History
    faults: Iterable[Fault]
    injected: list[Fault] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self._left = list(self.faults)
        self._kinds = {it.kind for it in self._left}
        self._seen: Counter[tuple[str, int, str, bool]] = Counter()

    def _due(self, aim: tuple[str, int, str, bool]) -> Fault | None:
        """The fault of an aim that is due now, if one is."""
        if self.is_over:
            return None
        self._seen[aim] += 1
        found = next((it for it in self._left if it.aim == aim and it.nth <= self._seen[aim]), None)
        if found:
            self._left.remove(found)
            self.injected.append(found)
        return found

    def _is_met(self, fault: Fault, request: str = "") -> bool:
        """Whether this is the run, the step and the request that a fault waits for."""
        history = self.history
        return history.number >= fault.run and fault.at in ("", f"{history.step} {request}")

    def before_send(self, cluster: SimCluster, request: Any, process: Process) -> bool:
        """Kill the process that sends a request, or let it stand still, perhaps; returns whether it dies after it."""
        is_task, name = process.name.startswith("task"), name_of(request)
        kinds = ("kill driver", "strand task", "kill task", "pause task")
        for kind in kinds if is_task else kinds[:1]:
            if fault := self.happens(kind, name):
                if is_task and kind in kinds[:2]:
                    self.history.driver.dead = True
                    self.history.note(f"!! the driver is killed while the {process.name} runs")
                    if kind == "kill driver" and fault.pick % 3:
                        # Its executors end with it, or a little later.
                        continue
                is_after = bool(fault.at) and fault.pick % 2 == 0 and kind not in kinds[1::2]
                when = "after" if is_after else "before"
                self.history.note(
                    f"!! {kind}: the {process.name}, {when} {name} to {cluster.alias}"
                )
                if is_after:
                    return True
                if kind == "strand task":
                    # It goes on where a later run has copied what it was to copy.
                    number = self.history.number
                    self.history.world.wait(
                        lambda: self.history.number > number and self.history.judges,  # noqa: B023
                        300.0,
                    )
                elif kind == "pause task":
                    # Or until another run reads back what it has copied.
                    seconds = random.Random(fault.pick).choice((0.5, 20.0, 70.0, 400.0, 401.0))
                    is_until = seconds > 400
                    self.history.world.wait(
                        (lambda: self.history.judges) if is_until else None, seconds
                    )
                else:
                    process.dead = True
        return False

    def happens(self, kind: str, request: str = "") -> Fault | None:
        """Whether something of Spark's or of the operator's goes wrong now."""
        if kind not in self._kinds:
            return None
        aims = {it.aim: it for it in self._left if it.kind == kind and self._is_met(it, request)}
        return next(filter(None, map(self._due, aims)), None)

    def meet(self, cluster: SimCluster, node: int, request: Any, apply: Callable[[], Any]) -> Any:
        """The answer to a request.

        Raises:
            Lost: the connection breaks.
            Unanswered: no answer comes.
        """
        name = name_of(request)
        for fault in () if self.is_over else self._left:
            kind = FAULT_KINDS[fault.kind]
            if kind.do is of_a_process or (kind.fits and name not in kind.fits):
                continue
            way = self.history.ways[fault.is_back]
            if kind.side and cluster is not (way.source if kind.side == "primary" else way.target):
                continue
            # What is lost on the one flow's source is lost on the other one's target.
            is_loss = kind.touches_target or kind.hurts
            harmed = [
                it
                for it in self.history.ways
                if is_loss and (not kind.side or cluster is it.target)
            ]
            if any(it.judging for it in harmed) or not self._is_met(fault, name):
                continue
            if self._due(fault.aim):
                rng = random.Random(fault.pick)
                for it in harmed:
                    it.harmed_at = self.history.world.now
                    if fault.kind != "cut internal":
                        it.spoilt_at = self.history.world.now
                if kind.side and fault.at and fault.pick % 2:
                    # Just after the request, whose answer is on its way.
                    answer = apply()
                    apply = partial(_same, answer)
                answer = kind.do(Injection(way, cluster, node, request, apply, rng))
                return apply() if answer is None else answer
        answer = apply()
        if name == "Fetch":
            self.history.empty_remote(cluster, answer, request)
        return answer
