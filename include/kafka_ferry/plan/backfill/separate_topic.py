"""The topics on the target to which only backfills write, by their names. Pure."""

from __future__ import annotations

from typing import Final

_SEPARATE: Final = ".backfill"


def separate_topic(remote_topic: str) -> str:
    """The topic on the target that only backfills of ``remote_topic`` write to."""
    return remote_topic + _SEPARATE


def places_of(remote_topic: str) -> frozenset[str]:
    """The two topics on the target in which the records of one remote topic may lie: the topic, and its separate one.

    A copy of the same source topic under another name is another copy.

    Args:
        remote_topic: the name of either.
    """
    ordinary = remote_topic.removesuffix(_SEPARATE)
    return frozenset({remote_topic, ordinary, separate_topic(ordinary)})


def is_separate(remote_topic: str) -> bool:
    """Whether a topic of the target has the name of one that only backfills write to."""
    return remote_topic.endswith(_SEPARATE)
