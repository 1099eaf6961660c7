"""The leader epochs of what was copied of a partition, by its ranges in the ledger."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_ferry.batches.epochs import EpochHistory, EpochSpan, add_span
from kafka_ferry.ledger.copied_range import CopiedRange


def epoch_history(ranges: Iterable[CopiedRange]) -> EpochHistory:
    """The epochs of a partition's ranges, of the branch of the source's log that was copied last.

    Args:
        ranges: all of one topic on either side, in the ledger's order, without backfills.
    """
    spans: list[EpochSpan] = []
    is_whole = True
    for copied in ranges:
        if copied.rewound_from >= 0:
            spans = [
                span._replace(end=min(span.end, copied.start))
                for span in spans
                if span.start < copied.start
            ]
        if copied.records and not copied.digest:
            # Another mirror has copied it, and nothing is known but the last record's epoch.
            spans, is_whole = [], False
        elif copied.epochs:
            for span in copied.epochs:
                add_span(spans, span)
        elif copied.leader_epoch >= 0 and copied.start < copied.end:
            add_span(spans, EpochSpan(copied.start, copied.end, copied.leader_epoch))
        elif copied.leader_epoch >= 0 and not spans:
            # It begins where the log ended: of what is before, only the last batch's epoch is known.
            spans, is_whole = [EpochSpan(copied.start, copied.end, copied.leader_epoch)], False
    return EpochHistory(tuple(spans), is_whole)
