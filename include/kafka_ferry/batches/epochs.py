"""Which leader epochs a log was copied in, and where it left the log that its cluster has now. Pure.

A follower whose log has a tail that the leader lacks goes back through its own epochs until it finds one that
the leader has too (KIP-101; ``ReplicaFetcherThread``, ``OffsetTruncationState``)::

    copied   epoch 3 [0 ..... 100)  epoch 5 [100 .. 150)
    source   epoch 3 [0 ............. 120)  epoch 6 [120 ..... 160)      they part at 100
    source   epoch 3 [0 .... 90)  epoch 6 [90 .............. 160)        they part at 90

The end of epoch 5 or older on the source says only the latter: a longer epoch 3 hides the former.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

UNKNOWN_EPOCH: Final = -1
"""Stands for a leader epoch that is not known."""
OLDEST_EPOCH: Final = 0
"""What stands for the leader epoch before a log's start, which brokers forget.

The oldest epoch that they know ends where the log starts, or later, as long as it is that log.
"""


class EpochSpan(NamedTuple):
    """Source offsets ``[start, end)``, all of whose batches are of one leader epoch."""

    start: int
    end: int
    epoch: int


class EpochEnd(NamedTuple):
    """The newest epoch of a log that is not newer than one that was asked for, and the offset after its last."""

    epoch: int
    end: int


class EpochHistory(NamedTuple):
    """The epochs of what was copied of a partition.

    Attributes:
        spans: the epochs, ascending.
        is_whole: whether the epochs before the first span are known too, since there are none.
    """

    spans: tuple[EpochSpan, ...] = ()
    is_whole: bool = True


def epoch_of(number: int) -> int:
    """A leader epoch as a broker has written it: with Kafka's own clients, any negative one is not known."""
    return number if number >= 0 else UNKNOWN_EPOCH


def add_span(spans: list[EpochSpan], span: EpochSpan) -> None:
    """Append a span that follows; it becomes one with the last if both are of one epoch."""
    if spans and spans[-1].epoch == span.epoch:
        spans[-1] = spans[-1]._replace(end=span.end)
    else:
        spans.append(span)


def branch_end(history: EpochHistory, end_of: Callable[[int], EpochEnd | None]) -> int | None:
    """The offset up to which what was copied is what the source's log has; None where that is unknown.

    Args:
        history: the epochs of what was copied.
        end_of: what the source says of an epoch; None where it knows nothing of it or any older one.
    """
    spans: Sequence[EpochSpan] = history.spans
    while spans:
        epoch = spans[-1].epoch
        epoch_end = end_of(epoch)
        if epoch_end is None or epoch_end.epoch < 0:
            return None
        older = [span for span in spans if span.epoch <= epoch_end.epoch]
        if not older:
            return min(epoch_end.end, spans[0].start) if history.is_whole else None
        if older[-1].epoch == epoch_end.epoch:
            return min(older[-1].end, epoch_end.end)
        spans = older
    return None
