"""Where a single record of the source is: its place on the target, and what is known of how it got there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.as_json import read_json
from kafka_ferry.batches import Batch, Reason, Record, each_record
from kafka_ferry.certificates.document import is_without_copy
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.ledger.proofs import Proof, Verification, verifications
from kafka_ferry.ledger.queries.copied_ranges import (
    is_written_over,
    next_source_offset,
    ranges_with,
    rewinds,
)
from kafka_ferry.ledger.queries.copied_topics import copied_partitions
from kafka_ferry.ledger.table_files import held_if_unwritable
from kafka_ferry.model import TopicPartition, Window
from kafka_ferry.plan.topics.provenance import same_topic
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.branches import Branches
from kafka_ferry.runs.state.certificate_files import certificate_files
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.at_offset import batch_and_fate_at
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import partition_log

if TYPE_CHECKING:
    from kafka_ferry.certificates import Certificate
    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.ledger import CopiedRange, LedgerRange
    from kafka_ferry.model import Topic
    from kafka_ferry.model.cluster_state import LogBounds

_OR: Final = " or "


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What one range of the ledger says of a source offset.

    Attributes:
        target: the partition on the target.
        target_offset: the record's offset there; None where it has no record.
        reason: why it has none, "" where it has one; several reasons where the ledger does not say which.
        state: whether it is there now: ``there``, ``expired``, or ``topic deleted``; ``lost`` where the log does not
            have it at that offset, or a repair has appended it since; ``cleaned or lost`` where the topic is
            compacted; "" where it never was.
        run: the run that copied it.
        at: when its transaction was written, in milliseconds since 1970.
        writer: the writer of the transaction.
        ledger_offset: the ledger's record of the transaction.
        topic_id: the source topic's id; a recreated topic starts its offsets over.
        window: of a backfill, the timestamps of its records.
        proof: the first verification of all that the ledger had by then, or that of the backfill which has copied it;
            None where there is none.
        certificate: the serial of the first certificate that has the range; 0 where none has.
        is_former: whether the source had another topic of this name then, by what it says now.
        is_replaced: whether the source's log was truncated below the offset since, by its leader epochs or by the
            ledger: the source has another record there by now, or none.
    """

    target: TopicPartition
    target_offset: int | None
    reason: str
    state: str
    run: str
    at: int
    writer: int
    ledger_offset: int
    topic_id: str
    window: Window | None
    proof: Proof | None
    certificate: int
    is_former: bool = False
    is_replaced: bool = False


@held_if_unwritable()
def where(flow: Flow, source: TopicPartition, offset: int) -> list[Whereabouts]:
    """All that the ledger has of a source offset, oldest first.

    There is more than one where a topic was recreated or its log truncated, or where a backfill has copied
    the record.

    Args:
        flow: the flow.
        source: the partition on the source.
        offset: the offset there.

    Returns:
        None at all where no run has accounted for the offset.

    Raises:
        FerryError: if the target does not answer, or the flow has not run yet.
    """
    context = RunContext.of(flow, "")
    ledger = ledger_topic(flow.source.alias)
    if ledger in ClusterControl(flow.target).unknown([ledger]):
        raise FerryError(
            f"{flow.target.alias} has no ledger of {flow.name}: it has no topic {ledger} that the flow may see",
            advice="Run the flow first: ferry run writes it.",
        )
    context.project_ledger()
    ranges = ranges_with(context.ledger, source, offset)
    if not ranges:
        return []
    control = ClusterControl(flow.target)
    topics = control.topics({entry.target.topic for entry in ranges})
    logs = control.log_bounds(topics.values(), "read_uncommitted")
    known = verifications(context.ledger), certificate_files(context.state)
    places = [_whereabouts(entry, offset, _now(entry, topics, logs), *known) for entry in ranges]
    places = [
        _with_own_proof(context, _as_read(context, topics, source, offset, it)) for it in places
    ]
    places = [_as_source_has_it(flow, source, offset, it) for it in places]
    topic_id = _source_id(flow, source.topic)
    places = [replace(it, is_former=not same_topic(it.topic_id, topic_id)) for it in places]
    places = _as_replaced(context, source, offset, topic_id, places)
    return [_as_appended(it, places[number + 1 :]) for number, it in enumerate(places)]


def where_by_ledger(flow: Flow, source: TopicPartition, offset: int) -> list[Whereabouts]:
    """As ``where``, by the ledger as it was last read: no cluster is asked, and ``state`` is "" for all."""
    context = RunContext.of(flow, "")
    ranges = ranges_with(context.ledger, source, offset)
    if not ranges:
        return []
    known = verifications(context.ledger), certificate_files(context.state)
    places = [replace(_whereabouts(entry, offset, None, *known), state="") for entry in ranges]
    return [_with_own_proof(context, it) for it in places]


def next_offset(flow: Flow, source: TopicPartition) -> int | None:
    """The source offset from which the next run will copy, by the ledger as it was last read; None if unknown."""
    return next_source_offset(RunContext.of(flow, "").ledger, source)


def log_start(flow: Flow, source: TopicPartition) -> int | None:
    """Where the log of a partition starts on the source now; None where the source does not say it."""
    control = ClusterControl(flow.source)
    try:
        topics = control.topics([source.topic]).values()
        log = control.log_bounds(topics, flow.isolation_level).get(source)
    except FerryError:
        return None
    return log.start if log else None


def ledger_partitions(flow: Flow) -> dict[str, list[int]]:
    """The partitions of each source topic that were ever copied, by the ledger as it was last read."""
    partitions: dict[str, list[int]] = defaultdict(list)
    for source in sorted(copied_partitions(RunContext.of(flow, "").ledger)):
        partitions[source.topic].append(source.partition)
    return dict(partitions)


def _whereabouts(
    entry: LedgerRange,
    offset: int,
    log_start: int | None,
    verified: Iterable[Verification],
    certificates: Iterable[Certificate],
) -> Whereabouts:
    copied = entry.copied
    parts = (segment.within(offset, offset + 1) for segment in copied.segments)
    at = next((part.target for part in parts if part), None)
    after = (
        one.proof
        for one in verified
        if one.through > entry.ledger_offset and copied.remote_topic_id not in one.gone
    )
    return Whereabouts(
        target=entry.target,
        target_offset=at,
        reason="" if at is not None else _reason(copied, offset),
        state="" if at is None else _state(at, log_start),
        run=entry.run,
        at=entry.at,
        writer=entry.writer,
        ledger_offset=entry.ledger_offset,
        topic_id=copied.topic_id,
        window=entry.window,
        proof=next(after, None),
        certificate=_certificate(certificates, entry),
    )


def _reason(copied: CopiedRange, offset: int) -> str:
    if any(start <= offset < end for start, end in copied.lost):
        return "lost"
    reasons = [reason for reason, count in copied.reasons.items() if count and reason != "lost"]
    return _OR.join(sorted(reasons)) or "unknown"


def _now(
    entry: LedgerRange, topics: Mapping[str, Topic], logs: Mapping[TopicPartition, LogBounds]
) -> int | None:
    """Where the log of a range's target partition starts now, None if that topic is gone."""
    topic = topics.get(entry.target.topic)
    if topic is None or topic.topic_id != entry.copied.remote_topic_id:
        return None
    log = logs.get(entry.target)
    return log.start if log else None


def _state(target_offset: int, log_start: int | None) -> str:
    if log_start is None:
        return "topic deleted"
    return "there" if target_offset >= log_start else "expired"


def _with_own_proof(context: RunContext, one: Whereabouts) -> Whereabouts:
    """The place, proved by the backfill's own report too: the ledger has only ordinary runs' verifications."""
    report = RunFolder(context.state.folder("runs"), one.run).report() if one.window else None
    if report is None or report.proof.verdict is None or not report.proof.verdict.success:
        return one
    return replace(one, proof=Proof(one.run, report.times.finished_at))


def _as_read(
    context: RunContext,
    topics: Mapping[str, Topic],
    source: TopicPartition,
    offset: int,
    one: Whereabouts,
) -> Whereabouts:
    """The place after a look at the log, which may have been truncated and have grown again since."""
    at = one.target_offset
    if one.state != "there" or at is None:
        return one
    ledger_offset = one.ledger_offset
    ranges = list(context.ledger.ranges_in_topic(ledger_offset, ledger_offset + 1))
    writers = {entry.producer_id for entry in ranges if _is_own_transaction(entry.copied)}
    with connect(context.flow.target) as cluster:
        batch, is_aborted = retry(
            lambda: batch_and_fate_at(cluster, partition_log(cluster, one.target), at)
        )
    # A marker of the flow's own may have taken the place of a record that the log has lost.
    is_ours = (
        batch
        and not (is_aborted or batch.header.is_control)
        and (not writers or batch.header.producer_id in writers)
    )
    topic_id = topics[one.target.topic].topic_id
    is_ours = is_ours and not is_written_over(
        context.ledger, one.target, topic_id, at, ledger_offset
    )
    record = _record_at(batch, at, one.target, context.flow.target)
    if record and is_ours:
        # Of what another mirror has written, only the source tells what it was.
        is_taken = any(
            entry.copied.adopted and not entry.copied.preserved
            for entry in ranges
            if entry.target == one.target
        )
        if not (is_taken and _is_another(context.flow, source, offset, one, record)):
            return one
    is_compacted = topics[one.target.topic].is_compacted
    return replace(one, state="cleaned or lost" if is_compacted else "lost")


def _is_another(
    flow: Flow, source: TopicPartition, offset: int, one: Whereabouts, record: Record
) -> bool:
    """Whether the source has another record at an offset than the target's; no where it does not say."""
    try:
        batch, _ = _source_batch(flow, source, offset, one)
        sent = _record_at(batch, offset, source, flow.source)
    except FerryError:
        return False
    return sent is not None and (sent[1], sent[3]) != (record[1], record[3])


def _record_at(
    batch: Batch | None, offset: int, partition: TopicPartition, cluster: Cluster
) -> Record | None:
    """The record of a partition's batch at an offset; None without a batch, or where it has none there.

    Raises:
        CorruptBatch: if the batch cannot be read up to there.
    """
    with corrupt_in(partition, cluster.alias):
        records = each_record(batch) if batch else ()
        return next((record for record in records if record[0] == offset), None)


def _source_id(flow: Flow, topic: str) -> str:
    """The id of the source's topic now; "" where the source has none of that name, or does not say."""
    try:
        return ClusterControl(flow.source).topic_ids([topic]).get(topic, "")
    except FerryError:
        return ""


def _as_replaced(
    context: RunContext,
    source: TopicPartition,
    offset: int,
    topic_id: str,
    found: Sequence[Whereabouts],
) -> list[Whereabouts]:
    """The places, each with whether the source has lost since what was copied there."""
    try:
        branches = Branches.of(context.flow, context.ledger, {source.topic: topic_id})
    except FerryError:
        # A source that is away says nothing; what copying has found before, the ledger does.
        branches = Branches({}, rewinds(context.ledger))
    span = offset, offset + 1
    return [
        replace(
            it,
            is_replaced=not branches.kept((it.topic_id, source.partition), span, it.ledger_offset),
        )
        for it in found
    ]


def _source_batch(
    flow: Flow, source: TopicPartition, offset: int, one: Whereabouts
) -> tuple[Batch | None, bool]:
    """The source's batch with an offset, and whether it was aborted; None where its topic is another one by now.

    Raises:
        FerryError: if the source does not answer.
    """
    ids = ClusterControl(flow.source).topic_ids([source.topic])
    if one.topic_id and ids.get(source.topic) != one.topic_id:
        return None, False
    with connect(flow.source) as cluster:
        return retry(lambda: batch_and_fate_at(cluster, partition_log(cluster, source), offset))


def _as_source_has_it(
    flow: Flow, source: TopicPartition, offset: int, one: Whereabouts
) -> Whereabouts:
    """The place with the one reason that fits, where the ledger has several for the range, and the source answers."""
    reasons = set(one.reason.split(_OR)) if _OR in one.reason else set()
    if not reasons:
        return one
    try:
        batch, is_aborted = _source_batch(flow, source, offset, one)
        has_record = _record_at(batch, offset, source, flow.source) is not None
    except FerryError:
        return one
    fitting = reasons & _possible_reasons(batch, has_record=has_record, is_aborted=is_aborted)
    return replace(one, reason=_OR.join(sorted(fitting))) if fitting else one


def _possible_reasons(batch: Batch | None, *, has_record: bool, is_aborted: bool) -> set[str]:
    """The reasons that an offset of the source may have, by the batch that it is in; none where that is gone by now."""
    if batch is None:
        return set()
    if batch.header.is_control:
        return {Reason.CONTROL}
    if is_aborted:
        return {Reason.ABORTED}
    if not has_record:
        return set()
    return {*Reason} - {Reason.COMPACTED, Reason.CONTROL, Reason.ABORTED, Reason.LOST}


def _is_own_transaction(copied: CopiedRange) -> bool:
    """Whether a range's records were written in the transaction of its ledger record, and so by its producer."""
    return not (copied.preserved or copied.adopted)


def _as_appended(one: Whereabouts, later: Sequence[Whereabouts]) -> Whereabouts:
    """Only what the target has lost is copied to it a second time, by a repair."""
    is_again = any(
        place.window and place.target_offset is not None and place.target == one.target
        for place in later
    )
    return replace(one, state="lost") if is_again and one.state == "there" else one


def _certificate(certificates: Iterable[Certificate], entry: LedgerRange) -> int:
    mark = f'"ledger_offset":{entry.ledger_offset},'.encode()
    for one in certificates:
        for line in one.range_lines:
            row = read_json(line) if mark in line else {}
            if row and _key(row) == entry.key and not is_without_copy(row):
                return one.header.serial
    return 0


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("ledger_offset", "topic", "partition", "start"))
