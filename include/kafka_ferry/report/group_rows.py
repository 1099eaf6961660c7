"""What became of groups, as rows and sentences for people: in the page and at the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, get_args

from kafka_ferry.groups.moves import Action, GroupMoves, PartitionMove
from kafka_ferry.printable import one_line
from kafka_ferry.verify.counts import count

_WORDS: Final[dict[Action, str]] = {
    "refused": "refused by a broker",
    "held": "held",
    "deleted": "deleted",
    "written": "committed",
    "unchanged": "unchanged",
    "shown": "translated",
}
assert _WORDS.keys() == set(get_args(Action))
_ORDER: Final = tuple(_WORDS)


class GroupReportRow(NamedTuple):
    """One partition of one group.

    Attributes:
        group: the group's name.
        type: what kind of group it is.
        move: what became of its offset.
    """

    group: str
    type: str
    move: PartitionMove


def group_rows(moves: GroupMoves) -> list[GroupReportRow]:
    """All partitions of all groups, those that need attention first."""
    rows = [
        GroupReportRow(group.group.name, group.group.type, one) for group, one in moves.partitions()
    ]
    return sorted(rows, key=lambda row: _ORDER.index(row.move.action))


def group_counts(moves: GroupMoves) -> str:
    """How many groups there are, and how many of their offsets were committed, held and so on."""
    by_action = Counter(one.action for _, one in moves.partitions())
    counts = [
        f"{by_action[action]:,} {word}" for action, word in _WORDS.items() if by_action[action]
    ]
    offsets = f"; offsets: {', '.join(counts)}" if counts else ""
    return f"{count(len(moves.groups), 'group')}{offsets}"


def held_offsets(moves: GroupMoves) -> Iterator[str]:
    """A sentence for each group and reason for which offsets were held."""
    places: dict[tuple[str, str], list[PartitionMove]] = {}
    for group, move in moves.partitions("held"):
        places.setdefault((group.group.name, move.reason), []).append(move)
    for (name, reason), held in places.items():
        where = f"such as {held[0].source}" if len(held) > 1 else str(held[0].source)
        yield f"{one_line(name)}: {count(len(held), 'offset')} held, {where}: {reason}"


def left_alone(moves: GroupMoves) -> Iterator[str]:
    """A sentence, with the reason, for each group without a moved offset."""
    for group in moves.groups:
        if group.reason:
            yield f"{one_line(group.group.name)}: {group.reason}"
