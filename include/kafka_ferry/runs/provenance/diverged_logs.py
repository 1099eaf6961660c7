"""Where the source's logs part from those that were copied, below the positions.

An unclean leader election shows in the leader epochs. A cluster that was restored from a backup counts its epochs
from there on once more, and may hold other records at the same offsets in the same epochs. So the record that was
copied last is compared too: by a plan that of the partition that was copied last, since what a backup lacks is the
newest, and those of a sample of the partitions with something new; of all partitions once one is another log. A topic
that was recreated on brokers before 2.8, which give topics no ids, shows in nothing else, and may have just as many
records: of each one of these a partition is compared in any case.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Container, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.last_records import LastRecord, last_records, newest_records
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.removals import first_of
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.runs.provenance.diverged_epochs import Copied, diverged_epochs
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import led_logs
from kafka_ferry.wire.partitions.scan import has_copied

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.ledger.rows import CopiedPartition
    from kafka_ferry.model import LogBounds, Position, Topic

_MOST_PARTITIONS: Final = 16
_MOST_TOPICS: Final = 200
_SHOWN: Final = 10
# So long records are compared where nothing says that a log is another one, and where one is.
_WAIT_S: Final = 5.0
_LONG_WAIT_S: Final = 30.0
_Newest = tuple[int, "CopiedPartition"]


class DivergedLogs(NamedTuple):
    """Where the source's logs part from those that were copied.

    Attributes:
        offsets: by *source* partition, -1 where they do part and that is unknown.
        unknown: what could not be found out, a sentence each.
    """

    offsets: dict[TopicPartition, int]
    unknown: tuple[str, ...] = ()


def look_for_diverged(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    bounds: Mapping[TopicPartition, LogBounds],
    source_topics: Mapping[str, Topic],
    remote_names: Mapping[str, str],
    remote_topics: Mapping[str, Topic],
    positions: Mapping[TopicPartition, Position],
) -> DivergedLogs:
    """Where the source's logs part from those that were copied, by a sample unless one does.

    Args:
        source: the cluster that was copied from.
        target: the cluster that it was copied to.
        ledger: the ledger of the flow that has copied it, projected.
        bounds: the source's logs.
        source_topics: the source's topics.
        remote_names: their names on the target.
        remote_topics: the topics there.
        positions: that flow's positions, by *target* partition.

    Raises:
        FerryError: if the source does not say where its epochs end.
    """
    copied = {}
    for name, topic in source_topics.items():
        for number in range(topic.partitions):
            position = positions.get(TopicPartition(remote_names[name], number))
            if position and position.topic_id == topic.topic_id:
                copied[TopicPartition(name, number)] = position
    found = diverged_epochs(source, ledger, copied, remote_names)
    doubtful = {
        tp: position
        for tp, position in copied.items()
        if tp in bounds
        and tp not in found
        and bounds[tp].end >= position.offset
        and remote_names[tp.topic] in remote_topics
        and tp.partition < remote_topics[remote_names[tp.topic]].partitions
    }
    newest = _newest(ledger, doubtful, remote_names)
    grown = {tp for tp, position in doubtful.items() if bounds[tp].end > position.offset}
    sample = newest if found else _sample(newest, grown)
    return _by_last_records(source, target, ledger, newest, sample, found)


def diverged_logs(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    copied: Copied,
    remote_names: Mapping[str, str],
    remote_topics: Container[str],
    *,
    whole: bool,
) -> DivergedLogs:
    """As ``look_for_diverged``, whether the partitions have something new or not.

    Args:
        source: the cluster that was copied from.
        target: the cluster that it was copied to.
        ledger: the ledger of the flow that has copied it, projected.
        copied: its positions, by *source* partition, as far as they are of the topics that are there.
        remote_names: by the source's topics, the remote topics.
        remote_topics: those that are there.
        whole: whether all partitions are looked at, also where those of a sample are what was copied.
    """
    found = diverged_epochs(source, ledger, copied, remote_names)
    doubtful = {
        tp: position
        for tp, position in copied.items()
        if tp not in found and remote_names[tp.topic] in remote_topics
    }
    newest = _newest(ledger, doubtful, remote_names)
    sample = newest if whole or found else _sample(newest, doubtful)
    return _by_last_records(source, target, ledger, newest, sample, found)


def divergence_offsets(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    copied: Copied,
    remote_names: Mapping[str, str],
    *,
    by_records: bool,
) -> dict[TopicPartition, int]:
    """``diverged_epochs``; or, by records too, the offsets of ``diverged_logs`` of all partitions."""
    if by_records:
        topics = remote_names.values()
        return diverged_logs(
            source, target, ledger, copied, remote_names, topics, whole=True
        ).offsets
    return diverged_epochs(source, ledger, copied, remote_names)


def _by_last_records(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    newest: Sequence[_Newest],
    sample: Collection[_Newest],
    found: dict[TopicPartition, int],
) -> DivergedLogs:
    """``found``, and the partitions whose last copied record is another one on the source by now.

    Args:
        source: the cluster that was copied from.
        target: the cluster that it was copied to.
        ledger: the ledger, projected.
        newest: the newest ranges with records, the newest one first.
        sample: those that are to be looked at, whatever the others are.
        found: where logs part by their leader epochs.
    """
    wait_s = _LONG_WAIT_S if found else _WAIT_S
    chosen = set(sample)
    replaced, left, why = _compare(source, target, last_records(ledger, chosen), wait_s)
    rest = set(newest) - chosen
    if replaced and (rest or left):
        # What a backup lacks, it lacks in any partition.
        rest |= {one for one in newest if one[1].source in left}
        more, left, why = _compare(source, target, last_records(ledger, rest), _LONG_WAIT_S)
        replaced += more
    offsets = found | dict.fromkeys(replaced, -1)
    if not left:
        return DivergedLogs(offsets)
    names = first_of(sorted(map(str, left)), _SHOWN)
    unknown = (
        f"Whether {source.alias} still holds the records that were copied last is unknown of {names}: "
        f"{why or 'there was no time to look at more.'}"
    )
    return DivergedLogs(offsets, (unknown,))


def _compare(
    source: Cluster, target: Cluster, last: Sequence[LastRecord], wait_s: float
) -> tuple[list[TopicPartition], set[TopicPartition], str]:
    """The partitions where ``last`` are other records on the source by now, those that were not looked at, and why."""
    replaced: list[TopicPartition] = []
    left, why = {it.source for it in last}, ""
    if not last:
        return replaced, left, why
    until = time.monotonic() + wait_s
    try:
        with (
            retry_for(_WAIT_S),
            connect(source) as cluster,
            connect(target) as other,
        ):
            logs = retry(lambda: led_logs(cluster, [it.source for it in last]))
            copies = retry(lambda: led_logs(other, [it.target for it in last]))
            for it in last:
                if it.source not in logs or it.target not in copies:
                    why = why or f"{it.source} has no leader."
                    continue
                if time.monotonic() > until:
                    break
                copy = other, copies[it.target], it.target_offset
                try:
                    has = has_copied(
                        cluster, logs[it.source], it.offset, copy, is_changed=it.is_changed
                    )
                except FerryError as error:
                    why = why or str(error)
                    continue
                left.discard(it.source)
                if has is False:
                    replaced.append(it.source)
    except FerryError as error:
        why = str(error)
    return replaced, left, why


def _newest(ledger: LedgerTable, copied: Copied, remote_names: Mapping[str, str]) -> list[_Newest]:
    """The ledger offset of the newest range with records of each partition, with that; the newest one first."""
    if not copied:
        return []
    newest = [
        (at, partition)
        for partition, at in newest_records(ledger, (remote_names[tp.topic] for tp in copied))
        if _is_of(copied.get(partition.source), partition)
    ]
    return sorted(newest, key=itemgetter(0), reverse=True)


def _sample(newest: Sequence[_Newest], grown: Container[TopicPartition]) -> set[_Newest]:
    """The newest one, the newest of ``grown``, and of each topic without an id the newest one."""
    of_topics = {it.topic: (at, it) for at, it in reversed(newest) if not it.topic_id}
    of_grown = (one for one in newest if one[1].source in grown)
    return {
        *newest[:1],
        *islice(of_grown, _MOST_PARTITIONS),
        *islice(of_topics.values(), _MOST_TOPICS),
    }


def _is_of(position: Position | None, partition: CopiedPartition) -> bool:
    return position is not None and (partition.topic_id, partition.remote_topic_id) == (
        position.topic_id,
        position.remote_topic_id,
    )
