"""Reads ranges as the flow's rules leave them.

Records wait here while their rows are evaluated: two lots at a time, so that one is evaluated while the
other is written. A lot is bounded in bytes and records, or one batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.batches import (
    OPENED_AT_ONCE,
    ConvertedBatch,
    MalformedBatch,
    Record,
    TooLarge,
    TopicLimits,
    cut_at,
    in_parts,
    records_of,
)
from kafka_ferry.batches.record_format.content import header_count
from kafka_ferry.config.options.transform import ErrorPolicy, TransformRule
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.source.reader import Reader
from kafka_ferry.copy.source.record_errors import RecordErrors
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.transform import (
    Changer,
    Evaluated,
    Evaluator,
    FieldFormat,
    TransformedBatch,
    apply_rule,
    rows_of,
)

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

WHAT_FAILS: Final = "a transform rule cannot be applied"
ADVICE: Final = "Mend the rule, or say with on.transform.error what becomes of such records."
_AHEAD: Final = 2
_LOT_BYTES: Final = 16 * 1024 * 1024
_LOT_RECORDS: Final = 50_000
# As JSON for expressions, a record of a registry's schema may have 64 characters for each byte, and some thousand more.
_SPREAD: Final = 4
# A header has two bytes or more, and takes some 300 in memory.
_HEADERS_A_RECORD: Final = 8


class NumberedRule(NamedTuple):
    """A rule: its place in the flow's list, and what it does."""

    number: int
    changer: Changer


Formats = Callable[[TransformRule, str], Mapping[str, FieldFormat]]
"""How the fields of a rule's keys and values in a topic are read that are not JSON."""


def rules_of(
    flow: Flow, ranges: Iterable[Range], formats: Formats, evaluator: Evaluator | None
) -> dict[str, NumberedRule]:
    """The rules in Spark SQL for the topics of ``ranges``, by topic; without those that have none."""
    rules = {topic: flow.transform_of(topic) for topic in {range_.topic for range_ in ranges}}
    numbered: dict[str, NumberedRule] = {}
    for topic, rule in rules.items():
        if rule and not rule.function:
            number = flow.transform.index(rule)
            decimals = evaluator.decimals[number] if evaluator else None
            numbered[topic] = NumberedRule(number, Changer(rule, formats(rule, topic), decimals))
    return numbered


@dataclass(slots=True)
class _Part:
    """Converted batches of one range, each with its records."""

    range: Range
    batches: list[tuple[ConvertedBatch, list[Record]]] = field(default_factory=list)
    failure: Failure | None = None


@dataclass(slots=True)
class _Lot:
    """What is evaluated at a time; ``places`` are those of its records' rows."""

    parts: list[_Part] = field(default_factory=list)
    bytes: int = 0
    records: int = 0
    places: Sequence[int] = ()

    @property
    def is_full(self) -> bool:
        return self.bytes >= _LOT_BYTES or self.records >= _LOT_RECORDS


class TransformedReader:
    """A ``Reader`` of what rules leave of the records that another one reads.

    Args:
        reader: reads the records; closed with this one.
        evaluator: evaluates the rules' expressions.
        rules: as ``rules_of`` gives them; records of other topics stay as they are.
        limits_by_topic: what remote topics take.
        on_error: what becomes of a record for which a step fails.
    """

    def __init__(
        self,
        reader: Reader,
        evaluator: Evaluator,
        rules: Mapping[str, NumberedRule],
        limits_by_topic: Mapping[str, TopicLimits],
        on_error: ErrorPolicy,
    ) -> None:
        self._reader, self._evaluator = reader, evaluator
        self._rules, self._limits_by_topic, self._on_error = rules, limits_by_topic, on_error
        self._waiting: Iterator[_Lot] = iter(())
        self._evaluating: deque[tuple[_Lot, Future[Evaluated]]] = deque()
        self._failed: set[TopicPartition] = set()
        self._has_ended = False

    @property
    def round_trip_s(self) -> float:
        """See ``Reader``."""
        return self._reader.round_trip_s

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        """See ``Reader``; ``TransformFailed`` if the rules cannot be evaluated."""
        self._fill(0.0 if self._evaluating else timeout_s)
        if not self._evaluating:
            return None if self._has_ended else ()
        lot, future = self._evaluating[0]
        try:
            evaluated = future.result(timeout=max(timeout_s, 0.001)).at(lot.places)
        except TimeoutError:
            return ()
        self._evaluating.popleft()
        self._fill(0.0)
        reads, begin = [], 0
        for part in lot.parts:
            end = begin + sum(len(records) for _, records in part.batches)
            reads.append(self._read(part, evaluated, begin))
            begin = end
        return reads

    def drop(self, source: TopicPartition) -> None:
        """See ``Reader``."""
        self._failed.add(source)
        self._reader.drop(source)

    def close(self) -> None:
        """See ``Reader``; what is being evaluated is forgotten."""
        self._reader.close()

    def _fill(self, timeout_s: float) -> None:
        """Let more be evaluated, as far as it has been read."""
        while len(self._evaluating) < _AHEAD:
            lot = next(self._waiting, None)
            if lot is None and not self._has_ended:
                reads = self._reader.next(timeout_s)
                self._has_ended = reads is None
                self._waiting = self._lots(reads or ())
                lot = next(self._waiting, None)
            if lot is None:
                return
            self._begin(lot)

    def _begin(self, lot: _Lot) -> None:
        rows = rows_of(
            (
                (rule.number, part.range.source, records, rule.changer)
                for part in lot.parts
                if (rule := self._rules.get(part.range.topic))
                for _, records in part.batches
                if records
            ),
            self._evaluator.columns,
        )
        lot.places = rows.places
        self._evaluating.append((lot, self._evaluator.evaluate(rows)))

    def _lots(self, reads: Sequence[Read]) -> Iterator[_Lot]:
        lot = _Lot()
        for read in reads:
            part, spread = _Part(read.range), self._spread(read.range.topic)
            lot.parts.append(part)
            at = read.converted_batches[0].start if read.converted_batches else 0
            try:
                for converted, records in self._open(read):
                    part.batches.append((converted, records))
                    lot.records += len(records) * spread + self._weight(records, read.range.topic)
                    lot.bytes += sum(len(record[3]) for record in records) * spread
                    at = converted.end
                    if lot.is_full:
                        yield lot
                        part = _Part(read.range)
                        lot = _Lot([part])
            except MalformedBatch as error:
                message = f"the source sent {error}."
                part.failure = Failure.of(read.range, at, message, transient=False)
            part.failure = part.failure or read.failure
        if any(part.batches or part.failure for part in lot.parts):
            yield lot

    def _open(self, read: Read) -> Iterator[tuple[ConvertedBatch, list[Record]]]:
        """What was read with the records that a rule is for; what is too large at once, in parts."""
        for converted in read.converted_batches:
            records = self._records(converted, read.range.topic)
            if records is not None:
                yield converted, records
                continue
            for part in in_parts(converted):
                yield part, records_of(part)

    def _records(self, converted: ConvertedBatch, topic: str) -> list[Record] | None:
        """The records of a converted batch, none where no rule is for them; None if they are too many at once."""
        if topic not in self._rules:
            return []
        spread = self._spread(topic)
        if sum(count for _, count in converted.runs) * spread > _LOT_RECORDS:
            return None
        try:
            records = records_of(converted, OPENED_AT_ONCE // spread)
        except TooLarge:
            return None
        return None if self._weight(records, topic) > _LOT_RECORDS else records

    def _weight(self, records: Sequence[Record], topic: str) -> int:
        """How many records the headers of records count for, where expressions see all of them."""
        rule = self._rules.get(topic)
        if rule is None:
            return 0
        sees_all = "header_list" in self._evaluator.columns[rule.number]
        if not sees_all and rule.changer.named_headers is not None:
            return 0
        return sum(header_count(record[3]) for record in records) // _HEADERS_A_RECORD

    def _spread(self, topic: str) -> int:
        """How many records each of a topic's counts for, in number and bytes."""
        rule = self._rules.get(topic)
        formats = rule.changer.formats.values() if rule else ()
        return _SPREAD if any(it.schema_header for it in formats) else 1

    def _read(self, part: _Part, evaluated: Evaluated, begin: int) -> Read:
        """What the copier gets of a part, whose rows begin at ``begin``."""
        errors = RecordErrors(part.range, self._on_error, WHAT_FAILS, ADVICE)
        is_dropped = part.range.source in self._failed
        for converted, records in part.batches:
            results = evaluated.part(begin, begin + len(records))
            begin += len(records)
            if is_dropped or errors.failure:
                continue
            if not records:
                errors.add((converted,), {})
                continue
            became = self._apply(part.range, converted, records, results)
            number = self._rules[part.range.topic].number + 1
            texts = {at: f"rule {number}: {text}" for at, text in became.errors.items()}
            if texts and self._on_error == "fail":
                errors.add(self._before(part.range, converted, records, results, min(texts)), texts)
            else:
                errors.add(became.converted, texts)
        if is_dropped or errors.failure:
            self.drop(part.range.source)
        return errors.read(part.failure)

    def _apply(
        self,
        range_: Range,
        converted: ConvertedBatch,
        records: Sequence[Record],
        results: Evaluated,
    ) -> TransformedBatch:
        topic_limits = self._limits_by_topic.get(range_.remote_topic, TopicLimits())
        number, changer = self._rules[range_.topic]
        reads = self._evaluator.reads[number]
        return apply_rule(converted, records, results, changer, topic_limits, reads)

    def _before(
        self,
        range_: Range,
        converted: ConvertedBatch,
        records: Sequence[Record],
        results: Evaluated,
        offset: int,
    ) -> Sequence[ConvertedBatch]:
        """What the rule leaves of a converted batch up to ``offset``; it counts no record after that."""
        if offset <= converted.start:
            return ()
        head, _ = cut_at(converted, offset)
        count = sum(record[0] < offset for record in records)
        if not count:
            return (head,)
        return self._apply(range_, head, records[:count], results.part(0, count)).converted
