"""Files, kept in this process for as long as the files stay as they are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar

from kafka_ferry.errors import FerryError
from kafka_ferry.state import StateFolder

_T = TypeVar("_T")


# In memory, a file of JSON takes about ten times as much.
_MOST_BYTES: Final = 48 * 1024 * 1024


class FileCache:
    """What files hold, each with the stamp that it had then; the least recently used one is dropped first.

    Args:
        keep: how many are kept, of ``_MOST_BYTES`` together.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._made: OrderedDict[tuple[str, ...], tuple[tuple[int, int], Any]] = OrderedDict()
        self._lock = Lock()

    def load(self, folder: StateFolder, name: str, parse: Callable[[bytes], _T]) -> _T | None:
        """What ``parse`` makes of a file; None if there is no file, or another release wrote it."""
        stamp = folder.stamp(name)
        if stamp is None:
            return None

        def read() -> _T | None:
            content = folder.read(name)
            try:
                return None if content is None else parse(content)
            except FerryError:
                return None

        return self.get((folder.location, name, parse.__qualname__), stamp, read)

    def get(self, key: tuple[str, ...], stamp: tuple[int, int], make: Callable[[], _T]) -> _T:
        """The value made for ``key`` at the same stamp; else it is made now."""
        with self._lock:
            known = self._made.get(key)
            if known and known[0] == stamp:
                self._made.move_to_end(key)
                value: _T = known[1]
                return value
        # Not under the lock: parsing a large file must not block readers of a small one.
        made = make()
        with self._lock:
            self._made[key] = (stamp, made)
            self._made.move_to_end(key)
            while len(self._made) > self._keep or self._bytes > _MOST_BYTES:
                self._made.popitem(last=False)
        return made

    @property
    def _bytes(self) -> int:
        return sum(size for (_, size), _ in self._made.values())


SMALL: Final = FileCache(2_000)
"""For files of a few hundred lines at most."""
LARGE: Final = FileCache(24)
"""For files that may have a line for each of ten thousand partitions."""
