"""Virtual time and a seeded scheduler: one task at a time, which goes on where it waits for something.

A task is a greenlet. It gives way only in ``World.wait``: before a request is answered, while it sleeps, and
where it waits for another task. So a history depends on nothing but its seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from greenlet import getcurrent, greenlet

BEGAN: Final = 1_790_000_000.0
"""The moment at which each history begins, in seconds since 1970."""
_TICK_S: Final = 1e-7
_MOST_REQUESTS: Final = 30_000
_MOST_SECONDS: Final = 6 * 3600.0


class Killed(BaseException):
    """The process of this task was killed: nothing that it does from now on has any effect."""


class Endless(BaseException):
    """A history that does not end within its budget of requests and time, or in which all wait for each other."""


class Process:
    """An operating system's process: what it runs ends together.

    Attributes:
        dead: whether it was killed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False


class Task:
    """Something that runs by itself: a process's main thread, or another one.

    Attributes:
        process: whose it is.
        done: whether it has ended.
        error: what it raised; None if nothing.
        result: what it returned.
    """

    def __init__(self, process: Process, do: Callable[[], Any]) -> None:
        self.process = process
        self.done = False
        self.error: BaseException | None = None
        self.result: Any = None
        self._do = do
        self.ready: Callable[[], bool] | None = None
        self.until = 0.0
        self.greenlet: Any = greenlet(self._run)

    def _run(self) -> None:
        try:
            self.result = self._do()
        except BaseException as error:
            self.error = error
        self.done = True


class World:
    """Time, tasks and events of one history.

    Args:
        seed: decides whose turn it is.

    Attributes:
        now: seconds since the history began.
        clock_off: how far the processes' clocks are ahead of brokers'.
        requests: how many were made.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.clock_off = 0.0
        self.requests = 0
        self._tasks: list[Task] = []
        # Where a task goes on that has nothing to do.
        self._hub: Any = getcurrent()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._ticks = 0.0

    @property
    def current(self) -> Task:
        """The task whose turn it is."""
        found: Task = getcurrent().task
        return found

    @property
    def is_here(self) -> bool:
        """Whether one of its tasks asks, and not a thread that another test has left."""
        return hasattr(getcurrent(), "task")

    @property
    def is_idle(self) -> bool:
        """Whether no task goes on."""
        return not self._tasks

    def monotonic(self) -> float:
        """A clock that never stands still: a reader that takes no time at all would never ask ahead."""
        self._ticks += _TICK_S
        return 1000.0 + self.now + self._ticks

    def wall(self) -> float:
        """What the machine's clock shows, in seconds since 1970."""
        return BEGAN + self.now + self.clock_off

    def at(self, moment: float, do: Callable[[], None]) -> None:
        """Let something happen by itself at a moment of ``now``."""
        heapq.heappush(self._events, (moment, next(self._numbers), do))

    def spawn(self, process: Process, do: Callable[[], Any]) -> Task:
        """Begin a task."""
        task = Task(process, do)
        task.greenlet.task = task
        task.greenlet.parent = self._hub
        self._tasks.append(task)
        return task

    def run(self, process: Process, do: Callable[[], Any]) -> Any:
        """Run ``do`` and all that it begins, and give what it returns; called from outside of any task."""
        main = self.spawn(process, do)
        while not main.done:
            self._step()
        if main.error:
            raise main.error
        return main.result

    def wait(self, ready: Callable[[], bool] | None = None, seconds: float = 0.0) -> bool:
        """Give way until ``ready``, or until so many seconds have passed; returns whether it was ready."""
        task = self.current
        if task.process.dead:
            raise Killed
        task.ready, task.until = ready, self.now + seconds
        if len(self._tasks) > 1:
            self._hub.switch()
        while not self._is_ready(task):
            self._let_time_pass()
        if task.process.dead:
            raise Killed
        return bool(ready and ready())

    def join(self, task: Task) -> Any:
        """Wait until a task has ended; gives what it returned, or raises what it raised."""
        self.wait(lambda: task.done, _MOST_SECONDS)
        if task.error:
            raise task.error
        return task.result

    def count_request(self) -> None:
        """Count a request of any process.

        Raises:
            Endless: if there were too many.
        """
        self.requests += 1
        if self.requests > _MOST_REQUESTS:
            raise Endless(f"more than {_MOST_REQUESTS} requests")

    def _step(self) -> None:
        now = self.now
        ready = [
            it
            for it in self._tasks
            if it.until <= now or it.process.dead or (it.ready and it.ready())
        ]
        if not ready:
            self._let_time_pass()
            return
        task = ready[self.random.randrange(len(ready))] if len(ready) > 1 else ready[0]
        task.greenlet.switch()
        if task.done:
            self._tasks.remove(task)
            if isinstance(task.error, Endless):
                raise task.error

    def _is_ready(self, task: Task) -> bool:
        return task.process.dead or task.until <= self.now or bool(task.ready and task.ready())

    def _let_time_pass(self) -> None:
        moments = [task.until for task in self._tasks]
        if self._events:
            moments.append(self._events[0][0])
        if not moments or min(moments) > _MOST_SECONDS:
            raise Endless(f"more than {_MOST_SECONDS:.0f} seconds, or all wait for each other")
        self.now = max(self.now, min(moments))
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()

    def pass_time(self, seconds: float) -> None:
        """Let time pass between runs, while nothing runs."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            moment, _, do = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            do()
        self.now = until
