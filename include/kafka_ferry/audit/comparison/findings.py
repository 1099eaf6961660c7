"""What an audit finds: records, in runs of consecutive offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

FindingKind = Literal["missing", "doubled", "reordered", "altered", "foreign"]
"""``missing``: the source has the record, the target does not. ``doubled``: the target has it more often than
the source. ``reordered``: the target has it at another place in the order. ``altered``: the target has it with
another key, value, headers, timestamp or partition. ``foreign``: the target has it, the source does not."""

KINDS: Final[tuple[FindingKind, ...]] = get_args(FindingKind)
NO_OFFSET: Final = -1


class Differing(NamedTuple):
    """One record that is not on the target as it is on the source.

    Attributes:
        kind: what is wrong with it.
        source: its offset on the source, -1 where the source does not have it.
        target: its offset on the target, -1 where the target does not have it.
        what: the altered aspects.
        partition: the target partition, -1 for the one with the source partition's number.
    """

    kind: FindingKind
    source: int
    target: int
    what: tuple[str, ...] = ()
    partition: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class Finding:
    """Records with consecutive offsets that differ in the same way.

    Attributes:
        kind: how they differ.
        topic: the source's topic.
        partition: the source's partition; for foreign records, the target's.
        remote_topic: the topic on the target.
        remote_partition: the partition on the target.
        source_offset: the first one's offset on the source; -1 if the source has none of them.
        target_offset: the first one's offset on the target; -1 if the target has none of them.
        records: how many they are. On a side that has them, their offsets are consecutive.
        what: the altered aspects: ``key``, ``value``, ``headers``, ``timestamp``, ``partition``.
    """

    kind: FindingKind
    topic: str
    partition: int
    remote_topic: str
    remote_partition: int
    source_offset: int
    target_offset: int
    records: int
    what: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The finding for people."""
        ours = f"{self.topic}-{self.partition}"
        theirs = f"{self.remote_topic}-{self.remote_partition}"
        return _SENTENCES[self.kind].format(
            records=f"{self.records:,} record{'s' if self.records != 1 else ''}",
            ours=f"{ours} {_span(self.source_offset, self.records)}",
            theirs=f"{theirs} {_span(self.target_offset, self.records)}",
            origin=_origin(self, ours),
            what=" and ".join(self.what),
        )


_SENTENCES: Final[dict[FindingKind, str]] = {
    "missing": "{records} of {ours} missing on the target",
    "doubled": "{records} at {theirs} doubled: {origin}",
    "reordered": "{records} of {ours} out of order at {theirs}",
    "altered": "{records} of {ours} altered at {theirs}: {what}",
    "foreign": "{records} at {theirs} foreign: the source does not have them",
}


def _span(first: int, records: int) -> str:
    return f"offset {first}" if records == 1 else f"offsets {first} to {first + records - 1}"


def _origin(finding: Finding, ours: str) -> str:
    if finding.source_offset < 0:
        return "an earlier copy is on the target, and the source has deleted its record"
    return f"of {ours} {_span(finding.source_offset, finding.records)}"


def runs(
    differing: Iterable[Differing], topic: str, partition: int, remote_topic: str
) -> Iterator[Finding]:
    """Records in as few findings as possible, by kind and offset.

    Args:
        differing: the records, in any order.
        topic: the source's topic.
        partition: the source's partition.
        remote_topic: the topic on the target.
    """
    run: list[Differing] = []
    for record in sorted(differing, key=_place):
        if run and not _follows(run[-1], record):
            yield _finding(run, topic, partition, remote_topic)
            run = []
        run.append(record)
    if run:
        yield _finding(run, topic, partition, remote_topic)


def _place(record: Differing) -> tuple[int, int, tuple[str, ...], int, int]:
    kind, source, target, what, partition = record
    if kind == "doubled":
        source, target = target, source
    return KINDS.index(kind), partition, what, source, target


def _follows(last: Differing, record: Differing) -> bool:
    if (last.kind, last.what, last.partition) != (record.kind, record.what, record.partition):
        return False
    return _is_next(last.source, record.source) and _is_next(last.target, record.target)


def _is_next(last: int, offset: int) -> bool:
    return offset == (last + 1 if last >= 0 else NO_OFFSET)


def _finding(run: Sequence[Differing], topic: str, partition: int, remote_topic: str) -> Finding:
    first = run[0]
    remote_partition = first.partition if first.partition >= 0 else partition
    return Finding(
        kind=first.kind,
        topic=topic,
        partition=partition,
        remote_topic=remote_topic,
        remote_partition=remote_partition,
        source_offset=first.source,
        target_offset=first.target,
        records=len(run),
        what=first.what,
    )
