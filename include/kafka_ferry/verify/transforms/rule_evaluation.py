"""Evaluates transform rules again for ranges that were copied, and compares that with the target.

It reads the source as the copier does, and takes from the ledger only where a range's records are on the target.
A source that no longer has a range, or does not answer, is no fault of the copy: the range is not evaluated then.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import Batch, MalformedBatch, Reason, Segment, each_record, records_of
from kafka_ferry.copy.record_changes import ChangedRanges, RecordChanges
from kafka_ferry.copy.source.cursor import ReadRules
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.ledger import RangeKey
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.transform import TransformFailed
from kafka_ferry.verify.rows import RuleEvaluation
from kafka_ferry.verify.transforms.rule_comparison import Became, Given, compare_rule
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_batches, retried_batches

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.copy.source.cursor import Read

# The copy is proved by what was read back already: a source that is down is not waited for long.
_WAIT_S: Final = 15.0
_FETCH_BYTES: Final = 1024 * 1024
_BECAME: Final[dict[Reason, Became]] = {Reason.FILTERED: "filtered", Reason.LOST: "deleted"}


@dataclass(frozen=True, slots=True)
class RangeToEvaluate:
    """Source offsets of a range of the ledger whose rule is evaluated again.

    Attributes:
        key: the range.
        range: the offsets.
        segments: where its records are on the target.
        letters: where its dead letters are in their topic.
        elsewhere: how many other offsets of the ledger's range have no record on the target for a reason that is
            not the rule's.
        rule: the rule, in sentences.
    """

    key: RangeKey
    range: Range
    segments: tuple[Segment, ...]
    letters: tuple[Segment, ...]
    elsewhere: int
    rule: str


Evaluations = list[tuple[RangeKey, RuleEvaluation]]


def evaluate_again(
    flow: Flow, ranges: Sequence[RangeToEvaluate], changes: RecordChanges
) -> Evaluations:
    """Evaluate rules again, one range after the other.

    Args:
        flow: the flow, with the secrets that its clusters and rules need.
        ranges: the ranges.
        changes: what changed their records, by the same rules.

    Raises:
        CorruptBatch: if the target returns bytes that are not a valid batch.
        FerryError: if the target cannot be read, or rules cannot be evaluated at all.
    """
    # The copier would stop at a record for which the rule fails; this is to go on, and name it.
    on_error = "pass" if flow.on_transform_error == "pass" else "dead-letter"
    unknown = "pass" if flow.on_unknown_schema == "pass" else "dead-letter"
    lenient = flow.model_copy(update={"on_transform_error": on_error, "on_unknown_schema": unknown})
    evaluations: Evaluations = []
    changed = ChangedRanges(lenient, [one.range for one in ranges], changes)
    source = _Source(lenient, changed)
    with closing(changed), connect(flow.target) as target, retry_for(_WAIT_S):
        for one in ranges:
            with (
                closing(source.fates(one.range)) as fates,
                closing(_target_records(target, one)) as records,
            ):
                evaluation = compare_rule(
                    one.rule,
                    fates,
                    records,
                    one.segments,
                    letters=one.letters,
                    elsewhere=one.elsewhere,
                )
            evaluations.append((one.key, evaluation))
    return evaluations


class _Source:
    """What the rules give for the source's records.

    Args:
        flow: the flow.
        changed: opens readers of the ranges.
    """

    def __init__(self, flow: Flow, changed: ChangedRanges) -> None:
        self._flow, self._changed = flow, changed
        self._unreachable = ""

    def fates(self, range_: Range) -> Generator[Given]:
        """What becomes of a range's offsets, all of them.

        Raises:
            TransformFailed: the rules cannot be evaluated at all.
        """
        at, why = range_.start, self._unreachable
        try:
            for read in () if why else self._reads(range_):
                for one in fates_of(read):
                    yield one
                    at = one.end
                why = why or (read.failure.reason if read.failure else "")
        except TransformFailed:
            raise
        except ClusterUnreachable as error:
            why = self._unreachable = str(error)
        except FerryError as error:
            why = str(error)
        if at < range_.end:
            yield Given(at, range_.end, "deleted", why=why or "the source ends before")

    def _reads(self, range_: Range) -> Iterator[Read]:
        how = ReadRules(
            max_bytes=_FETCH_BYTES,
            wait_s=_WAIT_S,
            committed=self._flow.isolation_level == "read_committed",
            skip_lost=True,
        )
        reader = self._changed.open({range_: Position(range_.start)}, how)
        with closing(reader):
            while (reads := reader.next(1.0)) is not None:
                yield from reads


def fates_of(read: Read) -> Iterator[Given]:
    """What became of the offsets of what was read, ascending.

    Raises:
        FerryError: if a batch of the source cannot be read.
    """
    for converted in read.converted_batches:
        fates = [
            Given(first, end, _BECAME.get(reason, "none"))
            for first, end, reason in converted.absent
        ]
        try:
            records = records_of(converted)
        except MalformedBatch as error:
            raise FerryError(f"the source sent {error}.") from error
        for offset, _, _, content in records:
            why = read.set_aside.get(offset)
            became: Became = "kept" if why is None else "failed"
            fates.append(Given(offset, offset + 1, became, content, why or ""))
        yield from sorted(fates)


def _target_records(
    target: WireCluster, to_evaluate: RangeToEvaluate
) -> Generator[tuple[int, bytes]]:
    """The records that the target still holds of a range, by their source offsets."""
    partition, segments = to_evaluate.range.target, to_evaluate.segments
    if not segments:
        return
    log = retry(lambda: partition_log(target, partition))
    start, end = max(segments[0].target, log.start), segments[-1].target + segments[-1].records
    if start >= min(end, log.end):
        return

    def open_at(at: int) -> Iterator[Batch]:
        return committed_batches(
            target, partition_log(target, partition), at, max_bytes=_FETCH_BYTES
        )

    with corrupt_in(partition, target.alias):
        yield from by_source_offset(retried_batches(open_at, start), segments, log.start)


def by_source_offset(
    batches: Iterable[Batch], segments: Sequence[Segment], log_start: int
) -> Iterator[tuple[int, bytes]]:
    """The contents of the records that segments name, by source offset, ascending.

    Args:
        batches: the target's batches, ascending, to the last segment's end or beyond it.
        segments: where records are.
        log_start: the first offset of the target's log.

    Raises:
        MalformedBatch: if a batch cannot be read.
    """
    place = 0
    for batch in batches:
        if place == len(segments) or batch.header.base_offset >= _target_end(segments[-1]):
            return
        for offset, _, _, content in each_record(batch):
            while place < len(segments) and _target_end(segments[place]) <= offset:
                place += 1
            if place == len(segments):
                return
            segment = segments[place]
            if max(segment.target, log_start) <= offset:
                yield segment.source + offset - segment.target, content


def _target_end(segment: Segment) -> int:
    return segment.target + segment.records
