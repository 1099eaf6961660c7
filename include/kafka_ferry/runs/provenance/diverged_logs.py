"""Where the source's logs part from those that were copied, below the positions.

An unclean leader election shows in the leader epochs. A cluster that was restored from a backup counts its epochs
from there on once more, and may hold other records at the same offsets in the same epochs. So what was copied last is
compared too: the source's last batch with the ledger's CRC of it, and the last record with its copy, which may have
been replaced as well. A plan compares the last batches of the partitions that were copied last, since what a backup
lacks is the newest, as far as brokers give them in one answer; and the records of the newest one and of a sample of the
partitions with something new; of all partitions once one is another log. A topic that was recreated on brokers before
2.8, which give topics no ids, shows in nothing else, and may have just as many records: of each one of these a
partition is compared in any case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.batched import batched
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.ledger.queries.last_records import (
    CopyEnd,
    LastRecord,
    copy_ends,
    last_records,
    newest_ranges,
)
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.removals import first_of
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.runs.provenance.diverged_epochs import Copied, diverged_epochs
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.at_offset import (
    LOGS_AT_ONCE,
    has_copied,
    has_same_batch,
    newest_record_between,
    with_batches,
)
from kafka_ferry.wire.partitions.partition_log import led_logs

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.ledger.rows import CopiedPartition
    from kafka_ferry.model import LogBounds, Position, Topic
    from kafka_ferry.wire import WireCluster
    from kafka_ferry.wire.partitions.partition_log import PartitionLog

_MOST_PARTITIONS: Final = 16
_MOST_TOPICS: Final = 200
_MOST_OFFSETS: Final = 10_000
_SHOWN: Final = 10
# So long records are compared where nothing says that a log is another one, and where one is.
_WAIT_S: Final = 5.0
_LONG_WAIT_S: Final = 30.0
_Newest = tuple[int, "CopiedPartition"]
_Ends = Mapping[TopicPartition, CopyEnd]


class DivergedLogs(NamedTuple):
    """Where the source's logs part from those that were copied.

    Attributes:
        offsets: by *source* partition, -1 where they do part and that is unknown.
        unknown: what could not be found out, a sentence each.
    """

    offsets: dict[TopicPartition, int]
    unknown: tuple[str, ...] = ()


def find_diverged_logs(
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
    by_epochs = diverged_epochs(source, ledger, copied, remote_names)
    doubtful = {
        tp: position
        for tp, position in copied.items()
        if tp in bounds
        and tp not in by_epochs
        and bounds[tp].end >= position.offset
        and remote_names[tp.topic] in remote_topics
        and tp.partition < remote_topics[remote_names[tp.topic]].partitions
    }
    newest, ends = _newest(ledger, doubtful, remote_names)
    grown = {tp for tp, position in doubtful.items() if bounds[tp].end > position.offset}
    sample = newest if by_epochs else _sample(newest, grown)
    return _by_last_records(source, target, ledger, newest, ends, sample, by_epochs)


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
    """As ``find_diverged_logs``, whether the partitions have something new or not.

    Args:
        source: the cluster that was copied from.
        target: the cluster that it was copied to.
        ledger: the ledger of the flow that has copied it, projected.
        copied: its positions, by *source* partition, as far as they are of the topics that are there.
        remote_names: by the source's topics, the remote topics.
        remote_topics: those that are there.
        whole: whether all partitions are looked at, also where those of a sample are what was copied.
    """
    by_epochs = diverged_epochs(source, ledger, copied, remote_names)
    doubtful = {
        tp: position
        for tp, position in copied.items()
        if tp not in by_epochs and remote_names[tp.topic] in remote_topics
    }
    newest, ends = _newest(ledger, doubtful, remote_names)
    sample = newest if whole or by_epochs else _sample(newest, doubtful)
    return _by_last_records(source, target, ledger, newest, ends, sample, by_epochs)


def all_diverged(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    copied: Copied,
    remote_names: Mapping[str, str],
    *,
    by_records: bool,
) -> DivergedLogs:
    """``diverged_logs`` of all partitions; or ``diverged_epochs``, which need not ask the target."""
    if by_records:
        topics = remote_names.values()
        return diverged_logs(source, target, ledger, copied, remote_names, topics, whole=True)
    return DivergedLogs(diverged_epochs(source, ledger, copied, remote_names))


def _by_last_records(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    newest: Sequence[_Newest],
    ends: _Ends,
    sample: Collection[_Newest],
    found: dict[TopicPartition, int],
) -> DivergedLogs:
    """``found``, and the partitions where the source has something else by now than what was copied last.

    Args:
        source: the cluster that was copied from.
        target: the cluster that it was copied to.
        ledger: the ledger, projected.
        newest: the newest ranges with records, or without any where a partition has no other; the newest one first.
        ends: where copying ended.
        sample: those that are to be looked at, whatever the others are.
        found: where logs part by their leader epochs.
    """
    compare = partial(_compare, source, target, ledger, ends)
    chosen = set(sample)
    wait_s = _LONG_WAIT_S if found else _WAIT_S
    replaced, left, why = compare(chosen, wait_s, newest[:LOGS_AT_ONCE])
    rest = set(newest) - chosen
    if replaced and (rest or left):
        # What a backup lacks, it lacks in any partition.
        rest |= {one for one in newest if one[1].source in left}
        more, left, why = compare(rest, _LONG_WAIT_S)
        replaced |= more
    offsets = found | dict.fromkeys(sorted(replaced), -1)
    if not left:
        return DivergedLogs(offsets)
    names = first_of(sorted(map(str, left)), _SHOWN)
    unknown = (
        f"Whether {source.alias} still holds the records that were copied last is unknown of {names}: "
        f"{why or 'there was no time to look at more.'}"
    )
    return DivergedLogs(offsets, (unknown,))


def _compare(
    source: Cluster,
    target: Cluster,
    ledger: LedgerTable,
    ends: _Ends,
    chosen: Collection[_Newest],
    wait_s: float,
    others: Sequence[_Newest] = (),
) -> tuple[set[TopicPartition], set[TopicPartition], str]:
    """The partitions where the source has something else by now, those of ``chosen`` not looked at, and why.

    Args:
        source: the cluster that was copied from.
        target: the cluster that it was copied to.
        ledger: the ledger, projected.
        ends: where copying ended.
        chosen: the newest ranges of the partitions.
        wait_s: for how long they are looked at, in seconds.
        others: those of further ones, of which only the batches are compared that come together with one another.
    """
    replaced = set[TopicPartition]()
    unseen, why = {one[1].source for one in chosen}, ""
    if not chosen:
        return replaced, unseen, why
    until = time.monotonic() + wait_s
    try:
        with retry_for(_WAIT_S), connect(source) as cluster:
            known = _same_batches(cluster, ends, unseen, [it.source for _, it in others], until)
            replaced = {tp for tp, is_same in known.items() if not is_same}
            told = {tp: end for tp, end in ends.items() if tp not in known}
            last = _last(ledger, {one for one in chosen if one[1].source not in replaced}, told)
            left, unseen = set(last), {it.source for it in last}
            if not last:
                return replaced, unseen, why
            with connect(target) as other:
                for it, look in _looks(cluster, other, last):
                    if time.monotonic() > until:
                        break
                    try:
                        has = look()
                    except FerryError as error:
                        why = why or str(error)
                        continue
                    left.discard(it)
                    unseen = {one.source for one in left}
                    if has is False:
                        replaced.add(it.source)
    except FerryError as error:
        why = str(error)
    return replaced, unseen, why


def _same_batches(
    cluster: WireCluster,
    ends: _Ends,
    chosen: Collection[TopicPartition],
    others: Iterable[TopicPartition],
    until: float,
) -> dict[TopicPartition, bool]:
    """Whether the source still has the batch in which copying ended, where the ledger and its log tell.

    Arguments as of ``_compare``, by *source* partition, and:
        until: the moment until which batches are read that did not come together.

    Raises:
        FerryError: if the source does not say where its logs start and end.
    """
    known: dict[TopicPartition, bool] = {}
    told = {tp: end for tp in (*chosen, *others) if (end := ends.get(tp)) and end.crc >= 0}
    if not told:
        return known
    logs = retry(lambda: led_logs(cluster, told))
    for some in batched(told.items(), LOGS_AT_ONCE):
        at_ends = with_batches(cluster, logs, {tp: it.end - 1 for tp, it in some})
        for tp, log in at_ends.items():
            if log.batch is None and (tp not in chosen or time.monotonic() > until):
                continue
            with suppress(FerryError):
                has = has_same_batch(cluster, log, told[tp].end - 1, told[tp].crc)
                if has is not None:
                    known[tp] = has
    return known


def _last(
    ledger: LedgerTable, chosen: Collection[_Newest], ends: _Ends
) -> list[LastRecord | CopyEnd]:
    """What is looked up on the source: of each range the last record, and what had none after it."""
    empty = (end for _, one in chosen if (end := ends.get(one.source)) and end.start < end.end)
    return [*last_records(ledger, chosen), *empty]


def _looks(
    cluster: WireCluster, other: WireCluster, last: Sequence[LastRecord | CopyEnd]
) -> Iterator[tuple[LastRecord | CopyEnd, Callable[[], bool | None]]]:
    """``last``, each with what tells whether the source still has it; None where nothing does."""
    logs = retry(lambda: led_logs(cluster, [it.source for it in last]))
    copied = [it.target for it in last if isinstance(it, LastRecord)]
    copies = retry(lambda: led_logs(other, copied))
    for some in batched(last, LOGS_AT_ONCE):
        records = [it for it in some if isinstance(it, LastRecord)]
        here = with_batches(cluster, logs, {it.source: it.offset for it in records})
        there_batches = with_batches(other, copies, {it.target: it.target_offset for it in records})
        for it in some:
            if isinstance(it, LastRecord):
                log, copy = here.get(it.source), there_batches.get(it.target)
                yield it, partial(_has_last, cluster, log, other, copy, it)
            else:
                yield it, partial(_has_nothing_since, cluster, logs.get(it.source), it)


def _led(partition: TopicPartition, log: PartitionLog | None) -> PartitionLog:
    if log is None:
        raise ClusterUnreachable(f"{partition} has no leader.")
    return log


def _has_nothing_since(
    cluster: WireCluster, known: PartitionLog | None, it: CopyEnd
) -> bool | None:
    """Whether a log still has no record where copying ended without one; None where nothing tells."""
    log = _led(it.source, known)
    if it.end > log.end:
        return False
    if not it.is_ended:
        return None
    start = max(it.start, it.end - _MOST_OFFSETS)
    return newest_record_between(cluster, log, start, it.end) is None


def _has_last(
    cluster: WireCluster,
    known: PartitionLog | None,
    other: WireCluster,
    known_copy: PartitionLog | None,
    it: LastRecord,
) -> bool | None:
    """``has_copied`` of a last record; where that is compacted away, of the newest one of its range that is left."""
    log, copy = _led(it.source, known), _led(it.target, known_copy)
    has = has_copied(
        cluster, log, it.offset, (other, copy, it.target_offset), is_changed=it.is_changed
    )
    if has is not None or not it.segments:
        return has
    start = max(it.segments[0].source, it.offset - _MOST_OFFSETS)
    left = newest_record_between(cluster, log, start, it.offset)
    for source, target, records in it.segments:
        if left is not None and source <= left < source + records:
            at_copy = other, copy, target + left - source
            return has_copied(cluster, log, left, at_copy, is_changed=it.is_changed)
    return None


def _newest(
    ledger: LedgerTable, copied: Copied, remote_names: Mapping[str, str]
) -> tuple[list[_Newest], _Ends]:
    """The ledger offset of each partition's newest range with records, with that; and where copying ended.

    Those that were copied last come first.
    """
    if not copied:
        return [], {}
    of_all, newest = newest_ranges(ledger, {remote_names[tp.topic] for tp in copied})
    places = dict(newest)
    ends = {}
    for partition, end in copy_ends(ledger, of_all):
        position = copied.get(partition.source)
        if _is_of(position, partition) and position and end.end == position.offset:
            ends[partition.source] = end
            places[partition] = of_all[partition]
            newest.setdefault(partition, of_all[partition])
    chosen = [partition for partition in newest if _is_of(copied.get(partition.source), partition)]
    chosen.sort(key=places.__getitem__, reverse=True)
    return [(newest[partition], partition) for partition in chosen], ends


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
