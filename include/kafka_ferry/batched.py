"""Items in parts, by their number (``itertools.batched``, which Python has since 3.12) or by their weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


def batched(items: Iterable[_T], size: int) -> Iterator[tuple[_T, ...]]:
    """The items in their order, at most ``size`` at a time."""
    rest = iter(items)
    while some := tuple(islice(rest, size)):
        yield some


def batched_by_weight(weights: Mapping[_T, int], most: int) -> Iterator[list[_T]]:
    """The keys in their order, at a time as many as weigh ``most`` together; a heavier one comes alone."""
    some: list[_T] = []
    total = 0
    for item, weight in weights.items():
        if some and total + weight > most:
            yield some
            some, total = [], 0
        some.append(item)
        total += weight
    if some:
        yield some
