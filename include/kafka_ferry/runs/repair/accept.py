"""Records in the ledger that ranges are left as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import AcceptedRange, VerificationEntry, append_entry
from kafka_ferry.runs.repair.held_records import read_lacking
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.verify.rows import key_of

if TYPE_CHECKING:
    from kafka_ferry.ledger import LedgerRange, LedgerTable, RangeKey
    from kafka_ferry.runs.repair.missing_offsets import Span
    from kafka_ferry.verify import RangeRow

# About 400 KB of JSON: a ledger record must stay below the default max.message.bytes. What is not named explains
# nothing once a part of the range has expired, and is for a person to decide again.
_MOST_SPANS: Final = 10_000


def range_at(ledger: LedgerTable, key: RangeKey) -> LedgerRange:
    """A range in the ledger.

    Raises:
        FerryError: there is none with this key.
    """
    at, topic, partition, start = key
    for entry in ledger.ranges_within(at, at + 1):
        if entry.key == key:
            return entry
    raise FerryError(f"The ledger has no range {topic}-{partition} from {start} at {at}")


def accepted_range(row: RangeRow, reason: str, missing: Sequence[Span]) -> AcceptedRange:
    """A range as it was read back, to be left so.

    What has expired by then counts as had: as many records more must not be missing later.

    Args:
        row: what was read back.
        reason: why, for those who read the ledger.
        missing: the *target* offsets at which its records are missing, ascending.
    """
    return AcceptedRange(
        ledger_offset=row.ledger.ledger_offset,
        topic=row.topic,
        partition=row.partition,
        start=row.start,
        records=row.recount.target_records + row.recount.expired,
        digest=row.recount.digest_read,
        reason=reason,
        missing=tuple(missing),
    )


def accept_ranges(run: RunContext, rows: Sequence[RangeRow], reason: str) -> None:
    """Record in the ledger that ranges are left as they were read back.

    Args:
        run: the repair.
        rows: what was read back of each.
        reason: why, for those who read the ledger.

    Raises:
        FerryError: one of them lacks more by now; or the ledger cannot be written.
    """
    run.project_ledger()
    room, accepted = _MOST_SPANS, list[AcceptedRange]()
    for row in rows:
        missing = _missing_offsets(run, row)[:room]
        room -= len(missing)
        accepted.append(accepted_range(row, reason, missing))
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


def _missing_offsets(run: RunContext, row: RangeRow) -> Sequence[Span]:
    entry = range_at(run.ledger, key_of(row))
    missing = read_lacking(run.flow, entry)
    known = row.ledger.copied - row.recount.target_records - row.recount.expired
    if sum(end - start for start, end in missing) > known:
        raise FerryError(
            f"{row.target} lacks more of {row} than when it was verified.",
            advice="Verify again: a person decides on what is there now.",
        )
    return missing
