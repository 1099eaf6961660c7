"""Compares a topic on the target with its source, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.alignment.align import (
    Alignment,
    LogRecords,
    Misaligned,
    align,
    begins_late,
)
from kafka_ferry.groups.alignment.record_digests import no_records
from kafka_ferry.groups.alignment.spread import align_spread
from kafka_ferry.ledger import LedgerEnd, LedgerTable
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.takeover import PartitionHandover, TopicHandover, TopicState
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.runs.takeover.record_digests import read_log
from kafka_ferry.verify.counts import count
from kafka_ferry.wire import connect

_SHOWN: Final = 5

Positions = Mapping[TopicPartition, int | None]
"""By *source* partition, the next offset that the other mirror would copy; None for the beginning."""


@dataclass(frozen=True)
class Aligned:
    """The result for a topic.

    Attributes:
        pair: the topic.
        handover: the result, for people; ``refused`` if the topic cannot be taken over.
        found: by partition, what can be taken over; empty if nothing can, or nothing is left.
        sources: the source's records of these partitions.
        targets: the target's, as far as each of them was compared.
        is_whole: whether the ledger has all that the remote topic holds, once it has what was found.
    """

    pair: Pair
    handover: TopicHandover
    found: Mapping[int, Alignment]
    sources: Mapping[int, LogRecords]
    targets: Mapping[int, LogRecords]
    is_whole: bool = False


class Aligner:
    """Reads both clusters; must be closed.

    Args:
        flow: the flow.
        ledger: its ledger's table, projected.
        positions: what the other mirror says.
        spreads: whether it may have written records to other partitions than the source's.
    """

    def __init__(
        self, flow: Flow, ledger: LedgerTable, positions: Positions, *, spreads: bool
    ) -> None:
        self._ledger = ledger
        self._positions = positions
        self._spreads = spreads
        self._open = ExitStack()
        self._source = self._open.enter_context(connect(flow.source))
        self._target = self._open.enter_context(connect(flow.target))

    def __enter__(self) -> Aligner:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def look(self, pair: Pair) -> Aligned:
        """What can be taken over of a topic, or why it is refused."""
        refused = _why_not(pair)
        if refused:
            return _refusal(pair, refused)
        try:
            return self._in_order(pair)
        except Misaligned as error:
            if not self._spreads:
                return _refusal(pair, f"{error}.")
        except FerryError as error:
            return _refusal(pair, str(error))
        try:
            return self._align_spread(pair)
        except (Misaligned, FerryError) as error:
            return _refusal(pair, f"{str(error).rstrip('.')}.")

    def _in_order(self, pair: Pair) -> Aligned:
        assert pair.source
        assert pair.remote
        known = self._known_ends(pair)
        alignments = dict[int, Alignment]()
        sources, targets = dict[int, LogRecords](), dict[int, LogRecords]()
        for number in range(pair.remote.partitions):
            position = pair.position(number)
            # Of a partition that the source lacks, a takeover has compared what is there.
            is_known = position is not None or number >= pair.source.partitions
            reached = known.get(number, LedgerEnd()) if is_known else LedgerEnd()
            target_tp = TopicPartition(pair.remote_topic, number)
            source_tp = TopicPartition(pair.topic, number)
            compacted = _is_compacted(pair)
            target = self._copies(target_tp, since=reached.offset, with_keys=compacted)
            if position and not len(target):
                self._require_nothing_gone(source_tp, position.offset, target, reached)
                continue
            if number >= pair.source.partitions:
                if len(target):
                    raise Misaligned(
                        f"the source has no partition {number}, and it has records there"
                    )
                continue
            source = read_log(self._source, source_tp, with_keys=compacted)
            try:
                alignment = align(
                    source,
                    target,
                    self._positions.get(source_tp),
                    compacted=compacted,
                    is_cleaned=pair.remote.is_compacted,
                    joined=position.offset if position else None,
                )
            except Misaligned as error:
                raise Misaligned(f"partition {number}: {error}") from None
            if alignment:
                alignments[number], sources[number], targets[number] = alignment, source, target
        return replace(self._alignment_of(pair, alignments, sources, targets), is_whole=True)

    def _known_ends(self, pair: Pair) -> dict[int, LedgerEnd]:
        """For each partition of ``pair``, up to where the ledger knows all records of the remote topic."""
        if not (pair.positions and pair.remote):
            return {}
        ends = self._ledger.target_ends([pair.remote])
        return {tp.partition: end for tp, end in ends.items()}

    def _require_nothing_gone(
        self, source: TopicPartition, offset: int, target: LogRecords, reached: LedgerEnd
    ) -> None:
        """Check that the other mirror has copied nothing after the flow's position that the target has deleted since.

        Args:
            source: the partition on the source.
            offset: the flow's position.
            target: the target's records after those that the ledger has: none.
            reached: where these end; the marker of the flow's own transaction follows.

        Raises:
            Misaligned: it has: the flow would copy that a second time.
        """
        copied, deleted = (
            self._positions.get(source),
            target.start - reached.offset - reached.is_own,
        )
        if copied is None or copied <= offset or deleted <= 0:
            return
        records = read_log(self._source, source, since=offset)
        again = int((~records.aborted[: records.below(copied)]).sum())
        if again:
            raise Misaligned(
                f"partition {source.partition}: the position of the other mirror is {copied}, this flow's is {offset}, "
                f"and what was written to the target in between is deleted there: the source still has {again} of "
                "these records, which would be copied a second time"
            )

    def _align_spread(self, pair: Pair) -> Aligned:
        """Align where the mirror did not keep the source's partitions."""
        assert pair.source
        assert pair.remote
        if pair.positions:
            is_unmatched = not self._known_ends(pair)
            if is_unmatched and self._is_past(pair):
                return self._alignment_of(pair, {}, {}, {})
            return _refusal(pair, "some of its partitions are this flow's own already.")
        sources = {
            number: read_log(self._source, TopicPartition(pair.topic, number))
            for number in range(pair.source.partitions)
        }
        targets = [
            self._copies(TopicPartition(pair.remote_topic, number))
            for number in range(pair.remote.partitions)
        ]
        positions = {n: self._positions.get(TopicPartition(pair.topic, n)) for n in sources}
        alignments = align_spread(sources, targets, positions, compacted=_is_compacted(pair))
        for number, target in enumerate(targets):
            if len(target):
                # Of others' records: what is copied of this partition goes after them, once the source has it.
                source = sources.setdefault(number, no_records())
                alignments.setdefault(number, Alignment(source.start, source.start))
        reason = (
            "its records are in other partitions than on the source, so they cannot be matched."
        )
        aligned = self._alignment_of(pair, alignments, sources, dict(enumerate(targets)), reason)
        return replace(aligned, is_whole=True)

    def _is_past(self, pair: Pair) -> bool:
        """Whether the flow is nowhere before the other mirror's positions: that one has copied nothing since."""
        assert pair.source
        for number in range(pair.source.partitions):
            mirror_position = self._positions.get(TopicPartition(pair.topic, number))
            own = pair.position(number)
            if mirror_position and (own is None or own.offset < mirror_position):
                return False
        return True

    def _copies(
        self, partition: TopicPartition, *, since: int = 0, with_keys: bool = False
    ) -> LogRecords:
        """What consumers of the copy see: records of a transaction that was aborted there are to be copied again.

        Those of one that goes on may still be committed, after others have been copied in their place.
        """
        log = read_log(self._target, partition, since=since, with_keys=with_keys, is_whole=True)
        return log.only(~log.aborted)

    def _alignment_of(
        self,
        pair: Pair,
        alignments: Mapping[int, Alignment],
        sources: Mapping[int, LogRecords],
        targets: Mapping[int, LogRecords],
        reason: str = "",
    ) -> Aligned:
        partitions = tuple(
            PartitionHandover(
                partition=number,
                position=self._positions.get(TopicPartition(pair.topic, number)),
                start=alignment.start,
                end=alignment.end,
                compared=alignment.records,
                doubled=alignment.doubled,
                unknown=alignment.unknown,
            )
            for number, alignment in alignments.items()
        )
        if not alignments and pair.positions:
            reason = "the flow continues in it already."
        trusted = [number for number, alignment in alignments.items() if not alignment.is_compared]
        state: TopicState = "ready" if alignments else "up to date"
        if trusted:
            state = "unproved" if len(trusted) == len(alignments) else "ready"
            reason = f"no record is left to compare in {_numbers_text(trusted)}: the position there is only trusted."
        if late := {
            number
            for number, it in alignments.items()
            if not (pair.positions or _is_compacted(pair))
            and begins_late(it, sources[number], targets[number])
        }:
            reason = f"{reason} {_late_text(sorted(late))}".lstrip()
        if unkeyed := {
            number: result.unkeyed for number, result in alignments.items() if result.unkeyed
        }:
            state = "unproved"
            reason = f"{reason} {_unkeyed_text(unkeyed)}".lstrip()
        handover = TopicHandover(pair.topic, pair.remote_topic, state, reason, partitions)
        return Aligned(pair, handover, alignments, sources, targets)


def _why_not(pair: Pair) -> str:
    """Why a topic cannot be taken over, regardless of its records; "" if it can."""
    if pair.remote and pair.remote.stamps_append_time:
        return (
            "it has message.timestamp.type=LogAppendTime, so that its records have lost their times. "
            "Delete it, and the next run copies it again."
        )
    if pair.mark and pair.mark.preserved:
        return "this flow preserves offsets in it."
    if pair.released:
        return "this flow has given it up (`ferry repair`)."
    if not all(map(pair.is_of_source, pair.positions.values())):
        return (
            f"it is the copy of {pair.copy_of}, by this flow's ledger: has topics.rename changed?"
            if pair.copy_of
            else "the source's topic was deleted and recreated since this flow last copied it."
        )
    if not all(map(pair.is_of_remote, pair.positions.values())):
        return "the target's topic was deleted since this flow last copied to it."
    return ""


def _refusal(pair: Pair, reason: str) -> Aligned:
    handover = TopicHandover(pair.topic, pair.remote_topic, "refused", reason)
    return Aligned(pair, handover, {}, {}, {})


def _numbers_text(partitions: Sequence[int]) -> str:
    shown = ", ".join(map(str, partitions[:_SHOWN]))
    more = f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{more}"


def _late_text(late: Sequence[int]) -> str:
    return (
        f"{_numbers_text(late)} begin{'' if len(late) > 1 else 's'} there with later records than on the source, and "
        "retention cannot have taken all of those before: the mirror never copied some. `ferry backfill` does."
    )


def _unkeyed_text(unkeyed: Mapping[int, int]) -> str:
    missing = sum(unkeyed.values())
    return (
        f"{count(missing, 'record')} without a key that the source has {'is' if missing == 1 else 'are'} not there in "
        f"{_numbers_text([*unkeyed])}: the cleaner of a compacted topic removes such records, and whether they were "
        "lost otherwise cannot be known. `ferry audit` counts them as missing, unless the source is compacted too."
    )


def _is_compacted(pair: Pair) -> bool:
    return any(topic.is_compacted for topic in (pair.source, pair.remote) if topic)
