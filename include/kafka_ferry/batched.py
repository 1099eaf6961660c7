"""``itertools.batched``, which Python has since 3.12."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


def batched(items: Iterable[_T], size: int) -> Iterator[tuple[_T, ...]]:
    """The items in their order, at most ``size`` at a time."""
    rest = iter(items)
    while some := tuple(islice(rest, size)):
        yield some
