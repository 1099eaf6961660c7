"""What copying waited for: the source, the target, or its own rate limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Nearer than that, distance is not what makes a copy slow.
_FAR_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Waits:
    """What the copying of one task, or of several, waited for. All times are in seconds.

    Attributes:
        task_s: how long the tasks copied, together.
        source_s: how long of that they waited for records of the source.
        target_s: how long they waited for the target to take records, and to commit.
        limit_s: how long the rate limit held them back.
        source_round_trip_s: the least time that an answer of the source took; 0 where unknown.
        target_round_trip_s: the same for the target.
    """

    task_s: float = 0.0
    source_s: float = 0.0
    target_s: float = 0.0
    limit_s: float = 0.0
    source_round_trip_s: float = 0.0
    target_round_trip_s: float = 0.0

    def __add__(self, other: Waits) -> Waits:
        """The waits of both; the round trips are the longer ones."""
        return Waits(
            self.task_s + other.task_s,
            self.source_s + other.source_s,
            self.target_s + other.target_s,
            self.limit_s + other.limit_s,
            max(self.source_round_trip_s, other.source_round_trip_s),
            max(self.target_round_trip_s, other.target_round_trip_s),
        )

    def since(self, earlier: Waits) -> Waits:
        """What was waited for after an earlier moment, in whole milliseconds."""
        return Waits(
            round(self.task_s - earlier.task_s, 3),
            round(self.source_s - earlier.source_s, 3),
            round(self.target_s - earlier.target_s, 3),
            round(self.limit_s - earlier.limit_s, 3),
            round(self.source_round_trip_s, 3),
            round(self.target_round_trip_s, 3),
        )

    def text(self, source: str, target: str) -> str:
        """How the time was spent, as in ``71 % waiting for primary (102 ms away)``; "" if none was.

        Args:
            source: the source's alias.
            target: the target's alias.
        """
        shares = [
            (self.source_s, _with_distance(source, self.source_round_trip_s)),
            (self.target_s, _with_distance(target, self.target_round_trip_s)),
            (self.limit_s, "the rate limit"),
        ]
        parts = [
            f"{100 * seconds / self.task_s:.0f} % waiting for {what}"
            for seconds, what in sorted(shares, key=lambda share: -share[0])
            if self.task_s and seconds >= self.task_s / 100
        ]
        return ", ".join(parts)


NO_WAITS: Final = Waits()


def _with_distance(alias: str, round_trip_s: float) -> str:
    return f"{alias} ({1000 * round_trip_s:.0f} ms away)" if round_trip_s >= _FAR_S else alias
