"""When to commit an unchanged offset again, so that it does not expire on the target. Pure."""

from __future__ import annotations

from typing import Final

import xxhash

_DAY_MS: Final = 24 * 60 * 60 * 1000


def is_due(group: str, *, since: int, now: int) -> bool:
    """Whether the group's time of the day lies between the last run and now.

    A broker deletes the offsets of a group without members after ``offsets.retention.minutes``, 7 days
    by default, however active the group is on the source. Each group has its own time of day, so that
    not all are committed in one run.

    Args:
        group: its name.
        since: when the last run began, 0 if there was none; in milliseconds since 1970.
        now: in milliseconds since 1970.
    """
    slot = xxhash.xxh3_64_intdigest(group.encode()) % _DAY_MS
    return (now - slot) // _DAY_MS > (since - slot) // _DAY_MS
