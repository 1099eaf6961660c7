"""Reads of state stores for the API server and the triggerer, which never wait long for a store.

A store that does not answer would keep one of their few threads for each request, and soon all of Airflow would wait
for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final, TypeVar

from kafka_ferry.errors import FerryError
from kafka_ferry.state import reads_at_most

_T = TypeVar("_T")
DEADLINE_S: Final = 8.0
"""How long a page waits for a store."""
_LONGEST_S: Final = 60.0
_LOOK_S: Final = 0.5
# What the API server's memory has room for, several times.
_LARGEST_FILE: Final = 128 * 1024 * 1024
_MOST_TOGETHER: Final = 4 * _LARGEST_FILE
# Of the forty that answer requests, by default.
_MOST_THREADS: Final = 24


class StoreSilent(FerryError):
    """A state store does not answer."""

    transient = True

    def __init__(self, store: str) -> None:
        super().__init__(
            f"The state store {store.partition('?')[0]} does not answer.",
            advice="Check it, its address in state.dir, and the network between it and this process of Airflow's.",
        )


class StoreReads:
    """Runs reads of stores in threads of their own, and waits for each until its deadline.

    a. No read makes its caller wait longer than ``seconds`` for the store. Time in which the read computes, on a
       busy machine, is not the store's; with it, no read takes longer than ``_LONGEST_S``.
    b. A store with a read beyond its deadline is not asked again before that one has ended: its readers are refused at
       once, and it never holds more than a few threads.
    c. A read beyond its deadline ends when the store lets it, without a reader; it does not keep the process alive.

    Args:
        seconds: how long a store may keep a read waiting.
    """

    def __init__(self, seconds: float = DEADLINE_S) -> None:
        self._seconds = seconds
        self._late: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    def read(self, store: str, work: Callable[[], _T]) -> _T:
        """What ``work`` returns or raises.

        Args:
            store: the store that it reads, as the flow's file says.
            work: reads it.

        Raises:
            StoreSilent: it took too long, or an earlier one of the same store still does.
        """
        return self.start(store, work)()

    def start(self, store: str, work: Callable[[], _T]) -> Callable[[], _T]:
        """Begin a read; what it returns waits for it as ``read`` does, from now on."""
        began = monotonic()
        result: Future[_T] = Future()
        with self._lock:
            if self._late[store] or self._running[store] >= _MOST_THREADS:
                result.set_exception(StoreSilent(store))
                return result.result
            self._running[store] += 1
        isolated = threading.Thread(
            target=self._run, args=(store, work, result), name="kafka-ferry-store", daemon=True
        )
        isolated.start()
        return lambda: self._wait(store, result, isolated, began)

    def _run(self, store: str, work: Callable[[], _T], found: Future[_T]) -> None:
        try:
            with reads_at_most(_LARGEST_FILE, _MOST_TOGETHER):
                result = work()
        except Exception as error:
            self._end(store, found, partial(found.set_exception, error))
        except BaseException as error:
            # Raised in the request that waits for it, it would end the API server.
            failure = RuntimeError(f"{type(error).__name__} in a read of a store")
            self._end(store, found, partial(found.set_exception, failure))
        else:
            self._end(store, found, partial(found.set_result, result))

    def _end(self, store: str, result: Future[_T], tell: Callable[[], None]) -> None:
        with self._lock:
            self._running[store] -= 1
            if result.cancelled():
                self._late[store] -= 1
            else:
                tell()

    def _wait(self, store: str, result: Future[_T], thread: threading.Thread, began: float) -> _T:
        computed, waits_since = 0, began
        while not result.done():
            now = monotonic()
            if (ticks := _ticks(thread)) > computed:
                computed, waits_since = ticks, now
            left = min(waits_since + self._seconds, began + _LONGEST_S) - now
            if left > 0:
                wait([result], timeout=min(left, _LOOK_S))
                continue
            with self._lock:
                if not result.done() and result.cancel():
                    self._late[store] += 1
                    raise StoreSilent(store)
        return result.result()


def _ticks(thread: threading.Thread) -> int:
    """The processor's time that a thread has had, in hundredths of a second; 0 where the system does not say."""
    try:
        stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    except OSError:
        return 0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


READS: Final = StoreReads()
"""The reads of this process."""
