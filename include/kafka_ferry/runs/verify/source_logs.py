"""Whether the source's logs are still those that were copied, now that the word is to be said.

A range may end within a transaction, where the partition has stopped, or where another producer's transaction was open
behind it: its first records are copied, or left out as aborted, and the next run goes on after them. If the source's
log is truncated before the marker meanwhile, the position is not below the place where the logs part; and the
producer's next marker may say the opposite. Such a transaction has records before a place where a leader epoch begins,
and ends after it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import Reason
from kafka_ferry.errors import CorruptBatch, FerryError
from kafka_ferry.ledger.queries.copied_ranges import ranges_with, transaction_ends
from kafka_ferry.ledger.queries.run_starts import isolation_levels
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.at_offset import MOST_OPEN, aborted_across, ended_otherwise
from kafka_ferry.wire.partitions.epochs import epoch_ends
from kafka_ferry.wire.partitions.partition_log import led_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerRange, LedgerTable
    from kafka_ferry.model import Position
    from kafka_ferry.verify import PartitionRow
    from kafka_ferry.wire import WireCluster
    from kafka_ferry.wire.partitions.partition_log import PartitionLog

log = logging.getLogger(__name__)

_WAIT_S: Final = 5.0
_NOT_LOOKED_UP: Final = "Whether transactions have ended otherwise was not looked up: %s"
# Of a range with others, such as a rule's, it is not known why a record has no copy.
_BY_THE_SOURCE: Final = frozenset({Reason.ABORTED, Reason.CONTROL, Reason.COMPACTED, Reason.LOST})


def compare_with_source(
    flow: Flow,
    ledger: LedgerTable,
    rows: Sequence[PartitionRow],
    positions: Mapping[TopicPartition, Position],
    ranges: Iterable[LedgerRange] = (),
) -> list[PartitionRow]:
    """The rows, with what the source has lost or replaced before their positions, by its leader epochs (KIP-320).

    A source that does not answer says nothing: what was copied of it can be proved without it.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        rows: the partitions that are verified.
        positions: the flow's, by *target* partition.
        ranges: what is to be proved of them.
    """
    at = {
        row: epoch_position for row in rows if (epoch_position := _epoch_position(row, positions))
    }
    epochs = {row.source: position.leader_epoch for row, position in at.items()}
    if not epochs:
        return list(rows)
    try:
        with retry_for(_WAIT_S), connect(flow.source) as cluster:
            ends = retry(lambda: epoch_ends(cluster, epochs))
    except FerryError as error:
        log.warning("Whether the source still holds what was copied was not looked up: %s", error)
        return list(rows)
    replaced = {
        row: max(1, position.offset - epoch_end.end)
        for row, position in at.items()
        if (epoch_end := ends.get(row.source))
        and (epoch_end.epoch != position.leader_epoch or epoch_end.end < position.offset)
    }
    by_source = {row.source: position for row, position in at.items()}
    if flow.isolation_level == "read_committed":
        reopened = _reopened_transactions(flow, ledger, by_source, ranges)
        for row, position in at.items():
            if row.source in reopened:
                since_reopened = position.offset - reopened[row.source]
                replaced[row] = max(since_reopened, replaced.get(row, 0))
    return [replace(row, replaced=replaced.get(row, 0)) for row in rows]


def _epoch_position(
    row: PartitionRow, positions: Mapping[TopicPartition, Position]
) -> Position | None:
    """The position of a row, if it is of the partition's newest incarnation and its leader epoch is known."""
    position = positions.get(row.target)
    is_known = position and position.offset == row.position and position.leader_epoch >= 0
    return position if is_known else None


def _reopened_transactions(
    flow: Flow,
    ledger: LedgerTable,
    positions: Mapping[TopicPartition, Position],
    ranges: Iterable[LedgerRange],
) -> dict[TopicPartition, int]:
    """The first record of a transaction that has ended otherwise since, of each *source* partition that has one.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        positions: where copying stands, by *source* partition, each with a leader epoch.
        ranges: what is to be proved. A place where a leader epoch begins before it was looked at when that was proved.
    """
    starts = _starts(positions, ranges)
    reopened: dict[TopicPartition, int] = {}
    if not starts:
        return reopened
    try:
        with retry_for(_WAIT_S), connect(flow.source) as cluster:
            places = _epoch_starts(cluster, positions, starts)
            logs = retry(partial(led_logs, cluster, list(places))) if places else {}
            places = _within_transactions(cluster, ledger, positions, logs, places)
            for tp in sorted(places.keys() & logs.keys()):
                was_aborted = partial(_was_aborted, ledger, tp, positions[tp])
                try:
                    firsts = [
                        next(ended_otherwise(cluster, logs[tp], it, was_aborted), None)
                        for it in places[tp]
                    ]
                except CorruptBatch as error:
                    # It hides nothing of the other logs.
                    log.warning(_NOT_LOOKED_UP, error)
                    continue
                if ended := [first for first in firsts if first is not None]:
                    reopened[tp] = min(ended)
    except FerryError as error:
        log.warning(_NOT_LOOKED_UP, error)
    return reopened


def _starts(
    positions: Mapping[TopicPartition, Position], ranges: Iterable[LedgerRange]
) -> dict[TopicPartition, int]:
    """Where the ordinary ranges of each *source* partition begin that were copied to where its position is."""
    starts: dict[TopicPartition, int] = {}
    for entry in ranges:
        tp, start = TopicPartition(entry.copied.topic, entry.copied.partition), entry.copied.start
        position = positions.get(tp)
        if position and entry.window is None and _is_of(position, entry):
            starts[tp] = min(start, starts.get(tp, start))
    return starts


def _is_of(position: Position, entry: LedgerRange) -> bool:
    ids = entry.copied.topic_id, entry.copied.remote_topic_id
    return ids == (position.topic_id, position.remote_topic_id)


def _within_transactions(
    cluster: WireCluster,
    ledger: LedgerTable,
    positions: Mapping[TopicPartition, Position],
    logs: Mapping[TopicPartition, PartitionLog],
    places: Mapping[TopicPartition, list[int]],
) -> dict[TopicPartition, list[int]]:
    """Those of ``places`` that may lie within a transaction, so that the log before them is worth reading.

    The range of a transaction that was copied as a committed one has no sign of it, where its marker was lost before
    another range had come so far: then only the source's list of aborted transactions tells.
    """
    ends = transaction_ends(ledger, places) if places else {}
    marked: dict[TopicPartition, list[int]] = {}
    for tp, some in places.items():
        end = ends.get((tp, positions[tp].topic_id, positions[tp].remote_topic_id))
        if end is not None and end > min(some) - MOST_OPEN:
            marked[tp] = some
    unmarked = {tp: some for tp, some in places.items() if tp not in marked}
    for number in range(max(map(len, unmarked.values()), default=0)):
        offsets = {tp: some[number] for tp, some in unmarked.items() if number < len(some)}
        spanned = retry(partial(aborted_across, cluster, logs, offsets))
        marked |= {tp: unmarked.pop(tp) for tp in spanned}
    return marked


def _epoch_starts(
    cluster: WireCluster,
    positions: Mapping[TopicPartition, Position],
    starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, list[int]]:
    """Where leader epochs begin in the source's logs, from ``starts`` up to the positions."""
    places: dict[TopicPartition, list[int]] = defaultdict(list)
    older = {tp: positions[tp].leader_epoch - 1 for tp in starts}
    while older := {tp: epoch for tp, epoch in older.items() if epoch >= 0}:
        ends = retry(partial(epoch_ends, cluster, older))
        within = {tp: it for tp, it in ends.items() if it.epoch >= 0 and it.end >= starts[tp]}
        for tp, epoch_end in within.items():
            places[tp].append(epoch_end.end)
        older = {tp: it.epoch - 1 for tp, it in within.items()}
    return places


def _was_aborted(
    ledger: LedgerTable, source: TopicPartition, position: Position, offset: int
) -> bool | None:
    """Whether a record was left out as aborted; None where the ledger does not tell."""
    ranges = [it for it in ranges_with(ledger, source, offset) if _is_of(position, it)]
    # Below where the flow began, backfills have copied, each a part.
    newest = [it for it in ranges if it.window is None][-1:] or ranges
    # Other mirrors copy aborted records too, and the flow did with another isolation.level.
    if any(it.copied.adopted for it in newest) or (
        "read_uncommitted" in isolation_levels(ledger, {it.run for it in newest})
    ):
        return None
    segments = (segment for it in newest for segment in it.copied.segments)
    if any(it.source <= offset < it.source + it.records for it in segments):
        return False
    reasons = {reason for it in newest for reason, number in it.copied.reasons.items() if number}
    return True if Reason.ABORTED in reasons and reasons <= _BY_THE_SOURCE else None
