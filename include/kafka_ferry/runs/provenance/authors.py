"""Who wrote the ledger's records of copied ranges: only what the flow's own writers have written counts.

A record stands in a transaction (``ledger.topic``), and a transaction takes a right to its transactional id. Whose id
that was, the transaction coordinator knows: it gives a producer id to one transactional id only, and never again.
Where it has forgotten the id (after a week without a transaction, by default), the records that were copied tell,
which stand in the same transaction or, with preserved offsets, are of the producer that the record names; or an
earlier range that was proved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.errors import AccessDenied, VerificationFailed
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.positions import transactional_id
from kafka_ferry.retry import retry
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import committed_batches
from kafka_ferry.wire.transactions.endings import producer_ids

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster
    from kafka_ferry.ledger import LedgerRange
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.wire import WireCluster


def require_own_writers(
    run: RunContext,
    ranges: Sequence[LedgerRange],
    proved: int,
    are_true: Callable[[Sequence[LedgerRange]], Collection[LedgerRange]],
) -> None:
    """Check that the flow's writers have written the ledger's records of ranges.

    Brokers before 3.0 do not say which producer a transactional id has: nothing is checked there.

    Args:
        run: the run, whose ledger was projected.
        ranges: the ranges, as the ledger's topic has them.
        proved: the ledger offset before which all was proved before.
        are_true: gives the ranges whose content is proved otherwise, whichever client has written them. It is
            asked about ranges of producers that no broker knows: an id is forgotten after a week, and a range without
            records has none that would tell.

    Raises:
        VerificationFailed: naming the records of others.
        FerryError: if the target does not answer.
    """
    unproved = [entry for entry in ranges if entry.ledger_offset >= proved]

    def earlier() -> set[int]:
        return {range_.producer_id for range_ in run.ledger.ranges_in_topic(0, proved)}

    foreign = ranges_of_others(run.flow.target, run.flow.name, unproved, earlier)
    if foreign:
        kept = {range_.key for range_ in are_true(foreign)}
        foreign = [range_ for range_ in foreign if range_.key not in kept]
    if foreign:
        topic, alias = ledger_topic(run.flow.source.alias), run.flow.target.alias
        raise VerificationFailed(
            f"{topic} on {alias} has records of copied ranges that no writer of {run.flow.name} has written:",
            details=[_name_of(entry) for entry in foreign],
            advice="Find out who has WRITE on that topic and on a transactional id, and revoke it. Nothing says that "
            "these offsets were copied: `ferry repair --topic` gives a copy up, so that it is made again. A range "
            "without records, of a run that was stopped for longer than transactional.id.expiration.ms, may be the "
            "flow's own: the source proves it, where it answers and still has its offsets.",
        )


def ranges_of_others(
    target: Cluster,
    flow: str,
    ranges: Sequence[LedgerRange],
    earlier: Callable[[], Collection[int]] = tuple,
) -> list[LedgerRange]:
    """The ranges in a ledger whose records no writer of a flow has written.

    None on brokers before 3.0, which do not say which producer a transactional id has.

    Args:
        target: the cluster that has the ledger.
        flow: the flow's name.
        ranges: the ranges that are said to be the flow's, as the ledger's topic has them.
        earlier: the producers whose ranges were proved before; asked where coordinators do not know a producer.

    Raises:
        FerryError: if the target does not answer.
    """
    if not ranges:
        return []
    with connect(target) as cluster:
        try:
            known = retry(lambda: producer_ids(cluster, _names(flow, ranges)))
        except AccessDenied:
            # Rights to the transactional ids of other flows are theirs.
            known = frozenset[int]()
        if known is None:
            return []
        strange: dict[int, list[LedgerRange]] = defaultdict(list)
        for entry in ranges:
            if entry.producer_id not in known:
                strange[entry.producer_id].append(entry)
        if not strange:
            return []
        known |= frozenset(earlier())
        # Of one producer all records are the same one's.
        known |= {
            producer
            for producer, written in strange.items()
            if producer not in known and any(_has_data(cluster, entry) for entry in written)
        }
    return [entry for entry in ranges if entry.producer_id not in known]


def _names(flow: str, ranges: Iterable[LedgerRange]) -> list[str]:
    """The transactional ids under which the ranges have to be written."""
    writers = {(entry.writer, entry.copied.preserved) for entry in ranges}
    # A range that was taken over from another mirror is written under the first writer's, whatever its offsets.
    writers |= {(writer, False) for writer, _ in writers}
    return [transactional_id(flow, number, preserved=kept) for number, kept in sorted(writers)]


def _has_data(cluster: WireCluster, entry: LedgerRange) -> bool:
    """Whether the first record of a range was written by the producer of its ledger record.

    Where offsets are preserved, by the partition's own producer: what it has not written, the range cannot have.
    """
    copied = entry.copied
    if not copied.segments or copied.adopted:
        return False
    writer = copied.producer.producer_id if copied.producer else entry.producer_id
    partition = TopicPartition(copied.remote_topic, copied.partition)
    log = retry(partial(partition_log, cluster, partition))
    first = copied.segments[0].target
    if not log.start <= first < log.end:
        return False
    batch = next(committed_batches(cluster, log, first), None)
    return (
        batch is not None
        and batch.header.base_offset <= first
        and batch.header.producer_id == writer
    )


def _name_of(entry: LedgerRange) -> str:
    copied = entry.copied
    return (
        f"offset {entry.ledger_offset}: [{copied.start}, {copied.end}) of {copied.topic}-{copied.partition}, by the "
        f"producer {entry.producer_id}"
    )
