"""Records in the ledger that ranges are left as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_ferry.clock import now_ms
from kafka_ferry.ledger import AcceptedRange, VerificationEntry, append_entry
from kafka_ferry.runs.state.run_context import RunContext

if TYPE_CHECKING:
    from kafka_ferry.verify import RangeRow


def accepted_range(row: RangeRow, reason: str) -> AcceptedRange:
    """A range as it was read back, to be left so.

    What has expired by then counts as had: as many records more must not be missing later.
    """
    return AcceptedRange(
        ledger_offset=row.ledger.ledger_offset,
        topic=row.topic,
        partition=row.partition,
        start=row.start,
        records=row.recount.target_records + row.recount.expired,
        digest=row.recount.digest_read,
        reason=reason,
    )


def accept_ranges(run: RunContext, accepted: Sequence[AcceptedRange]) -> None:
    """Record in the ledger that ranges are left as they are.

    Raises:
        FerryError: the ledger cannot be written.
    """
    run.project_ledger()
    entry = VerificationEntry(
        flow=run.flow.name,
        run=run.run_id,
        at=now_ms(),
        through=run.ledger.verified_through(),
        ranges=0,
        records=0,
        accepted=tuple(accepted),
    )
    append_entry(run.flow, entry)
    run.project_ledger()
