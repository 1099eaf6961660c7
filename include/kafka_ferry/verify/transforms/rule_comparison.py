"""Compares what a transform rule gives for the source's records with what the target holds. Pure.

::

    source   0 1 2 3 4 5 6 7      the rule keeps 0 2 4 6 and changes them
    ledger   0   2   4   6        which offsets have a record on the target, by its segments
    target   a   c   X   g        X is not what the rule gives for 4

An offset that the source has no record for any more is not evaluated; a record that the target has no more,
although the ledger has it, is for other checks to find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from kafka_ferry.batches import MalformedBatch, Segment
from kafka_ferry.batches.record_format.content import Content, divide_content
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import RuleEvaluation

MOST_NAMED: Final = 5
"""The most differences of a range that are named."""

Became = Literal["kept", "filtered", "failed", "deleted", "none"]
"""``filtered`` by the rule; ``failed``: the rule fails for it; ``deleted`` on the source; ``none``: it was no record,
or was compacted."""


class Given(NamedTuple):
    """What became of the source offsets ``[first, end)`` when the rule was evaluated again.

    Attributes:
        first: the first offset.
        end: the offset after the last one; a record that is kept or fails stands alone.
        became: what became of them.
        content: of a record that is kept, as it is to be on the target.
        why: why the rule fails, or the source has the offsets no more.
    """

    first: int
    end: int
    became: Became
    content: bytes = b""
    why: str = ""


def compare_rule(
    rule: str,
    fates: Iterable[Given],
    records: Iterable[tuple[int, bytes]],
    segments: Sequence[Segment],
    *,
    letters: Sequence[Segment] = (),
    elsewhere: int = 0,
) -> RuleEvaluation:
    """What the comparison of a range finds.

    Args:
        rule: the rule's name in sentences.
        fates: what became of the range's source offsets, ascending.
        records: the source offsets and contents of records that the target holds, ascending.
        segments: what the ledger has of the range.
        letters: what the ledger has of it in the dead letter topic.
        elsewhere: how many offsets have no record on the target for another reason that is not the rule's.
    """
    lettered = frozenset(at for segment in letters for at in range(segment.source, _end(segment)))
    comparison = _Comparison(iter(records), segments, lettered, elsewhere)
    for one in fates:
        comparison.add(one)
    return comparison.result(rule)


@dataclass(slots=True)
class _Comparison:
    found: Iterator[tuple[int, bytes]]
    segments: Sequence[Segment]
    lettered: frozenset[int]
    elsewhere: int
    evaluated: int = 0
    unevaluated: int = 0
    unlike: int = 0
    absent: list[int] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    reasons: dict[str, None] = field(default_factory=dict)
    ahead: tuple[int, bytes] | None = None
    place: int = 0

    def add(self, fate: Given) -> None:
        """Compare what became of the next offsets."""
        claimed = list(self._claimed_offsets(fate.first, fate.end))
        if fate.became in ("deleted", "none"):
            lacking = fate.end - fate.first if fate.became == "deleted" else len(claimed)
            self.unevaluated += lacking
            if lacking:
                self.reasons[fate.why or "the source has no record there any more"] = None
            return
        if fate.became == "kept":
            self._compare(fate, is_claimed=bool(claimed))
            return
        self.evaluated += fate.end - fate.first
        why = "the rule leaves it out"
        if fate.became == "failed":
            why = f"the rule fails for it: {fate.why}"
            # It is among those that went to the dead letter topic.
            is_elsewhere = not (claimed or fate.first in self.lettered)
            self.elsewhere = max(0, self.elsewhere - is_elsewhere)
        for offset in claimed:
            self._differs(offset, f"is on the target, but {why}")

    def result(self, rule: str) -> RuleEvaluation:
        """What was found."""
        missing = self.absent[self.elsewhere :]
        if missing:
            self.unlike += len(missing)
            self.sentences.append(
                f"{count(len(missing), 'record')} that the rule keeps not on the target, from offsets "
                f"{self.absent[0]} to {self.absent[-1]}"
            )
        sentences = [*self.sentences, *self.reasons]
        return RuleEvaluation(
            self.evaluated,
            self.unevaluated,
            self.unlike,
            tuple(f"{rule}: {sentence}" for sentence in sentences),
        )

    def _compare(self, fate: Given, *, is_claimed: bool) -> None:
        if not is_claimed:
            self.evaluated += 1
            if fate.first not in self.lettered:
                self.absent.append(fate.first)
            return
        content = self._content(fate.first)
        if content is None:
            # Expired or compacted on the target since: there is nothing to compare.
            return
        self.evaluated += 1
        if content != fate.content:
            self._differs(fate.first, f"has another {_other_parts(content, fate.content)}")

    def _differs(self, offset: int, how: str) -> None:
        self.unlike += 1
        if self.unlike <= MOST_NAMED:
            self.sentences.append(f"offset {offset} {how}")

    def _content(self, offset: int) -> bytes | None:
        """What the target holds for a source offset; offsets are asked for in ascending order."""
        while self.ahead is None or self.ahead[0] < offset:
            self.ahead = next(self.found, None)
            if self.ahead is None:
                return None
        return self.ahead[1] if self.ahead[0] == offset else None

    def _claimed_offsets(self, first: int, end: int) -> Iterator[int]:
        """The offsets of ``[first, end)`` that have a record on the target, by the ledger."""
        while self.place < len(self.segments) and _end(self.segments[self.place]) <= first:
            self.place += 1
        at = self.place
        while at < len(self.segments) and self.segments[at].source < end:
            segment = self.segments[at]
            yield from range(max(first, segment.source), min(end, _end(segment)))
            at += 1


def _end(segment: Segment) -> int:
    return segment.source + segment.records


def _other_parts(actual: bytes, wanted: bytes) -> str:
    """Which parts of two contents differ, without what they hold."""
    try:
        parts = zip(Content._fields, divide_content(actual), divide_content(wanted), strict=True)
    except MalformedBatch:
        return "content than the rule gives"
    names = [name for name, there, to_be in parts if there != to_be]
    return f"{' and '.join(names) or 'content'} than the rule gives"
