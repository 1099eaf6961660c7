"""Lets the faults of a history strike, each at the request that it waits for."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.messages import name_of
from tests.simulation.powers import POWERS, of_a_process
from tests.simulation.strikes import Strike
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.history import History


class Fault(NamedTuple):
    """A power that strikes once.

    Attributes:
        power: its name.
        nth: at which of the requests that it fits.
        pick: what it draws its choices from.
        run: from which run on; the first is 0.
        at: the step and the request that it waits for, each "" for any: "mirror EndTxn".
    """

    power: str
    nth: int
    pick: int
    run: int = 0
    at: str = ""

    @property
    def aim(self) -> tuple[str, int, str]:
        """What is counted for it."""
        return self.power, self.run, self.at


def _same(answer: Any) -> Any:
    return answer


@dataclass
class Adversary:
    """Strikes with the faults of a history.

    Args:
        history: the history.
        faults: the faults.

    Attributes:
        struck: the faults that have struck.
    """

    history: History
    faults: Iterable[Fault]
    struck: list[Fault] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self._left = list(self.faults)
        self._powers = {it.power for it in self._left}
        self._seen: Counter[tuple[str, int, str]] = Counter()

    def _due(self, aim: tuple[str, int, str]) -> Fault | None:
        """The fault of an aim that strikes now, if one does."""
        if self.is_over:
            return None
        self._seen[aim] += 1
        found = next((it for it in self._left if it.aim == aim and it.nth <= self._seen[aim]), None)
        if found:
            self._left.remove(found)
            self.struck.append(found)
        return found

    def _is_met(self, fault: Fault, request: str = "") -> bool:
        """Whether this is the run, the step and the request that a fault waits for."""
        history = self.history
        return history.number >= fault.run and fault.at in ("", f"{history.step} {request}")

    def before_send(self, cluster: SimCluster, request: Any, process: Process) -> bool:
        """Kill the process that sends a request, or let it stand still, perhaps; returns whether it dies after it."""
        is_task, name = process.name.startswith("task"), name_of(request)
        for power in ("kill driver", "kill task", "pause task")[: 3 if is_task else 1]:
            if fault := self.happens(power, name):
                if is_task and power == "kill driver":
                    self.history.driver.dead = True
                    self.history.tell(f"!! the driver is killed while the {process.name} runs")
                    if fault.pick % 3:
                        # Its executors end with it, or a little later.
                        continue
                is_after = bool(fault.at) and fault.pick % 2 == 0 and power != "pause task"
                when = "after" if is_after else "before"
                self.history.tell(
                    f"!! {power}: the {process.name}, {when} {name} to {cluster.alias}"
                )
                if is_after:
                    return True
                if power == "pause task":
                    # Or until another run reads back what it has copied.
                    seconds = random.Random(fault.pick).choice((0.5, 20.0, 70.0, 400.0, 401.0))
                    is_until = seconds > 400
                    self.history.world.wait(
                        (lambda: bool(self.history.judging)) if is_until else None, seconds
                    )
                else:
                    process.dead = True
        return False

    def happens(self, power: str, request: str = "") -> Fault | None:
        """Whether something of Spark's or of the operator's goes wrong now."""
        if power not in self._powers:
            return None
        aims = {it.aim: it for it in self._left if it.power == power and self._is_met(it, request)}
        return next(filter(None, map(self._due, aims)), None)

    def doubles_task(self) -> bool:
        """Whether Spark starts a task twice."""
        return bool(self.happens("double task"))

    def loses_result(self) -> bool:
        """Whether a task's result does not arrive."""
        return bool(self.happens("lose result"))

    def meet(self, cluster: SimCluster, node: int, request: Any, apply: Callable[[], Any]) -> Any:
        """The answer to a request.

        Raises:
            Lost: the connection breaks.
            Unanswered: no answer comes.
        """
        name = name_of(request)
        for fault in () if self.is_over else self._left:
            power = POWERS[fault.power]
            if power.do is of_a_process or (power.fits and name not in power.fits):
                continue
            if power.side and cluster.alias != power.side:
                continue
            if (power.touches_target and self.history.judging) or not self._is_met(fault, name):
                continue
            if self._due(fault.aim):
                rng = random.Random(fault.pick)
                if power.touches_target:
                    self.history.harmed_at = self.history.world.now
                    if fault.power != "cut internal":
                        self.history.spoilt_at = self.history.world.now
                if power.side and fault.at and fault.pick % 2:
                    # Just after the request, whose answer is on its way.
                    answer = apply()
                    apply = partial(_same, answer)
                return power.do(Strike(self.history, cluster, node, request, apply, rng))
        answer = apply()
        if name == "Fetch":
            self.history.empty_remote(cluster, answer, request)
        return answer
