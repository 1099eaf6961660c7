"""A second witness for offsets without a record: the source's log, which the verification reads itself.

That an offset was aborted, a control record or compacted away is otherwise only said by the task that did not copy
it. A run asks the source for a sample: a few stretches that its id chooses, from every partition one before any has
two. A source that no longer has a stretch, or does not answer, is no fault of the copy: it is not witnessed then.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from kafka_ferry.batches import Reason, each_record
from kafka_ferry.batches.windows import SettledSpan, TimeWindow
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.copied_ranges import spans_into
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.backfill.windows import (
    BEGINNING,
    FOREVER,
    Accounted,
    gaps,
    settled_spans,
)
from kafka_ferry.retry import retry_for
from kafka_ferry.verify.rows import SourceWitness
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import ended_batches

if TYPE_CHECKING:
    from kafka_ferry.ledger import CopiedRange, LedgerRange, LedgerTable, RangeKey
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.wire import WireCluster

log = logging.getLogger(__name__)

_MOST_STRETCHES: Final = 16
_MOST_OFFSETS: Final = 10_000
# A range that holds none takes no more to read than its batches of aborted records.
_MOST_EMPTY: Final = 1_000_000
_ANSWER_BYTES: Final = 256 * 1024
# The proof of what was copied does not wait for a source that is away.
_WAIT_S: Final = 5.0
_BY_THE_SOURCE: Final = frozenset({Reason.ABORTED, Reason.CONTROL, Reason.COMPACTED, Reason.LOST})

_Found = dict["RangeKey", SourceWitness]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Source offsets ``[start, end)`` of a range of the ledger, none of which has a record on the target.

    Attributes:
        entry: the range.
        start: the first of them.
        end: the offset after the last one.
    """

    entry: LedgerRange
    start: int
    end: int

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return _source(self.entry.copied)


def stretches(run: str, ranges: Iterable[LedgerRange]) -> list[Stretch]:
    """What a run asks the source for.

    Args:
        run: the run's id.
        ranges: what it verifies. Those that lack records for other reasons too, such as a rule's, say nothing of
            where the source has none.
    """
    of_partition: dict[TopicPartition, list[Stretch]] = defaultdict(list)
    for entry in ranges:
        reasons = {reason for reason, offsets in entry.copied.reasons.items() if offsets}
        letters = sum(it.records for it in entry.copied.letters)
        if letters and letters == entry.copied.reasons.get(Reason.DEAD_LETTERED):
            reasons.discard(Reason.DEAD_LETTERED)
        if reasons and reasons <= _BY_THE_SOURCE:
            of_partition[_source(entry.copied)] += _absent(run, entry)
    turns = [
        (turn, _shuffle_key(run, it), it)
        for some in of_partition.values()
        for turn, it in enumerate(sorted(some, key=lambda it: _shuffle_key(run, it)))
    ]
    turns.sort(key=lambda it: it[:2])
    return [it for _, _, it in turns[:_MOST_STRETCHES]]


def ask_source(run: RunContext, ranges: Iterable[LedgerRange]) -> _Found:
    """What the source says of a sample of the offsets without a record, by range."""
    witnesses: _Found = {}
    chosen = stretches(run.run_id, ranges)
    if not chosen:
        return witnesses
    try:
        with retry_for(_WAIT_S), connect(run.flow.source) as cluster:
            leaders = cluster.leaders({chosen_stretch.source for chosen_stretch in chosen})
            for stretch in chosen:
                copied = stretch.entry.copied
                if leaders[stretch.source].topic_id in ("", copied.topic_id):
                    witness, key = _witness(cluster, stretch), stretch.entry.key
                    witnesses[key] = witnesses.get(key, SourceWitness()) + witness
    except FerryError as error:
        log.warning("What has no record on the target was not looked up on the source: %s", error)
    return witnesses


def empty_on_source(run: RunContext, ranges: Iterable[LedgerRange]) -> list[LedgerRange]:
    """The ranges without records where the source has none either, or for a backfill none that it was to copy.

    All of their offsets are looked up; what other ranges of the ledger have copied before, a backfill does not copy.
    What they say is true then, whichever client has written them into the ledger. Of those that the source no longer
    has whole, or whose leader epoch is not known, that cannot be said.
    """
    doubted = list(ranges)
    empty = [range_ for range_ in doubted if _is_empty(range_)]
    if not empty:
        return []
    strange = {range_.ledger_offset for range_ in doubted}
    proved = []
    try:
        with retry_for(_WAIT_S), connect(run.flow.source) as cluster:
            leaders = cluster.leaders({_source(range_.copied) for range_ in empty})
            for entry in empty:
                copied = entry.copied
                if leaders[_source(copied)].topic_id != copied.topic_id:
                    continue
                stretch = Stretch(entry, copied.start, copied.end)
                witness = _witness(cluster, stretch, _wanted(run.ledger, entry, strange))
                if not witness.contradicted and witness.witnessed == copied.end - copied.start:
                    proved.append(entry)
    except FerryError as error:
        log.warning("Whether the source has records of empty ranges was not looked up: %s", error)
    return proved


def _is_empty(entry: LedgerRange) -> bool:
    """Whether a range says nothing but that the source has no records there, or for a backfill none to copy."""
    copied = entry.copied
    by_the_source = _BY_THE_SOURCE - {Reason.LOST}
    if entry.window:
        by_the_source |= {Reason.OUTSIDE_WINDOW, Reason.COPIED_BEFORE}
    reasons = {reason: offsets for reason, offsets in copied.reasons.items() if offsets}
    return (
        copied.start < copied.end <= copied.start + _MOST_EMPTY
        and reasons.keys() <= by_the_source
        and sum(reasons.values()) == copied.end - copied.start
        and not (copied.records or copied.segments or copied.compared or copied.letters)
        and not copied.preserved
        and copied.rewound_from < 0 <= copied.leader_epoch
    )


def _wanted(ledger: LedgerTable, entry: LedgerRange, doubted: Container[int]) -> TimeWindow | None:
    """Which records the backfill that has written ``entry`` was to copy; None where it says that there were none.

    Args:
        ledger: the flow's ledger.
        entry: the range.
        doubted: the ledger offsets of ranges that prove nothing.
    """
    if entry.window is None:
        return None
    copied, since, until = entry.copied, BEGINNING, FOREVER
    if copied.reasons.get(Reason.OUTSIDE_WINDOW):
        since, until = entry.window.since_ms, entry.window.until_ms
    accounts: list[Accounted] = []
    if copied.reasons.get(Reason.COPIED_BEFORE):
        for span in spans_into(ledger, [copied.topic_id], [copied.remote_topic_id]):
            if span.source == _source(copied) and span.ledger_offset not in doubted:
                # A truncation voids what was copied from there on.
                accounts.append(Accounted(span.start, span.start, None, span.rewound_from >= 0))
                accounts += (Accounted(it.source, it.source + it.records) for it in span.segments)
    settled = (SettledSpan(*astuple(it)) for it in settled_spans(accounts))
    return TimeWindow(since, until, settled)


def _source(copied: CopiedRange) -> TopicPartition:
    return TopicPartition(copied.topic, copied.partition)


def _absent(run: str, entry: LedgerRange) -> Iterator[Stretch]:
    """The stretches of a range, of a long one a part that the run's id chooses."""
    copied = entry.copied
    known = sorted((*copied.segments, *copied.letters))
    present = [(segment.source, segment.source + segment.records) for segment in known]
    for start, end in gaps(present, (copied.start, copied.end)):
        spare = max(0, end - start - _MOST_OFFSETS)
        first = start + (_shuffle_key(run, Stretch(entry, start, end)) % (spare + 1))
        yield Stretch(entry, first, min(end, first + _MOST_OFFSETS))


def _witness(
    cluster: WireCluster, stretch: Stretch, wanted: TimeWindow | None = None
) -> SourceWitness:
    """What the source's log has there now; nothing is said of what it has no more, or not yet again.

    Args:
        cluster: the source.
        stretch: the offsets.
        wanted: takes the records that count; None for all.
    """
    source_log = partition_log(cluster, stretch.source)
    at = first = max(stretch.start, source_log.start)
    if first >= min(stretch.end, source_log.end):
        return SourceWitness()
    strange: list[int] = []
    for batch, is_aborted in ended_batches(cluster, source_log, first, max_bytes=_ANSWER_BYTES):
        header = batch.header
        if 0 <= stretch.entry.copied.leader_epoch < header.leader_epoch:
            break  # An unclean election has replaced what was copied.
        if header.base_offset < stretch.end and not (is_aborted or header.is_control):
            records = [it for it in each_record(batch) if first <= it[0] < stretch.end]
            strange += [it[0] for it in (wanted.leave_out(records)[0] if wanted else records)]
        at = min(header.next_offset, stretch.end)
        if at == stretch.end:
            break
    contradiction = f"offset {strange[0]} has a record on the source" if strange else ""
    return SourceWitness(
        max(0, at - first), len(strange), (contradiction,) if contradiction else ()
    )


def _shuffle_key(run: str, stretch: Stretch) -> int:
    return xxhash.xxh3_64_intdigest(f"{run} {stretch.entry.key} {stretch.start}".encode())
