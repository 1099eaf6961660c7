"""Kafka's groups, and which of them a flow moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kafka_ferry.config import NameFilter
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.printable import excerpt

GroupType = Literal["classic", "consumer", "share", "streams", "unknown"]
"""``org.apache.kafka.common.GroupType``; brokers before 3.8 (KIP-848) only have classic ones."""

_OWN: Final = ("ferry.", "ferry-ledger-reader")
# Characters of an id that may be long.
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its coordinator lists it.

    Attributes:
        name: the group's id.
        type: what kind it is.
        state: Kafka's name of its state, such as ``Stable`` or ``Empty``; "" where the broker does
            not say (before 2.6).
        protocol: the protocol type: ``consumer``, ``connect``; "" for a group that only commits.
    """

    name: str
    type: GroupType = "classic"
    state: str = ""
    protocol: str = ""

    @property
    def idle(self) -> bool:
        """Whether it certainly has no members, so that its offsets may be set from outside."""
        return self.state in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed offset of a partition.

    Attributes:
        offset: of the next record to read.
        leader_epoch: of the last record that was read, -1 where it is not known.
        metadata: what the application stored with it.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def is_own_group(name: str) -> bool:
    """Whether a group is one of Kafka Ferry's own, of any flow, by its name."""
    return name.startswith(_OWN)


def chosen_groups(groups: Iterable[Group], wanted: NameFilter) -> list[Group]:
    """The groups of a cluster that a flow moves, ordered by name."""
    chosen = (g for g in groups if wanted.matches(g.name) and not is_own_group(g.name))
    return sorted(chosen, key=lambda group: group.name)


def slow_names_notes(alias: str, names: Iterable[str], wanted: NameFilter) -> Iterator[str]:
    """A sentence where a flow's patterns take too long for groups' ids, so that these are not moved."""
    slow = [name for name in names if wanted.is_too_slow(name)]
    if slow:
        more = f" and {len(slow) - 1:,} more" if len(slow) > 1 else ""
        yield (
            f"Groups of {alias} are left out whose ids take too long for groups and groups.exclude: "
            f"{excerpt(slow[0], _SHOWN)}{more}. Any client may choose such ids; [^-]* in the place of .* takes less "
            "time."
        )


def unused_patterns(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The patterns in a flow's ``groups`` that match none of a cluster's groups; a misspelt name is one.

    The default, which matches all groups, is not among them.
    """
    names = list(names)
    specific = [pattern for pattern in patterns if pattern != ".*"]
    return [
        pattern
        for pattern in specific
        if not any(map(NameFilter([pattern], (), any_text=True).matches, names))
    ]


def unused_patterns_notes(
    alias: str, names: Collection[str], patterns: Sequence[str]
) -> Iterator[str]:
    """A sentence for each of ``unused_patterns``, with the group that may be meant."""
    for pattern in unused_patterns(names, patterns):
        sentence = (
            f"groups has {pattern!r}, which matches no group of {alias} that the flow may see."
        )
        yield f"{sentence} {did_you_mean(pattern, names)}".rstrip()
