"""What is wrong with remote topics whose offsets are preserved, and what only they still hold. Pure.

The next record that a run writes has a fixed offset, so that only control records and records of the
partition's own producer may lie after its position::

    position 30                   30 ...... 36         the flow's own, in sequence: uncommitted
                                  30 ...... 36 x       x is another producer's: damaged at 36
              ..... 20                                 the log ends before the position: damaged at 20
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kafka_ferry.batches import Batch
from kafka_ferry.config import Flow
from kafka_ferry.model.cluster_state import LogBounds, Mark, Topic
from kafka_ferry.model.positions import Position
from kafka_ferry.plan.offsets.producer_sequence import Trail
from kafka_ferry.plan.offsets.start_offsets import fill_end


class LogTail(NamedTuple):
    """What lies in a log after a position.

    Attributes:
        uncommitted: how many records are the flow's own producer's, up to ``offset`` if something is wrong.
        offset: the first offset at which something is wrong, -1 if nothing is.
        problem: what is wrong there, as a sentence.
    """

    uncommitted: int = 0
    offset: int = -1
    problem: str = ""


NOTHING: Final = LogTail()


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition of a remote topic.

    Attributes:
        partition: its number.
        position: the next offset to copy to it, None where nothing was copied yet.
        log_start: where its log starts on the target, None while it has no leader.
        log_end: where its log ends.
        uncommitted: how many records an interrupted attempt has left after the position; the next run
            adopts them.
        offset: where it is damaged, -1 where it is not.
        problem: what is wrong, as a sentence; "" where nothing is.
        only_copy: the source offsets that were copied to it, and that the source no longer has.
    """

    partition: int
    position: int | None = None
    log_start: int | None = None
    log_end: int | None = None
    uncommitted: int = 0
    offset: int = -1
    problem: str = ""
    only_copy: tuple[tuple[int, int], ...] = ()

    @property
    def log(self) -> str | None:
        """Where its log starts and ends on the target, None while it has no leader."""
        return None if self.log_end is None else f"{self.log_start}-{self.log_end}"

    @property
    def said(self) -> str:
        """Its state, in a word or two."""
        if self.problem:
            return "DAMAGED"
        if self.log_end is None:
            return "no leader"
        return f"{self.uncommitted:,} uncommitted" if self.uncommitted else "ok"


@dataclass(frozen=True, slots=True)
class CopyState:
    """One remote topic of a flow.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        remote_topic_id: its id, "" where it does not exist.
        preserved: whether records keep their offsets in it.
        on_source: whether the source has the topic and the flow mirrors it to this one, so that it
            can be copied again.
        created: whether the flow has created the remote topic.
        problem: what is wrong with the topic as a whole, as a sentence; "" where nothing is.
        given_up: whether this repair has given it up.
        known_ids: the ids of all remote topics of this name that positions and mark are about, and
            that were not given up.
        partitions: its partitions.
    """

    topic: str
    remote_topic: str
    remote_topic_id: str = ""
    preserved: bool = True
    on_source: bool = True
    created: bool = True
    problem: str = ""
    given_up: bool = False
    known_ids: tuple[str, ...] = ()
    partitions: tuple[PartitionState, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether no run can continue it, as a whole or in a partition."""
        return bool(self.damages)

    @property
    def has_id(self) -> bool:
        """Whether the topic can be told from another one of the same name."""
        return bool(self.remote_topic_id or not self.partitions)

    @property
    def damages(self) -> list[str]:
        """What is wrong, as sentences."""
        whole = [f"{self.remote_topic}: {self.problem}"] if self.problem else []
        return whole + [
            f"{self.remote_topic}-{part.partition} at offset {part.offset}: {part.problem}"
            for part in self.partitions
            if part.problem
        ]

    def consequences(self, *, yes: bool) -> str:
        """What giving it up does, as sentences.

        Args:
            yes: whether it is given up now.
        """
        name = self.remote_topic
        deletes = bool(self.remote_topic_id)
        if yes:
            text = f"{name} is given up{' and deleted' if deletes else ''}"
        else:
            text = f"--topic {name} --yes gives it up{' and deletes it' if deletes else ''}"
        if self.on_source:
            text += (
                "; its consumers lose it until the next run has copied to a new topic of that name "
                f"all that {self.topic} on the source still has."
            )
        else:
            text += (
                f". No run can copy it again: the source no longer has {self.topic}, or the flow "
                "does not mirror it to that name."
            )
        if not self.created:
            text += (
                " The flow has not created it: records of other producers in it are deleted too."
            )
        lost = {part.partition: part.only_copy for part in self.partitions if part.only_copy}
        if lost:
            offsets = sum(end - start for spans in lost.values() for start, end in spans)
            listed = ", ".join(
                f"{number} {' '.join(f'[{start}, {end})' for start, end in spans)}"
                for number, spans in lost.items()
            )
            text += (
                f" LOST FOR GOOD: up to {offsets:,} offsets that were copied to it, and that the "
                f"source no longer has, in partition {listed}."
            )
        return text


@dataclass(frozen=True, slots=True)
class Copy:
    """The state of one remote topic.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        source: the source's topic, None where it is gone.
        remote: the topic on the target, None where it does not exist.
        mirrored: whether the flow mirrors the source's topic to this one.
        mark: the newest mark on its name.
        positions: by partition, without those in remote topics that were given up.
        released: whether ``remote`` was given up.
        leftover: whether the flow's group still has positions in one that was given up.
    """

    topic: str
    remote_topic: str
    source: Topic | None
    remote: Topic | None
    mirrored: bool = True
    mark: Mark | None = None
    positions: Mapping[int, Position] = field(default_factory=dict)
    released: bool = False
    leftover: bool = False

    @property
    def remote_id(self) -> str:
        """The remote topic's id, "" where it does not exist."""
        return self.remote.topic_id if self.remote else ""

    @property
    def preserved(self) -> bool:
        """Whether records keep their offsets in it, as far as known."""
        kept = any(position.producer for position in self.positions.values())
        return kept or (self.mark is not None and self.mark.preserved)

    def position(self, number: int) -> Position | None:
        """The position of a partition, if it is one in the current remote topic."""
        position = self.positions.get(number)
        is_here = position and position.remote_topic_id in ("", self.remote_id)
        return position if is_here else None

    def state(self, flow: Flow, partitions: Iterable[PartitionState]) -> CopyState:
        """Its state, for the report."""
        ids = {position.remote_topic_id for position in self.positions.values()}
        ids |= {self.mark.remote_topic_id} if self.mark else set()
        ids |= set() if self.released else {self.remote_id}
        return CopyState(
            topic=self.topic,
            remote_topic=self.remote_topic,
            remote_topic_id=self.remote_id,
            preserved=self.preserved,
            on_source=self.source is not None and self.mirrored,
            created=self.mark is None or self.mark.created,
            problem=self._problem(flow),
            known_ids=tuple(sorted(ids - {""})),
            partitions=tuple(partitions),
        )

    def _problem(self, flow: Flow) -> str:
        if self.released:
            return "it was given up, and still exists."
        if flow.on_target_topic_lost == "recopy":
            return ""
        if self.leftover:
            return "an earlier topic of this name was given up, and its positions still exist."
        if self.remote is None and self.positions:
            return "it was deleted on the target."
        if any(self.position(number) is None for number in self.positions):
            return "it was deleted on the target and recreated."
        return ""


def first_unaccounted(position: Position) -> int:
    """The first offset that the position does not account for."""
    return max(position.offset if fill_end(position) < 0 else 0, fill_end(position))


def log_tail(
    batches: Iterable[Batch], position: Position, log_start: int, *, is_compacted: bool
) -> LogTail:
    """Find out by their headers which producer wrote the batches after ``position``, up to the first wrong one.

    Args:
        batches: all batches from the position on, from the log's start on if that is later.
        position: the position, with its producer.
        log_start: where the log starts.
        is_compacted: whether log compaction may have removed records since.
    """
    producer, start = position.producer, first_unaccounted(position)
    assert producer is not None
    trail = Trail(producer, start, log_start, is_compacted=is_compacted)
    start, records = max(start, log_start), 0
    for batch in batches:
        header = batch.header
        if problem := trail.problem(header):
            return LogTail(records, header.base_offset, problem)
        if not header.is_control:
            records += min(header.records, header.next_offset - start)
    return LogTail(records)


def partition_state(
    copy: Copy, number: int, log: LogBounds | None, tail: LogTail = NOTHING
) -> PartitionState:
    """The state of a partition.

    Args:
        copy: its remote topic.
        number: its number.
        log: its log on the target, None while it has no leader.
        tail: what lies after its position.
    """
    position = copy.position(number)
    offset = position.offset if position else None
    if log is None:
        return PartitionState(number, offset)
    state = PartitionState(number, offset, log.start, log.end, tail.uncommitted)
    at, problem = tail.offset, tail.problem
    if not copy.preserved or copy.released:
        return state
    if position is None:
        at, problem = (0, f"its log ends at {log.end}, and the flow has copied nothing to it.")
        return replace(state, offset=at, problem=problem) if log.end else state
    if position.producer is None or not _is_as_marked(copy, position):
        at, problem = position.offset, "its position is not one of preserved offsets."
    elif fill_end(position) < 0 and log.end < position.offset:
        at = log.end
        problem = (
            f"its log ends before the position {position.offset}: records that were copied are "
            "gone (an unclean leader election?)."
        )
    return replace(state, offset=at, problem=problem)


def only_copy(
    copy: Copy,
    number: int,
    copied: Iterable[tuple[int, int]],
    remote: LogBounds,
    source: LogBounds | None,
) -> tuple[tuple[int, int], ...]:
    """The source offsets of a partition that the remote topic may have, and the source no longer has.

    Args:
        copy: the remote topic.
        number: the partition.
        copied: the source offsets that were copied to it, by the ledger, ascending and disjoint.
        remote: its log on the target.
        source: its log on the source, None where there is none.
    """
    position = copy.position(number)
    if position is None:
        return ()
    is_same = copy.source is not None and position.topic_id in ("", copy.source.topic_id)
    first = remote.start if copy.preserved else 0
    last = min(position.offset, source.start) if source and is_same else position.offset
    clipped = ((max(start, first), min(end, last)) for start, end in copied)
    return tuple((start, end) for start, end in clipped if start < end)


def _is_as_marked(copy: Copy, position: Position) -> bool:
    mark = copy.mark
    if mark is None or mark.remote_topic_id != copy.remote_id:
        return True
    return mark.preserved == (position.producer is not None)
