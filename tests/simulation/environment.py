"""What stands in for the machine: sockets, threads, clocks, files, Spark, and Great Expectations.

Everything else is the product's own code. Spark is replaced by its contract (``spark.query``): a micro-batch that
did not end comes again as it was planned; tasks run in any order, side by side, more than once, or are killed.
"""

from __future__ import annotations

import os
import queue
import random
import stat
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import pyarrow.compute as pc

import kafka_ferry.control.cluster as control
import kafka_ferry.copy.source.fetcher
import kafka_ferry.copy.source.prefetch
import kafka_ferry.copy.target.transaction
import kafka_ferry.copy.task
import kafka_ferry.spark.query as query
import kafka_ferry.spark.recount
import kafka_ferry.spark.transforms as by_rules
import kafka_ferry.spark.transforms.evaluate_again as evaluate_again
import kafka_ferry.state as state
import kafka_ferry.wire.partitions.fetch
import kafka_ferry.wire.silent_brokers
from kafka_ferry.config import Cluster, kafka_python_config
from kafka_ferry.control.wire_admin import WireAdmin
from kafka_ferry.errors import SparkFailed
from kafka_ferry.ledger.table_files import TableFiles, TablePart
from kafka_ferry.spark.checkpoint import QueryCheckpoint, StartRanges
from kafka_ferry.verify.expectations import judge
from kafka_ferry.wire import pool
from kafka_ferry.wire.connections import brokers
from tests.simulation.brokers.connection import Network, Select, SimConnection
from tests.simulation.rule import run_by_rules
from tests.simulation.world import Killed, Process, Task, World
from tests.support.runs.predicates import judge_by_predicates

_TRIES: Final = 4


class Thread:
    """``threading.Thread``."""

    def __init__(self, target: Callable[..., Any], args: Sequence[Any] = (), **_: object) -> None:
        self._target, self._args = target, args
        self._task: Task | None = None

    def start(self) -> None:
        world = Network.here.world
        self._task = world.spawn(world.current.process, lambda: self._target(*self._args))

    def join(self) -> None:
        task = self._task
        assert task
        Network.here.world.wait(lambda: task.done, float("inf"))


class Event:
    """``threading.Event``."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        Network.here.world.wait(lambda: self._is_set, timeout)
        return self._is_set


class Queue:
    """``queue.Queue``."""

    def __init__(self, maxsize: int) -> None:
        self._size, self._items = maxsize, deque[Any]()

    @classmethod
    def __class_getitem__(cls, _: object) -> type:
        return cls

    def put(self, item: Any, timeout: float) -> None:
        if not Network.here.world.wait(lambda: len(self._items) < self._size, timeout):
            raise queue.Full
        self._items.append(item)

    def get(self, timeout: float) -> Any:
        if not Network.here.world.wait(lambda: bool(self._items), timeout):
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class Pool:
    """``ThreadPoolExecutor``."""

    def __init__(self, *_: object, **__: object) -> None:
        self._tasks: list[Task] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._tasks:
            Network.here.world.wait(lambda task=task: task.done, float("inf"))  # type: ignore[misc]

    def submit(self, do: Callable[..., Any], *args: Any) -> Any:
        world = Network.here.world
        task = world.spawn(world.current.process, lambda: do(*args))
        self._tasks.append(task)
        return SimpleNamespace(result=lambda: world.join(task))

    def map(self, do: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [it.result() for it in [self.submit(do, item) for item in items]]


@dataclass
class Spark:
    """A Spark application: its tasks, and what is planned and done by a checkpoint.

    Attributes:
        planned: by checkpoint, the files of the micro-batch that has not ended, and its number.
        seen: by checkpoint, the files that are in a micro-batch.
        late: tasks that go on although no driver waits for them.
        past: the work of all tasks so far.
    """

    planned: dict[str, tuple[list[str], int]] = field(default_factory=dict)
    seen: dict[str, set[str]] = field(default_factory=dict)
    late: list[Task] = field(default_factory=list)
    past: list[Callable[[], Any]] = field(default_factory=list)

    @property
    def sparkContext(self) -> Any:
        return SimpleNamespace(defaultParallelism=2)

    def run_query(
        self,
        _: object,
        __: str,
        checkpoint: QueryCheckpoint,
        start: StartRanges,
        do: Callable[[Any, int], None],
    ) -> None:
        checkpoint.add(start)
        where = checkpoint.location
        files = {name: checkpoint._ranges.read(name) for name in checkpoint._ranges.names()}
        seen = self.seen.setdefault(where, set())
        if not seen & files.keys():
            self.planned.pop(where, None)
        number = len(seen)
        if where in self.planned:
            self._do(where, files, do)
        new = sorted(files.keys() - seen)
        seen.update(new)
        self.planned[where] = new, number
        self._do(where, files, do)

    def _do(self, where: str, files: Mapping[str, bytes | None], do: Callable[..., None]) -> None:
        mine = names, number = self.planned[where]
        rows = [
            SimpleNamespace(value=(files[name] or b"").decode()) for name in names if name in files
        ]
        do(SimpleNamespace(collect=lambda: rows), number)
        world, adversary = Network.here.world, Network.here.adversary
        if adversary.happens("lose commit"):
            # The micro-batch is done, and comes again.
            world.current.process.dead = True
            raise Killed
        if self.planned.get(where) is not mine:
            raise SparkFailed("Another query uses the checkpoint.", advice="Run it again.")
        del self.planned[where]

    def run_in_tasks(
        self, _: object, work: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        world = Network.here.world
        driver = world.current.process
        results: list[Any] = [None] * len(items)
        adversary = Network.here.adversary
        if self.past and (fault := adversary.happens("late task")):
            work_of_old = self.past[fault.pick % len(self.past)]
            self.late.append(world.spawn(Process("task that is late"), work_of_old))
        self.past += [lambda item=item: work(item) for item in items]  # type: ignore[misc]

        def attempt(at: int) -> None:
            for number in range(_TRIES):
                copies = 2 if adversary.happens("double task") else 1
                tasks = [
                    world.spawn(Process(f"task {at}, try {number}"), lambda: work(items[at]))
                    for _ in range(copies)
                ]
                _wait_for_one(tasks)
                self.late += [it for it in tasks if not it.done]
                good = [it for it in tasks if it.done and not it.error]
                if good and not adversary.happens("lose result"):
                    results[at] = good[0].result
                    return
                failed = [it.error for it in tasks if it.error and not isinstance(it.error, Killed)]
                if failed and number == _TRIES - 1:
                    raise failed[0]
            raise SparkFailed(
                "Spark broke off: a task was killed four times.", advice="Run it again."
            )

        attempts = [world.spawn(driver, lambda at=at: attempt(at)) for at in range(len(items))]  # type: ignore[misc]
        for it in attempts:
            world.wait(lambda it=it: it.done, float("inf"))  # type: ignore[misc]
        for it in attempts:
            if it.error:
                raise it.error
        return results


def _wait_for_one(tasks: Sequence[Task]) -> None:
    """Wait until a task has succeeded, or all have ended."""

    def is_over() -> bool:
        left = 0
        for task in tasks:
            if not task.done:
                left += 1
            elif not task.error:
                return True
        return not left

    Network.here.world.wait(is_over, float("inf"))


def _settings_of(cluster: Cluster) -> dict[str, Any]:
    return kafka_python_config(cluster.client_properties("admin"))


def _write_alive(folder: state.StateFolder, name: str, content: bytes | str) -> None:
    """``StateFolder.write`` of a process that lives, on a disk that keeps what is in memory."""
    if Network.here.world.current.process.dead:
        raise Killed
    file = f"{folder._root}/{name}"
    try:
        with FileIO(file, "w") as opened:
            opened.write(content.encode() if isinstance(content, str) else content)
    except FileNotFoundError:
        Path(file).parent.mkdir(parents=True)
        _write_alive(folder, name, content)


def _read_file(folder: state.StateFolder, name: str) -> bytes | None:
    try:
        with FileIO(f"{folder._root}/{name}") as opened:
            return opened.read()
    except FileNotFoundError:
        return None


def _stamps(folder: state.StateFolder, suffix: str = "") -> dict[str, tuple[int, int]]:
    try:
        with os.scandir(folder._root) as entries:
            stats = {it.name: it.stat() for it in entries if it.name.endswith(suffix)}
    except FileNotFoundError:
        return {}
    files = {name: it for name, it in stats.items() if stat.S_ISREG(it.st_mode)}
    return {name: (it.st_mtime_ns, it.st_size) for name, it in files.items()}


def _write_table(files: TableFiles, rows: Any, first: int, following: int) -> str:
    """``TableFiles.write``: the file has the table's number in this history instead of Parquet."""
    name, tables = f"{first:020d}-{following:020d}.parquet", Network.here.tables
    files._folder.write(name, str(len(tables)))
    tables.append(rows)
    return name


def _read_table(files: TableFiles, part: TablePart) -> Any:
    content = files._folder.read(part.name)
    if content is None:
        raise FileNotFoundError(part.name)
    rows = Network.here.tables[int(content)]
    starts = int(part.name.partition("-")[0])
    return rows if starts == part.start else rows.filter(pc.field("ledger_offset") >= part.start)


def _sleep(world: World, really: Callable[[float], None], seconds: float) -> None:
    if world.is_here:
        world.wait(seconds=seconds)
    else:
        really(seconds)


@contextmanager
def simulated(network: Network, spark: Spark, seed: int) -> Iterator[None]:
    """Let the product's code run in a network of simulated brokers, by virtual time."""
    world = network.world
    Network.here = network
    ids = random.Random(seed)
    random.seed(seed)
    pool._POOL.forget()
    kafka_ferry.copy.task.outage_of.cache_clear()
    threads = SimpleNamespace(Thread=Thread, Event=Event, Lock=threading.Lock)
    queues = SimpleNamespace(Queue=Queue, Empty=queue.Empty, Full=queue.Full)
    replaced: list[tuple[Any, str, Any]] = [
        (time, "monotonic", world.monotonic),
        (time, "time", world.wall),
        (time, "time_ns", lambda: int(world.wall() * 1e9)),
        (time, "sleep", partial(_sleep, world, time.sleep)),
        (uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128))),
        (brokers, "Connection", SimConnection),
        (kafka_ferry.wire.silent_brokers, "Connection", SimConnection),
        (brokers, "ThreadPoolExecutor", Pool),
        (kafka_ferry.wire.silent_brokers, "ThreadPoolExecutor", Pool),
        (kafka_ferry.copy.target.transaction, "ThreadPoolExecutor", Pool),
        (kafka_ferry.wire.partitions.fetch, "select", Select),
        (kafka_ferry.copy.source.prefetch, "threading", threads),
        (kafka_ferry.copy.source.prefetch, "queue", queues),
        (control, "admin_config", _settings_of),
        (control, "admin_client", lambda cluster, config: WireAdmin(cluster.alias, config)),
        (query, "run_query", spark.run_query),
        *(
            (module, name, new)
            for module in (query, kafka_ferry.spark.recount, evaluate_again)
            for name, new in (
                ("run_in_tasks", spark.run_in_tasks),
                ("envelope", lambda flow: flow),
                ("open_envelope", lambda flow: flow),
            )
        ),
        *(
            (it, "run_by_rules", run_by_rules(spark.run_in_tasks))
            for it in (by_rules, evaluate_again)
        ),
        (judge, "_judge", judge_by_predicates),
        (state.StateFolder, "write", _write_alive),
        (state.StateFolder, "read", _read_file),
        (state.StateFolder, "stamps", _stamps),
        (TableFiles, "write", _write_table),
        (TableFiles, "_all_rows_of", _read_table),
    ]
    with ExitStack() as stack:
        for where, name, new in replaced:
            stack.enter_context(patch.object(where, name, new))
        yield
