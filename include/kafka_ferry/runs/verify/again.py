"""Reads back once more what was proved long ago: a target may lose later what it held then."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.proofs import failed_entries, last_proof
from kafka_ferry.runs.verify.proof_ages import proof_ages
from kafka_ferry.runs.verify.recount import claims_of, recount_ranges
from kafka_ferry.verify.claim import ReadUntil
from kafka_ferry.verify.recount import recount_each, recount_here
from kafka_ferry.verify.rotation import ProvedEntry, due_again, intervals
from kafka_ferry.verify.topics import NOTHING_REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.ledger import LedgerRange
    from kafka_ferry.model import Plan, Topic, TopicPartition
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.state.stored_recounts import Claims
    from kafka_ferry.spark.session import SparkSource
    from kafka_ferry.verify import PartitionRecount, RangeRow
    from kafka_ferry.verify.recount import Asked

    _Ends = Mapping[TopicPartition, ReadUntil]

SMALL: Final = 256 * 1024 * 1024
"""Up to this many bytes are read in this process sooner than Spark starts."""


@dataclass(frozen=True)
class Rotation:
    """What a run reads back once more.

    Attributes:
        due: the ledger's records whose ranges are read.
        others: all others that are proved.
        is_wanted: whether the flow wants that, and the run is for the whole flow.
    """

    due: tuple[ProvedEntry, ...] = ()
    others: tuple[ProvedEntry, ...] = ()
    is_wanted: bool = False

    @property
    def bytes(self) -> int:
        """How many bytes are read."""
        return sum(entry.bytes for entry in self.due)

    @property
    def intervals(self) -> tuple[tuple[int, int], ...]:
        """Their ledger offsets ``[start, end)``."""
        due = {entry.ledger_offset for entry in self.due}
        return tuple(intervals(due, {entry.ledger_offset for entry in self.others}))

    def oldest(self, *, is_read: bool) -> int:
        """When the oldest proof was made, in milliseconds since 1970; 0 where there is none.

        Args:
            is_read: whether what is due was read and is proved again.
        """
        left = self.others if is_read else (*self.due, *self.others)
        return min((entry.proved_at for entry in left), default=0)


def planned_rotation(
    run: RunContext,
    plan: Plan,
    target: ClusterControl,
    *,
    before: int,
) -> Rotation:
    """What a run is to read back once more, by its ledger as it was last projected.

    What a verification has found wrong each run reads, so that none says that all is well, until a person has decided.

    Args:
        run: the run.
        plan: its plan.
        target: the target.
        before: the ledger offset of the first record that the run reads back anyway.

    Raises:
        FerryError: if the target does not answer.
    """
    within = run.flow.verify_everything_within
    if not plan.options.is_whole:
        return Rotation()
    failed = failed_entries(run.ledger)
    if within is None and not failed:
        return Rotation()
    known = proof_ages(run.ledger, target).entries()
    entries = [entry for entry in known if entry.ledger_offset < before]
    due = {entry for entry in entries if entry.ledger_offset in failed}
    now = now_ms()
    # Of what is gone there is nothing to read, and nothing that is wrong.
    gone = failed - {entry.ledger_offset for entry in known}
    due |= {ProvedEntry(at, 0, now) for at in gone if at < before}
    if within is not None:
        last = last_proof(run.ledger)
        due |= {
            *due_again(
                entries,
                now=now,
                within_ms=int(within.total_seconds() * 1000),
                pause_ms=max(0, now - last.at) if last else 0,
            )
        }
    left = set(entries) - due
    return Rotation(tuple(sorted(due)), tuple(sorted(left)), is_wanted=within is not None)


def read_again(
    spark: SparkSource, run: RunContext, target: ClusterControl, rotation: Rotation
) -> list[RangeRow]:
    """Read back once more what a run is to read; what has expired meanwhile is left out.

    The rows of what may not be read, or is damaged, say so.

    Args:
        spark: gives the session; called only if there is much to read.
        run: the run.
        target: the target.
        rotation: what is read.

    Raises:
        FerryError: if the target does not answer.
    """
    rows: list[RangeRow] = []
    is_much = rotation.bytes > 2 * SMALL
    for start, end in rotation.intervals:
        # One after the other: what lies between them in a partition is not read.
        ranges = [entry for entry in run.ledger.ranges_within(start, end) if entry.copied.records]
        present = _read_each(spark if is_much else None, run, target, ranges)
        rows += (replace(row, again=True) for row in present if _is_there(row))
    return rows


def read_ranges(
    run: RunContext, target: ClusterControl, ranges: Sequence[LedgerRange]
) -> list[RangeRow]:
    """Read some of the ledger's ranges back from the target, in this process; those that are gone have no row.

    Raises:
        FerryError: if a partition cannot be read.
    """
    topics = target.topics({entry.target.topic for entry in ranges})
    return _rows(run, ranges, topics, partial(_read_here, recount_here, run.flow))


def _read_each(
    spark: SparkSource | None,
    run: RunContext,
    target: ClusterControl,
    ranges: Sequence[LedgerRange],
) -> list[RangeRow]:
    topics, refused = target.readable_topics({entry.target.topic for entry in ranges})
    if spark is None:
        return _rows(run, ranges, topics, partial(_read_here, recount_each, run.flow), refused)
    from kafka_ferry.spark.recount import recount_all  # noqa: PLC0415  (PySpark)

    return _rows(run, ranges, topics, partial(recount_all, spark(), run.flow), refused)


def _rows(
    run: RunContext,
    ranges: Sequence[LedgerRange],
    topics: Mapping[str, Topic],
    read: Callable[[Claims, _Ends], Mapping[TopicPartition, PartitionRecount]],
    refused: Mapping[str, FerryError] = NOTHING_REFUSED,
) -> list[RangeRow]:
    """The rows of ranges, whose partitions are read no further than these reach."""
    until = _until(ranges, claims_of(run.ledger, ranges, topics))
    recounted = recount_ranges(
        lambda claims: read(claims, until) if claims else {},
        *(run.flow, run.ledger, ranges, topics),
        is_backfill=True,
        refused=refused,
    )
    return recounted.present


def _is_there(row: RangeRow) -> bool:
    return row.recount.expired < row.ledger.copied


def _until(ranges: Iterable[LedgerRange], claims: Claims) -> _Ends:
    """Where to stop reading each *target* partition."""
    sizes: dict[TopicPartition, int] = defaultdict(int)
    for entry in ranges:
        sizes[entry.target] += entry.copied.bytes
    return {
        tp: ReadUntil(max(claim.target_end for claim in of_partition), sizes[tp])
        for tp, of_partition in claims.items()
    }


def _read_here(
    recount: Callable[[Cluster, Asked], Iterable[tuple[TopicPartition, PartitionRecount]]],
    flow: Flow,
    claims: Claims,
    until: _Ends,
) -> dict[TopicPartition, PartitionRecount]:
    return dict(recount(flow.target, [(tp, some, until[tp]) for tp, some in claims.items()]))
