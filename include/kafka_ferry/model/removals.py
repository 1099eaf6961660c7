"""What a run takes away on the target because the source lacks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kafka_ferry.model.changes import Difference

RemovalKind = Literal["ACL", "client quota", "SCRAM user", "config", "topic", "group's offsets"]
"""What is taken away, in the singular."""

_NAMES_SHOWN: Final = 20


@dataclass(frozen=True, order=True, slots=True)
class OffsetDeletion:
    """Offsets of a group to delete on the target, since they are gone from the source.

    Attributes:
        group: the group.
        remote_topic: the topic on the target.
        partitions: its partitions, ascending.
    """

    group: str
    remote_topic: str
    partitions: tuple[int, ...]

    def __str__(self) -> str:
        count = len(self.partitions)
        where = f"{count:,} partitions" if count > 1 else f"partition {self.partitions[0]}"
        return f"delete the offsets of the group {self.group} in {self.remote_topic} ({where})"


@dataclass(frozen=True, slots=True)
class Excess:
    """Removals of one kind that are more than ``removals.max`` allows without an approval.

    Attributes:
        kind: what would be taken away.
        names: each of them.
        created: how many of the kind the flow has created.
        allowed: how many of them may be taken away without an approval.
        emptied: why none may, although they are few; "" where that is not the reason.
    """

    kind: RemovalKind
    names: tuple[str, ...]
    created: int
    allowed: int
    emptied: str = ""

    def __str__(self) -> str:
        why = self.emptied or f"removals.max allows {self.allowed:,} without an approval"
        return (
            f"{count_of_kind(self.kind, len(self.names))} of the {self.created:,} that this flow has created would "
            f"be taken away on the target, and {why}: {first_of(self.names, _NAMES_SHOWN)}."
        )


@dataclass(frozen=True, slots=True)
class Removals:
    """What a run takes away, other than what is among a plan's changes of topics and access.

    Attributes:
        offset_deletions: offsets of groups.
        excesses: the kinds of which so much is taken away, in the whole plan, that it needs an approval.
        emptied: why nothing is taken away without one: the source has none of the topics any more that were
            copied; "" where it has.
    """

    offset_deletions: tuple[OffsetDeletion, ...] = ()
    excesses: tuple[Excess, ...] = ()
    emptied: str = ""

    @property
    def counts(self) -> dict[Difference, int]:
        """The number of groups whose offsets are deleted."""
        return {
            Difference.GROUPS_TO_DELETE_OFFSETS_OF: len(
                {deletion.group for deletion in self.offset_deletions}
            )
        }


def first_of(names: Sequence[str], shown: int) -> str:
    """The first names as text, and how many more there are."""
    more = len(names) - shown
    return "; ".join(names[:shown]) + (f"; and {more:,} more" if more > 0 else "")


def count_of_kind(kind: RemovalKind, count: int) -> str:
    """A number of things of a kind, such as ``3 ACLs``."""
    if kind == "group's offsets":
        return f"the offsets of {f'{count:,} groups' if count != 1 else 'a group'}"
    article = "an" if kind == "ACL" else "a"
    return f"{count:,} {kind}s" if count != 1 else f"{article} {kind}"
