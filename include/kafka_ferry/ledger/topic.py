"""The ledger's topic: how it is created, its entries in their order, and those that a run itself appends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kafka_ferry.batches import Batch, BatchHeader, each_record, key_value_of, single_record
from kafka_ferry.config import Cluster, Flow, IsolationLevelName
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.ledger.record import (
    Entry,
    LedgerError,
    OwnershipEntry,
    RunEntry,
    SetAsideEntry,
    StepEntry,
    content_digest,
    decode,
    encode,
    ledger_topic,
)
from kafka_ferry.model import Topic
from kafka_ferry.model.cluster_state import LogBounds, Mark
from kafka_ferry.model.plan import Creation
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import (
    RECORD_BYTES,
    MissingRecords,
    committed_records,
    stored_batches,
)
from kafka_ferry.wire.transactions.exclusive_writer import write_exclusively

# Nothing in a ledger may expire: it is the only offset map.
LEDGER_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_LOST: Final = (
    "Set cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 on the topic, and find out who has changed "
    "them or deleted records. What the ledger has lost can be proved no more: delete the topic, give the copies "
    "up with `ferry repair`, and the next run copies what the source still has."
)
_STRANGERS: Final = "Find out who has WRITE on the topic. `ferry repair --ledger` lists and sets aside such records."
_SET_ASIDE: Final = b'"set-aside"'
# The flow's own, of thousands of ranges or configs, have some hundred; a few packed kilobytes may be gigabytes.
_MOST_SPREAD: Final = 512
# Of copied ranges, and of verifications: an entry of another type has no field of this name.
_RANGES: Final = b'"ranges"'


def ledger_creation(topic: str, replication_factor: int) -> Creation:
    """The ledger's topic as it is to be created."""
    return Creation(topic, 1, replication_factor, LEDGER_CONFIGS)


def expiry_of_ledger(topic: Topic) -> str:
    """A sentence about configs by which the ledger's topic will lose records; "" where it keeps them all."""
    wrong = [
        f"{name}={topic.configs[name]}"
        for name, value in LEDGER_CONFIGS.items()
        if topic.configs.get(name, value) != value
    ]
    if not wrong:
        return ""
    return (
        f"The ledger {topic.name} will lose records by {', '.join(wrong)}, and a flow whose ledger has lost any is "
        f"refused. Set {', '.join(f'{name}={value}' for name, value in LEDGER_CONFIGS.items())} on the topic."
    )


def read_ledger(cluster: Cluster, topic: str, start: int) -> Iterator[tuple[int, Entry]]:
    """The ledger's committed entries from offset ``start`` on, with their offsets, up to its current end.

    Args:
        cluster: the target.
        topic: the ledger's topic.
        start: the first ledger offset to read.

    Records that were set aside, by an entry after them, are passed over.

    Raises:
        LedgerError: if another record cannot be read or belongs to no transaction, or if the topic has lost some from
            ``start`` on.
        ClusterUnreachable: if the target does not answer for a minute.
    """
    for at, entry, _ in entries_with_producers(cluster, topic, start):
        yield at, entry


def entries_with_producers(
    cluster: Cluster, topic: str, start: int
) -> Iterator[tuple[int, Entry, int]]:
    """The entries, each with the id of the producer that wrote it."""
    aside: Mapping[int, str] | None = None
    for at, value, entry, producer_id in ledger_values(cluster, topic, start):
        if not isinstance(entry, LedgerError):
            yield at, entry, producer_id
            continue
        if aside is None:
            rest = ledger_values(cluster, topic, at, only=_SET_ASIDE)
            aside = records_set_aside(later for _, _, later, _ in rest)
        if aside.get(at) != content_digest(value):
            raise entry


def ledger_values(
    cluster: Cluster, topic: str, start: int, *, only: bytes = b""
) -> Iterator[tuple[int, bytes | None, Entry | LedgerError, int]]:
    """The ledger's committed records from ``start`` on: offset, value, the entry or why it is none, producer id.

    WRITE on the topic suffices for a record outside of any transaction, whose producer id may be anyone's; a
    transaction takes a right to its transactional id. So only what is in one is an entry.

    Args:
        cluster: the target.
        topic: the ledger's topic.
        start: the first ledger offset to read.
        only: what the values have in them that are given.

    Raises:
        LedgerError: if the topic has lost records from ``start`` on.
        ClusterUnreachable: if the target does not answer for a minute.
    """
    partition = TopicPartition(topic, 0)
    # Not by librdkafka, which believes whatever a broker lists as aborted (``TransactionFates``).
    with connect(cluster) as wire:
        try:
            for header, at, value in committed_records(wire, partition, start, keeps_all=True):
                if only in (value or b""):
                    entry = _entry_or_error(topic, at, value, header)
                    yield at, value, entry, header.producer_id
        except MissingRecords as error:
            raise LedgerError(f"The ledger has lost records: {error}.", advice=_LOST) from error


def _entry_or_error(
    topic: str, at: int, value: bytes | None, header: BatchHeader
) -> Entry | LedgerError:
    """The entry in a value, or why there is none; ``header`` belongs to the batch of its record."""
    # The flow's own are alone in their batches.
    if len(value or b"") * header.records > _MOST_SPREAD * header.size:
        return LedgerError(
            f"{topic} offset {at}: not a ledger record: {len(value or b''):,} bytes of a batch of {header.size:,} with "
            f"{header.records:,} records.",
            advice=_STRANGERS,
        )
    try:
        entry = decode(value or b"", at=f"{topic} offset {at}")
    except LedgerError as error:
        return error
    if header.is_transactional:
        return entry
    return LedgerError(
        f"{topic} offset {at}: a record of the type {entry.type} for {entry.flow} that belongs to no transaction, as "
        "the flow's own do: another client has written it.",
        advice=_STRANGERS,
    )


def records_set_aside(entries: Iterable[Entry | LedgerError]) -> dict[int, str]:
    """By ledger offset, the digests of the records that entries set aside."""
    aside = (entry.records for entry in entries if isinstance(entry, SetAsideEntry))
    return {record.offset: record.digest for records in aside for record in records}


class HiddenLedger(ClusterUnreachable):
    """An open transaction hides the ledger's newest records."""


class NewestClaims(NamedTuple):
    """Who may write a flow's copies, by the newest records of its ledger.

    Attributes:
        run: the record of the run that began last; None where none is found.
        given_back: the remote topics that the flow has given to MirrorMaker 2, and not taken over since.
    """

    run: RunEntry | None
    given_back: frozenset[str]


def newest_claims(wire: WireCluster, flow: str, topic: str, start: int) -> NewestClaims:
    """Who may write the copies of ``flow``, by the ledger's records from ``start`` on.

    Those of open and aborted transactions count too, since they may come to be committed after this look.

    Args:
        wire: the target, with no request on its way.
        flow: the flow's name.
        topic: the ledger's topic.
        start: the first ledger offset to look at.

    Raises:
        LedgerError: if a record outside of any transaction cannot be read, or is there at all.
        FerryError: if the ledger cannot be read for a minute.
    """

    def newest() -> NewestClaims:
        log = partition_log(wire, TopicPartition(topic, 0))
        first = start if log.start <= start <= log.end else log.start
        run, marks = None, dict[str, Mark]()
        unreadable, aside = list[tuple[int, str, LedgerError]](), dict[int, str]()
        for batch in stored_batches(wire, log, first, log.end):
            is_inside = batch.header.is_transactional
            for at, value in _values(batch, log.partition, wire.alias):
                if at < first or (is_inside and _RANGES in (value or b"")):
                    continue
                entry = _entry_or_error(topic, at, value, batch.header)
                if isinstance(entry, LedgerError):
                    # One in a transaction may be aborted, or will be; who reads the committed ones reports it.
                    if not is_inside:
                        unreadable.append((at, content_digest(value), entry))
                elif isinstance(entry, SetAsideEntry):
                    aside |= records_set_aside([entry])
                elif entry.flow == flow and isinstance(entry, RunEntry):
                    run = entry
                elif entry.flow == flow and isinstance(entry, OwnershipEntry):
                    marks |= {mark.remote_topic: mark for mark in entry.marks}
        for at, digest, error in unreadable:
            if aside.get(at) != digest:
                raise error
        given_back = frozenset(name for name, mark in marks.items() if mark.given_back)
        return NewestClaims(run, given_back)

    return retry(newest)


def _values(batch: Batch, ledger: TopicPartition, alias: str) -> Iterator[tuple[int, bytes | None]]:
    """The values of a batch's records, with their offsets; none of a marker."""
    with corrupt_in(ledger, alias):
        for record in () if batch.header.is_control else each_record(batch, RECORD_BYTES):
            yield record[0], key_value_of(record[3])[1]


def append_entry(flow: Flow, entry: StepEntry) -> None:
    """Append ``entry`` to the ledger, in a transaction of its own.

    Two runs of a flow may do so at the same time, such as a backfill and a scheduled run. An entry may be
    written twice, where a broker does not say whether it took it; repeated entries do no harm.

    Raises:
        FerryError: if the target does not accept it within a minute.
    """
    ledger = TopicPartition(ledger_topic(flow.source.alias), 0)
    record = single_record(*encode(entry), entry.at)
    write_exclusively(
        flow.target, ledger, f"ferry.{flow.name}.run", lambda writer: writer.commit(record)
    )


def is_settled(cluster: Cluster, ledger: str) -> bool:
    """Whether no open transaction hides records of ``ledger``, by one look.

    Raises:
        FerryError: if no broker answers.
    """
    control = ClusterControl(cluster)
    topics = [Topic(name, topic_id, 1) for name, topic_id in control.topic_ids([ledger]).items()]
    shown = control.log_bounds(topics, "read_committed")
    # Without a leader, nothing is known.
    return len(shown) == len(topics) and shown == control.log_bounds(topics, "read_uncommitted")


def wait_until_settled(cluster: Cluster, ledger: str, before: int | None = None) -> None:
    """Wait until no open transaction hides records of ``ledger`` that are there now.

    Flows of one source share a ledger: the transaction may be of any of their writers, or of another client.

    A transaction's end reaches the ledger's partition a moment after the one with its data, or before.

    Args:
        cluster: the cluster.
        ledger: the ledger.
        before: only records before this offset count; None for all.

    Raises:
        HiddenLedger: if one is still open after a minute.
        ClusterUnreachable: if no broker answers, or none leads the ledger's partition.
    """
    control = ClusterControl(cluster)
    topics = [Topic(name, topic_id, 1) for name, topic_id in control.topic_ids([ledger]).items()]

    def bounds(isolation: IsolationLevelName) -> dict[TopicPartition, LogBounds]:
        known = control.log_bounds(topics, isolation)
        if len(known) < len(topics):
            raise ClusterUnreachable(f"{ledger} on {cluster.alias} has no leader.")
        return known

    written = retry(lambda: bounds("read_uncommitted"))
    wanted = {tp: it.end if before is None else before for tp, it in written.items()}

    def ask() -> None:
        shown = bounds("read_committed")
        if any(shown[tp].end < end for tp, end in wanted.items()):
            raise HiddenLedger(
                f"An open transaction hides the newest records of {ledger}.",
                advice="That of a killed writer ends by itself after two minutes, and what the ledger's own flow has "
                "left open ends with its next run. For any other look with "
                f"kafka-transactions.sh find-hanging --topic {ledger} --partition 0, and end it.",
            )

    retry(ask)
