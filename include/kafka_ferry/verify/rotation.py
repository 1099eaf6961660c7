"""Which proved ranges a run reads back again, so that each is read within a period. Pure.

The ranges are read in the order of their proofs, the oldest first, at a pace that meets every deadline::

    bytes to the deadline    C1    C2          C3
    --------------------|----o-----o-----------o----------|
                       now   each proof's time + the period

What lies before a deadline has to be read until then. Read evenly, that is ``all bytes / period``; what this
pace would not manage until a deadline, less the pause until the next run, has to be read now. The ranges
of a ledger record are read together: they wait until all of them have to be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence, Set
from itertools import accumulate
from typing import Final, NamedTuple

# As far ahead as brokers take records by default (message.timestamp.after.max.ms).
_MOST_AHEAD_MS: Final = 3_600_000


class ProvedEntry(NamedTuple):
    """The ranges of a record of the ledger, as far as the target still has them.

    Attributes:
        ledger_offset: the record's offset in the ledger.
        bytes: bytes of the ranges' batches.
        proved_at: when they were last read back, in milliseconds since 1970.
    """

    ledger_offset: int
    bytes: int
    proved_at: int


def due_again(
    entries: Sequence[ProvedEntry], *, now: int, within_ms: int, pause_ms: int
) -> list[ProvedEntry]:
    """The entries to be read back now, those with the oldest proofs first.

    A proof of a time that is to come was dated by a wrong clock: when it was made is not known, and it is due.

    Args:
        entries: all entries that are proved, in any order.
        now: the time, in milliseconds since 1970.
        within_ms: the time within which each entry is read again.
        pause_ms: the time until the next run; an entry that is due by then is due now.
    """

    def proof_time(entry: ProvedEntry) -> int:
        return entry.proved_at if entry.proved_at <= now + _MOST_AHEAD_MS else 0

    oldest_first = sorted(entries, key=lambda entry: (proof_time(entry), entry.ledger_offset))
    pace = sum(entry.bytes for entry in entries) / within_ms
    ends = list(accumulate(entry.bytes for entry in oldest_first))
    left = [max(0, proof_time(entry) + within_ms - now - pause_ms) for entry in oldest_first]
    needed = max((end - pace * ms for end, ms in zip(ends, left, strict=True)), default=0.0)
    # Rounding makes up less than a byte.
    by_pace = bisect_right(ends, needed + 1) if needed > 0 else 0
    late = max((count for count, ms in enumerate(left, 1) if not ms), default=0)
    return oldest_first[: max(by_pace, late)]


def intervals(offsets: Set[int], others: Set[int]) -> list[tuple[int, int]]:
    """The ``offsets`` as intervals ``[start, end)``, joined where none of ``others`` lies between."""
    joined: list[tuple[int, int]] = []
    is_open = False
    for at in sorted(offsets | others):
        if at not in offsets:
            is_open = False
        elif is_open:
            joined[-1] = (joined[-1][0], at + 1)
        else:
            joined.append((at, at + 1))
            is_open = True
    return joined
