"""Where the source's logs part from those that were copied, below the positions.

An unclean leader election shows in the leader epochs. A cluster that was restored from a backup counts its epochs
from there on once more, and may hold other records at the same offsets in the same epochs. So the record that was
copied last is compared too: that of the partition that was copied last, since what a backup lacks is the newest, and
those of a sample of the partitions with something new. A topic that was recreated on brokers before 2.8, which give
topics no ids, shows in nothing else, and may have just as many records: of each one of these a partition is compared
in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import MalformedBatch, each_record
from kafka_ferry.batches.record_format.content import Content, read_content
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.last_records import LastRecord, last_records, newest_records
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.runs.provenance.diverged_epochs import Copied, diverged_epochs
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import PartitionLog, partition_logs
from kafka_ferry.wire.partitions.scan import batch_at

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.ledger.rows import CopiedPartition
    from kafka_ferry.model import LogBounds, Position, Topic
    from kafka_ferry.wire import WireCluster

log = logging.getLogger(__name__)

_MOST_PARTITIONS: Final = 16
_MOST_TOPICS: Final = 200
# A plan does not wait for what is only a sample.
_WAIT_S: Final = 5.0
_MARKER: Final = (0, Content(None, None))


def look_for_diverged(
    flow: Flow,
    ledger: LedgerTable,
    bounds: Mapping[TopicPartition, LogBounds],
    source_topics: Mapping[str, Topic],
    remote_names: Mapping[str, str],
    remote_topics: Mapping[str, Topic],
    positions: Mapping[TopicPartition, Position],
) -> tuple[dict[TopicPartition, int], tuple[str, ...]]:
    """Where the source's logs part from those that were copied.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        bounds: the source's logs.
        source_topics: the source's topics.
        remote_names: their names on the target.
        remote_topics: the topics there.
        positions: the flow's positions, by *target* partition.

    Returns:
        The offsets by *source* partition, -1 where they do part and that is unknown; and what could not be found
        out, a sentence each.

    Raises:
        FerryError: if the source does not say where its epochs end.
    """
    copied = {}
    for name, topic in source_topics.items():
        for number in range(topic.partitions):
            position = positions.get(TopicPartition(remote_names[name], number))
            if position and position.topic_id == topic.topic_id:
                copied[TopicPartition(name, number)] = position
    found = diverged_epochs(flow.source, ledger, copied, remote_names)
    doubtful = {
        tp: position
        for tp, position in copied.items()
        if tp in bounds
        and tp not in found
        and bounds[tp].end >= position.offset
        and remote_names[tp.topic] in remote_topics
        and tp.partition < remote_topics[remote_names[tp.topic]].partitions
    }
    grown = {tp for tp, position in doubtful.items() if bounds[tp].end > position.offset}
    replaced, unknown = _by_last_records(flow, ledger, doubtful, grown, remote_names)
    return found | dict.fromkeys(replaced, -1), unknown


def diverged_logs(
    flow: Flow,
    ledger: LedgerTable,
    copied: Copied,
    remote_names: Mapping[str, str],
    remote_topics: Container[str],
) -> dict[TopicPartition, int]:
    """As ``look_for_diverged``, by a sample of all partitions; what cannot be found out is not named.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        copied: its positions, by *source* partition, as far as they are of the topics that are there.
        remote_names: by the source's topics, the remote topics.
        remote_topics: those that are there.
    """
    found = diverged_epochs(flow.source, ledger, copied, remote_names)
    doubtful = {
        tp: position
        for tp, position in copied.items()
        if tp not in found and remote_names[tp.topic] in remote_topics
    }
    replaced, _ = _by_last_records(flow, ledger, doubtful, doubtful.keys(), remote_names)
    return found | dict.fromkeys(replaced, -1)


def _by_last_records(
    flow: Flow,
    ledger: LedgerTable,
    copied: Copied,
    grown: Container[TopicPartition],
    remote_names: Mapping[str, str],
) -> tuple[list[TopicPartition], tuple[str, ...]]:
    """The partitions whose last copied record is another one on the source by now, and what is unknown."""
    last = _last_records(ledger, copied, grown, remote_names)
    if not last:
        return [], ()
    try:
        with (
            retry_for(_WAIT_S),
            connect(flow.source) as source,
            connect(flow.target) as target,
        ):
            logs = retry(lambda: partition_logs(source, (it.source for it in last)))
            copies = retry(lambda: partition_logs(target, (it.target for it in last)))
            found = []
            for it in last:
                record = _record(source, logs[it.source], it.offset)
                copy = record and _record(target, copies[it.target], it.target_offset)
                # What either log no longer holds says nothing.
                if copy and record != copy:
                    found.append(it.source)
    except (FerryError, MalformedBatch) as error:
        return [], (
            f"Whether {flow.source.alias} still holds the records that were copied last is unknown: {error}",
        )
    return found, ()


def _last_records(
    ledger: LedgerTable,
    copied: Copied,
    grown: Container[TopicPartition],
    remote_names: Mapping[str, str],
) -> list[LastRecord]:
    """The last records of a sample of the partitions, as far as they were copied as they are.

    They are the newest one, and the newest of ``grown``.
    """
    if not copied:
        return []
    newest = [
        (at, partition)
        for partition, at in newest_records(ledger, (remote_names[tp.topic] for tp in copied))
        if _is_of(copied.get(partition.source), partition)
    ]
    newest.sort(key=itemgetter(0), reverse=True)
    # Of each topic without an id the newest one.
    of_topics = {it.topic: (at, it) for at, it in reversed(newest) if not it.topic_id}
    of_grown = (one for one in newest if one[1].source in grown)
    sample = {
        *newest[:1],
        *islice(of_grown, _MOST_PARTITIONS),
        *islice(of_topics.values(), _MOST_TOPICS),
    }
    return last_records(ledger, sample)


def _is_of(position: Position | None, partition: CopiedPartition) -> bool:
    return position is not None and (partition.topic_id, partition.remote_topic_id) == (
        position.topic_id,
        position.remote_topic_id,
    )


def _record(cluster: WireCluster, log: PartitionLog, offset: int) -> tuple[int, Content] | None:
    """A record's timestamp and content; a marker's if that is what lies there, None without either."""
    batch = batch_at(cluster, log, offset)
    if batch is None:
        return None
    if batch.header.is_control:
        return _MARKER
    record = next((record for record in each_record(batch) if record[0] == offset), None)
    return record and (record[1], read_content(record[3]))
