"""In how many records a transform rule did each of the things that it names.

A rule that is right in one field may be wrong in another: a mask of ``value.email`` and ``value.emial`` changes every
record, and leaves one of the two fields as it is. So what a rule does is counted by what it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

CHANGED: Final = "changed"
"""The key of the records in which a rule changed anything."""
FAILED: Final = "failed"
"""The key of the records for which a rule failed."""
# In so many batches, or parts of a task's, it is likely to show.
_MOST_LOOKS: Final = 20

RuleVerb = Literal["set", "added", "near", "drop", "read", "sought"]
"""What a rule does with a name: it sets what a record has, or adds it, perhaps beside one of a similar name; drops it;
reads it, or reads it only to see whether it is there."""


class RuleUse(NamedTuple):
    """What a rule does with one name.

    Attributes:
        verb: what.
        name: the path, such as ``value.email`` or ``headers['region']``; of ``near``, that of what is added and that
            of what the records have, as ``value.emial=value.email``.
    """

    verb: RuleVerb
    name: str

    @property
    def key(self) -> str:
        """By which it is counted."""
        return f"{self.verb}:{self.name}"


def uses_of(counts: Mapping[str, int]) -> Iterator[tuple[RuleUse, int]]:
    """What was counted by name, and in how many records."""
    uses = {verb: verb for verb in get_args(RuleVerb)}
    for key, records in counts.items():
        verb, _, name = key.partition(":")
        if verb in uses:
            yield RuleUse(uses[verb], name), records


@dataclass(slots=True)
class SimilarNames:
    """Fields with names that are similar to those of fields that are added beside them.

    To look is slow, and records may have many names: so it is done in few of them, and one name is enough.

    Attributes:
        found: by the names on the way to an added field, the one beside it.
    """

    found: dict[tuple[str, ...], str] = field(default_factory=dict)
    _looks: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def look(self, names: tuple[str, ...], similar: Callable[[], str]) -> None:
        """Look for a name with ``similar``, which gives "" for none; not if one is known, or many looks found none."""
        if names in self.found or self._looks[names] >= _MOST_LOOKS:
            return
        self._looks[names] += 1
        if name := similar():
            self.found[names] = name


@dataclass(slots=True)
class FieldCounts:
    """In how many records fields of a key or value were changed; one that a record has twice counts twice.

    Attributes:
        changed: those that a record had, by the names on the way to each.
        added: those that it had not.
        near: the fields with similar names beside those that were added.
    """

    changed: Counter[tuple[str, ...]] = field(default_factory=Counter)
    added: Counter[tuple[str, ...]] = field(default_factory=Counter)
    near: SimilarNames = field(default_factory=SimilarNames)
