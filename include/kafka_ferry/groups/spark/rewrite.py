"""A query's checkpoint for the target: which of its batches are kept, and their offsets there. Pure.

(a) Nothing that the query has not finished is skipped.
(b) Nothing that it has finished is read again, unless ``clamp`` allows it: an offset that the copy does
    not account for is refused.
(c) A batch keeps its number only with exactly its original records. Sinks that identify batches by number,
    such as files and Delta tables, skip one that they have seen: other records in it would be lost.
(d) Watermark, query id and state stay as they are: they come from records, not from offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafka_ferry.errors import CheckpointRefused
from kafka_ferry.groups.spark.checkpoint import (
    COMMITS,
    METADATA,
    NO_OFFSET,
    OFFSETS,
    MicroBatch,
    SparkCheckpoint,
    initial_content,
    kafka_offsets,
    kafka_text,
)
from kafka_ferry.groups.spark.placement import Placed
from kafka_ferry.model.ranges import TopicPartition

Place = Callable[[TopicPartition, int], Placed]
_Ends = list[list[Placed] | None]

_ADVICE: Final = (
    "Run the flow until it has copied and verified what the query has read, and translate again; or "
    "give --clamp where the source is lost for good: records that are not accounted for are then read "
    "again if they still arrive, or never if they do not."
)


@dataclass(frozen=True)
class Rewritten:
    """A checkpoint for the target.

    Attributes:
        files: its files except the query's state, by name.
        batch: the number of its newest batch.
        placed: where the query continues, ordered by partition.
        notes: notes for the user, as sentences.
    """

    files: Mapping[str, bytes]
    batch: int
    placed: tuple[Placed, ...]
    notes: tuple[str, ...] = ()

    @property
    def topics(self) -> dict[str, str]:
        """The topic that the query is to read, by the one that it reads now."""
        return {p.source.topic: p.target.topic for p in self.placed if p.target}


def rewrite(checkpoint: SparkCheckpoint, place: Place, *, clamp: bool = False) -> Rewritten:
    """The checkpoint for the target.

    Args:
        checkpoint: the query's, which is stopped.
        place: gives an offset's place on the target.
        clamp: whether offsets that the copy does not account for become its end or its start.

    Raises:
        CheckpointRefused: naming each source or partition that cannot be translated.
    """
    _refuse_others(checkpoint)
    numbers, files = checkpoint.numbers, dict[str, bytes]()
    begin = _begin(checkpoint, place)
    reasons = [p.sentence for p in _flat(begin) if p.at is None or (p.doubt and not clamp)]
    if reasons:
        raise CheckpointRefused(reasons, advice=_ADVICE)
    if numbers.committed is not None:
        batch = checkpoint.batches[numbers.committed]
        files[f"{OFFSETS}/{numbers.committed}"] = _batch(batch, begin)
        files[f"{COMMITS}/{numbers.committed}"] = checkpoint.commit
    notes = list[str]()
    if numbers.unfinished is not None:
        more, note = _unfinished_batch(checkpoint, numbers.unfinished, begin, place)
        files |= more
        notes.append(note)
    if numbers.before is not None:
        earlier = checkpoint.batches[numbers.before]
        files.setdefault(f"{OFFSETS}/{numbers.before}", _batch(earlier, _ends(earlier, place)))
    for name, offsets in checkpoint.initial.items():
        files[name] = initial_content(
            _known_offsets([place(*item) for item in (offsets or {}).items()])
        )
    if checkpoint.metadata is not None:
        files[METADATA] = checkpoint.metadata
    placed = tuple(sorted(_flat(begin), key=lambda one: one.source))
    return Rewritten(files, numbers.newest, placed, tuple(notes))


def _refuse_others(checkpoint: SparkCheckpoint) -> None:
    """Only Kafka's sources are translated."""
    newest = checkpoint.batches[checkpoint.numbers.newest]
    if checkpoint.of_a_flow:
        raise CheckpointRefused(
            ["it belongs to a Kafka Ferry flow: it holds what a run had planned, and no position."],
            advice="A flow's positions are on its target, and its checkpoint may be deleted at any "
            "time; `ferry failback` moves them back.",
        )
    reasons = [
        f"source {number} is not Spark's Kafka source: its offset is {end.text[:80]}."
        for number, end in enumerate(newest.ends)
        if not end.is_empty and kafka_offsets(end.text) is None
    ]
    reasons += [
        f"{name} is not of Spark's Kafka source."
        for name, offsets in checkpoint.initial.items()
        if offsets is None
    ]
    if reasons:
        raise CheckpointRefused(reasons)


def _begin(checkpoint: SparkCheckpoint, place: Place) -> _Ends:
    """Where each source continues: after the newest finished batch, or where it began."""
    committed = checkpoint.numbers.committed
    if committed is not None:
        return _ends(checkpoint.batches[committed], place)
    begin: _Ends = []
    for name, end in checkpoint.batches[checkpoint.numbers.newest].sources():
        offsets = _initial(checkpoint, name)
        if offsets is None and not end.is_empty:
            raise CheckpointRefused(
                [f"no batch is committed, and {name}, where its source began, is missing."]
            )
        begin.append(None if offsets is None else [place(*item) for item in offsets.items()])
    return begin


def _initial(checkpoint: SparkCheckpoint, name: str) -> Mapping[TopicPartition, int] | None:
    # A source that the application has named has a folder of that name; a single source needs none.
    if len(checkpoint.initial) == 1 == len(checkpoint.batches[checkpoint.numbers.newest].ends):
        return next(iter(checkpoint.initial.values()))
    return checkpoint.initial.get(name)


def _unfinished_batch(
    checkpoint: SparkCheckpoint, number: int, begin: _Ends, place: Place
) -> tuple[dict[str, bytes], str]:
    """The files of the unfinished batch, and notes on it."""
    batch = checkpoint.batches[number]
    ends = _ends(batch, place)
    doubts = [one for one in (*_flat(begin), *_flat(ends)) if one.doubt or one.at is None]
    if not doubts:
        note = f"Batch {number} was not finished: it is read again on the target, with the same records."
        return {f"{OFFSETS}/{number}": _batch(batch, ends)}, note
    if checkpoint.stateful:
        raise CheckpointRefused(
            [
                f"batch {number} was not finished, and not all of its records are copied. "
                f"{doubts[0].sentence}"
            ],
            advice="A query that keeps state cannot leave a batch's number out: let it finish the "
            "batch on the source, or run the flow, and translate again.",
        )
    # The number is used up: no sink has seen the next one.
    files = {
        f"{OFFSETS}/{number}": _batch(batch, begin),
        f"{COMMITS}/{number}": checkpoint.commit,
    }
    return files, (
        f"Batch {number} was not finished, and not all of its records are copied: those on the target "
        f"are read in batch {number + 1}; a sink that had stored batch {number} gets them again."
    )


def _ends(batch: MicroBatch, place: Place) -> _Ends:
    """Each source's offsets on the target; None for a source without any yet."""
    return [
        None if end.is_empty else [place(*item) for item in (kafka_offsets(end.text) or {}).items()]
        for end in batch.ends
    ]


def _batch(batch: MicroBatch, ends: _Ends) -> bytes:
    """The batch's file with other offsets."""
    written = (
        replace(end, text=NO_OFFSET if placed is None else kafka_text(_known_offsets(placed)))
        for end, placed in zip(batch.ends, ends, strict=True)
    )
    return bytes(replace(batch, ends=tuple(written)))


def _known_offsets(placed: Iterable[Placed]) -> dict[TopicPartition, int]:
    """The offsets on the target, without partitions that have none, as where a topic is gone."""
    return {one.target: one.at for one in placed if one.target and one.at is not None}


def _flat(ends: _Ends) -> Iterator[Placed]:
    for placed in ends:
        yield from placed or ()
