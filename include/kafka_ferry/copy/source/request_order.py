"""Which partitions a broker is asked for next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from kafka_ferry.copy.source.cursor import Cursor
from kafka_ferry.model.ranges import TopicPartition


def most_urgent(ready: Sequence[Cursor]) -> list[Cursor]:
    """The cursors whose turn it is: what would expire first is copied first."""
    wave = min((cursor.wave for cursor in ready), default=0)
    return [cursor for cursor in ready if cursor.wave == wave]


def next_offsets(
    cursors: Sequence[Cursor], most: int, *, was_alone: bool
) -> dict[TopicPartition, int]:
    """What to ask for next: guesses where all partitions have requests in flight.

    Args:
        cursors: those that the broker may be asked for.
        most: the most partitions of one request.
        was_alone: whether the request before was for one partition that has to be alone. Each such one may take
            the broker as long as it waits for remote storage, so the others have a turn after each.
    """
    free = [cursor for cursor in cursors if not cursor.asked]
    alone = [cursor for cursor in free if cursor.must_be_alone][:1]
    together = [cursor for cursor in free if not cursor.must_be_alone]
    by_turn = (together, alone) if was_alone else (alone, together)
    chosen = next(filter(None, by_turn), None) or sorted(cursors, key=lambda cursor: cursor.asked)
    offsets = {
        cursor.range.source: offset
        for cursor in chosen
        if (offset := cursor.next_to_ask) is not None
    }
    return dict(islice(offsets.items(), most))
