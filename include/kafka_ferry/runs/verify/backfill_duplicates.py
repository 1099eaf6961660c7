"""Finds records that a backfill copied although the target had them, by the ledger's offset maps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_ferry.ledger.queries.copied_ranges import spans_into
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.backfill.separate_topic import places_of
from kafka_ferry.plan.backfill.windows import Span, common, merge_spans

if TYPE_CHECKING:
    from kafka_ferry.ledger import LedgerRange, LedgerTable


@dataclass(slots=True)
class _Records:
    """The source offsets of a partition's records on the target.

    Attributes:
        own: those of the run, each as often as it was copied.
        others: those of all other runs.
    """

    own: list[Span] = field(default_factory=list)
    others: list[Span] = field(default_factory=list)

    def cut(self, offset: int) -> None:
        """Forget what was copied from ``offset`` on: the source has other records there by now."""
        for name in ("own", "others"):
            spans = [(start, min(end, offset)) for start, end in getattr(self, name)]
            setattr(self, name, [span for span in spans if span[0] < span[1]])

    @property
    def twice(self) -> int:
        once = merge_spans(self.own)
        again = sum(end - start for start, end in self.own) - _length(once)
        return again + common(once, merge_spans(self.others))


def count_duplicates(
    ledger: LedgerTable, run: str, ranges: Iterable[LedgerRange], remote_ids: Iterable[str]
) -> dict[TopicPartition, int]:
    """How many records of each *source* partition a run has copied that another range has also copied.

    Args:
        ledger: the flow's ledger, projected.
        run: the run.
        ranges: its ranges.
        remote_ids: the ids of the remote topics that exist.
    """
    wanted_of = {
        TopicPartition(entry.copied.topic, entry.copied.partition): entry.copied for entry in ranges
    }
    if not wanted_of:
        return {}
    places = {source: places_of(copied.remote_topic) for source, copied in wanted_of.items()}
    ids = {copied.topic_id for copied in wanted_of.values()}
    records_by_source: dict[TopicPartition, _Records] = defaultdict(_Records)
    for span in spans_into(ledger, ids, remote_ids):
        of_range = wanted_of.get(span.source)
        if of_range is None or of_range.topic_id != span.topic_id:
            continue
        records = records_by_source[span.source]
        if span.rewound_from >= 0:
            records.cut(span.start)
        # A copy under another name has them too, and that is not twice.
        if span.remote_topic in places[span.source]:
            spans = records.own if span.run == run else records.others
            spans += ((entry.source, entry.source + entry.records) for entry in span.segments)
    return {source: records.twice for source, records in records_by_source.items()}


def _length(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)
