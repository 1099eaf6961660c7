"""What a run does on behalf of all writers: fences them, and commits positions that Kafka has lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Final

from kafka_ferry.batches import for_producer, single_record
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import read_positions
from kafka_ferry.copy.target.ledger_recovery import LedgerRecovery
from kafka_ferry.copy.target.open_ledger import outcome_by_others
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import (
    CopiedRange,
    TransactionEntry,
    VerificationEntry,
    encode,
    ledger_topic,
)
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.positions import (
    Position,
    PositionMetadata,
    is_writers_id,
    position_group,
    transactional_id,
)
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.error_codes import fault
from kafka_ferry.wire.partitions.partition_log import leader_of
from kafka_ferry.wire.produce import produce
from kafka_ferry.wire.transactions.endings import (
    Ending,
    TransactionOutcome,
    epochs_question,
    learn_ending,
    producers_question,
    transactional_ids,
)
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Evidence, Settlement

_TIMEOUT_MS: Final = 60_000
_WRITER: Final = 0


def committed_position(position: Position, run: str) -> Committed:
    """``position`` as it is committed in the flow's group, by the run ``run``."""
    metadata = PositionMetadata(
        topic_id=position.topic_id,
        remote_topic_id=position.remote_topic_id,
        run=run,
        at=now_ms(),
        producer=position.producer,
        origins=position.origins,
    )
    return Committed(position.offset, position.leader_epoch, metadata.encode())


def fence_writers(flow: Flow, writers: int) -> None:
    """Fence the writers 0 to ``writers - 1`` of ``flow``, of both kinds, and abort what they left open.

    Call this before the number of writers changes: a partition then belongs to another writer, whose
    start does not fence the old one.
    """
    with connect(flow.target, "producer") as cluster:
        for number, preserved in product(range(writers), (False, True)):
            _take_over(cluster, flow, number, preserved=preserved)


def settle_writers(flow: Flow, written: Mapping[int, Collection[TopicPartition]]) -> None:
    """Fence writers, and end what they have left open on partitions that belong to other writers by now.

    An unclean leader election may lose a marker long after: only the producer that has written it can end it again.

    Args:
        flow: the flow.
        written: by the number of a writer, *target* partitions to which it has written.
    """
    evidence = LedgerRecovery(flow).outcomes
    with connect(flow.target, "producer") as cluster:
        for number, partitions in written.items():
            _take_over(cluster, flow, number, written=partitions, evidence=evidence)


def restore_positions(flow: Flow, run: str, positions: Mapping[TopicPartition, Position]) -> None:
    """Commit positions in the flow's group that it has lost; the writers must have been fenced before.

    Args:
        flow: the flow.
        run: the run that found them in the ledger.
        positions: by *target* partition.
    """
    with connect(flow.target, "producer") as cluster:
        producer, settlement = _take_over_to_write(cluster, flow)
        producer.add_group(position_group(flow.name))
        _commit_positions(flow, run, producer, positions)
        settlement.settle(Ending(TransactionOutcome.COMMITTED), [], positions)


def end_hidden_transactions(flow: Flow) -> bool:
    """End the flow's own transactions that hide its ledger's newest records although they are over.

    The ledger had no leader when their markers were to be written (``wire.transactions.settlement``), and a plan that
    cannot read the ledger gets to no writer that would end them. Those that go on, or are another flow's, are left.

    Returns:
        Whether any was ended.
    """
    ledger, group = TopicPartition(ledger_topic(flow.source.alias), 0), position_group(flow.name)
    with connect(flow.target, "producer") as cluster:
        question = producers_question(cluster, leader_of(cluster, ledger), [ledger])
        states = question.ask().get(ledger, ()) if question else ()
        starts = {
            name: it.current_txn_start_offset
            for it in states
            if it.current_txn_start_offset >= 0
            for name in transactional_ids(cluster, it.producer_id)
            if any(is_writers_id(flow.name, name, preserved=kind) for kind in (False, True))
        }
        ended = False
        for name, start in sorted(starts.items()):
            ending = retry(partial(learn_ending, cluster, name))
            ended |= ending.is_mended
            # Of one that goes on, or whose end is not written everywhere yet, the coordinator knows the partitions.
            if ending.partitions:
                continue
            positions = read_positions(flow.target, flow.name)
            if ending.outcome == TransactionOutcome.UNKNOWN:
                # Its producer was started again, perhaps by a request that arrived late.
                ending = Ending(outcome_by_others(cluster, ledger, start, positions))
            if ending.outcome == TransactionOutcome.UNKNOWN:
                continue
            producer = TransactionalProducer(cluster, name, timeout_ms=_TIMEOUT_MS)
            producer.start()
            settlement = Settlement(cluster, cluster, producer, group)
            settlement.settle(ending, [ledger], positions, is_new=True)
            ended = True
        return ended


def commit_takeover(
    flow: Flow,
    run: str,
    ranges: Sequence[Sequence[CopiedRange]],
    positions: Mapping[TopicPartition, Position],
    confirm: Callable[[int], None],
) -> None:
    """Write ranges that another mirror has copied into the ledger, as verified, with the positions after them.

    In one transaction: all of it appears, or nothing. The writers must have been fenced before.

    Args:
        flow: the flow; its ledger exists.
        run: the run that has compared the records of the ranges with the source's.
        ranges: the content of each ledger record, none of them empty.
        positions: by *target* partition.
        confirm: raises unless everything before a ledger offset is verified: from then on that counts as verified.

    Raises:
        FerryError: what ``confirm`` raises, or why the target does not take it; nothing appears then.
    """
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    with connect(flow.target, "producer") as cluster:
        producer, settlement = _take_over_to_write(cluster, flow)
        for code in producer.add_partitions([ledger], position_group(flow.name)).values():
            doing = f"Writing to the ledger {ledger.topic} on {flow.target.alias}"
            raise fault(code, doing, Right.topic("WRITE", ledger.topic))
        try:
            _append_all(cluster, producer, ledger, flow, run, ranges, confirm)
        except FerryError:
            # It would hide what others write until its time is over.
            with suppress(FerryError):
                producer.end(commit=False)
            raise
        _commit_positions(flow, run, producer, positions)
        settlement.settle(Ending(TransactionOutcome.COMMITTED), [ledger], positions)


def _commit_positions(
    flow: Flow,
    run: str,
    producer: TransactionalProducer,
    positions: Mapping[TopicPartition, Position],
) -> None:
    """Commit the open transaction, with positions in the flow's group."""
    offsets = {tp: committed_position(position, run) for tp, position in positions.items()}
    for tp, code in producer.commit_offsets(position_group(flow.name), offsets).items():
        doing = f"Committing the position of {tp} on {flow.target.alias}"
        raise fault(code, doing, Right.topic("READ", tp.topic))
    producer.end(commit=True)


def _append_all(
    cluster: WireCluster,
    producer: TransactionalProducer,
    ledger: TopicPartition,
    flow: Flow,
    run: str,
    ranges: Sequence[Sequence[CopiedRange]],
    confirm: Callable[[int], None],
) -> None:
    """Append the ranges to the ledger, followed by an entry that everything before is verified.

    Raises:
        FerryError: other writers' entries lie between them; or what ``confirm`` raises of those before.
    """
    node = leader_of(cluster, ledger)
    ends = list[int]()

    def append(entry: TransactionEntry | VerificationEntry, sequence: int) -> int:
        encoded = for_producer(
            single_record(*encode(entry), entry.at),
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=sequence,
        )
        answer = produce(cluster, node, ledger, encoded, producer.transactional_id)
        if answer.error_code:
            needed = Right.topic("WRITE", ledger.topic)
            raise fault(answer.error_code, f"Writing to the ledger {ledger.topic}", needed)
        return int(answer.base_offset) + 1

    common = {"flow": flow.name, "run": run}
    for sequence, some in enumerate(ranges):
        entry = TransactionEntry(**common, at=now_ms(), writer=_WRITER, ranges=tuple(some))
        ends.append(append(entry, sequence))
    confirm(ends[0] - 1)
    if ends[-1] - ends[0] != len(ends) - 1:
        raise FerryError(
            f"Another run has written to {ledger.topic} meanwhile.",
            advice="Pause the flows of that source, and try again.",
        )
    every = [range_ for some in ranges for range_ in some]
    records = sum(range_.records for range_ in every)
    verified = VerificationEntry(
        **common, at=now_ms(), through=ends[-1], ranges=len(every), records=records
    )
    append(verified, len(ranges))


def _take_over_to_write(
    cluster: WireCluster, flow: Flow
) -> tuple[TransactionalProducer, Settlement]:
    """``_take_over`` of the writer that writes on behalf of all, in an epoch that the ledger takes."""
    producer, settlement = _take_over(cluster, flow, _WRITER)
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)

    def newest() -> int:
        question = epochs_question(cluster, ledger)
        return question.ask().get(producer.producer_id, -1) if question else -1

    producer.begin_after(retry(newest))
    return producer, settlement


def _take_over(
    cluster: WireCluster,
    flow: Flow,
    number: int,
    *,
    preserved: bool = False,
    written: Collection[TopicPartition] = (),
    evidence: Evidence | None = None,
) -> tuple[TransactionalProducer, Settlement]:
    """The producer of a writer number; its previous holder is fenced and its transaction has ended.

    Other arguments as of ``Settlement.settle``.
    """
    name = transactional_id(flow.name, number, preserved=preserved)
    producer = TransactionalProducer(cluster, name, timeout_ms=_TIMEOUT_MS)
    ending = retry(lambda: learn_ending(cluster, name))
    producer.start()
    settlement = Settlement(cluster, cluster, producer, position_group(flow.name))
    # Where no broker leads a partition, the writer that next writes to it settles it by the ledger.
    own = ledger_topic(flow.source.alias), flow.dead_letter_name
    optional = {tp for tp in (*ending.partitions, *written) if tp.topic not in own}
    settlement.settle(ending, written, [], evidence, optional, is_new=True)
    return producer, settlement
