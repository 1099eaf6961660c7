"""Which source offsets are of the logs that the source has now: one that was truncated may have grown again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_ferry.ledger.queries.copied_ranges import rewinds
from kafka_ferry.runs.provenance.diverged_epochs import copies_of
from kafka_ferry.runs.provenance.diverged_logs import all_diverged

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable

Span = tuple[int, int]


@dataclass(frozen=True)
class Branches:
    """Which offsets that were copied the source still has as they were copied.

    Attributes:
        diverged: where a log parts from what was copied last, by the topic's id and the partition; -1 where that is
            unknown.
        rewinds: where copying began again in the place of what the source had lost, likewise: source offsets, each with
            the ledger's offset of the range that begins there.
        unknown: what could not be found out, a sentence each.
    """

    diverged: Mapping[tuple[str, int], int]
    rewinds: Mapping[tuple[str, int], Sequence[tuple[int, int]]]
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, flow: Flow, ledger: LedgerTable, ids: Mapping[str, str], *, by_records: bool = False
    ) -> Branches:
        """The branches of some topics of the source.

        Args:
            flow: the flow.
            ledger: its ledger, projected.
            ids: the topics' ids, by name.
            by_records: whether the records that were copied last are looked up too, in every partition.

        Raises:
            FerryError: if the source does not say where its epochs end.
        """
        diverged, unknown = all_diverged(
            flow.source, flow.target, ledger, *copies_of(ledger, ids), by_records=by_records
        )
        by_id = {(ids[tp.topic], tp.partition): offset for tp, offset in diverged.items()}
        return cls(by_id, rewinds(ledger), unknown)

    def kept(self, place: tuple[str, int], offsets: Span, ledger_offset: int) -> Span | None:
        """The part of a range's source offsets that the source still has as it was copied; None for nothing.

        Args:
            place: the topic's id and the partition.
            offsets: the range.
            ledger_offset: that of the range in the ledger.
        """
        start, end = offsets
        ends = [at for at, later in self.rewinds.get(place, ()) if later > ledger_offset]
        end = min([end, *ends, *([self.diverged[place]] if place in self.diverged else ())])
        return (start, end) if start < end else None
