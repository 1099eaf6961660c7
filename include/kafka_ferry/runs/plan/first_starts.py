"""Where topics begin that ``topics.start`` is about and that were never copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.batches import each_record
from kafka_ferry.batches.epochs import OLDEST_EPOCH
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Cluster, Flow
from kafka_ferry.config.file_content import content_of
from kafka_ferry.config.files.yaml_document import NoDocument, read_document
from kafka_ferry.config.types.first_start import FirstStart, read_first_start
from kafka_ferry.config.types.home import at_home
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.queries.copied_topics import rule_starts
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.cluster_state import TopicStarts
from kafka_ferry.model.groups import Group
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.retry import retry, retry_each
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.epochs import epochs_before
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import led_logs
from kafka_ferry.wire.partitions.scan import stored_batches
from kafka_ferry.wire.partitions.times import offsets_at

if TYPE_CHECKING:
    from kafka_ferry.wire import WireCluster
    from kafka_ferry.wire.partitions.partition_log import PartitionLog

_OPTION: Final = "topics.start"
_LOOKED_AT: Final = 1024 * 1024
_LOOKED_AT_ONCE: Final = 64 * 1024


def topic_starts(
    flow: Flow,
    ledger: LedgerTable,
    bounds: Mapping[TopicPartition, LogBounds],
    pairs: Iterable[Pair],
) -> TopicStarts:
    """Where partitions of ``pairs`` begin that have no position, if the option says it.

    What is copied again, such as a remote topic that was deleted, begins where it began before.

    Raises:
        ConfigError: a file that the option names is not what it must be.
        FerryError: the source does not answer.
    """
    if not flow.topics_start.rules:
        return TopicStarts()
    begun, before = rule_starts(ledger)
    starts: dict[TopicPartition, int] = {}
    partitions_by_start: dict[FirstStart, list[TopicPartition]] = defaultdict(list)
    for pair in pairs:
        text = flow.topics_start.explicit_value(pair.topic)
        if not text or not pair.source:
            continue
        start = read_first_start(text)
        for number in range(pair.source.partitions):
            source = TopicPartition(pair.topic, number)
            earlier = before.get((pair.source.topic_id, number))
            if pair.position(number) or source not in bounds:
                continue
            if earlier is not None:
                starts[source] = earlier
            # Nothing that came after the topic was begun is left out.
            elif start.kind != "latest" or not pair.positions:
                partitions_by_start[start].append(source)
    refused: dict[str, str] = {}
    for start, partitions in partitions_by_start.items():
        try:
            offsets, unread = _offsets(flow, start, {tp: bounds[tp] for tp in partitions})
        except FerryError as error:
            if error.transient or isinstance(error, ConfigError):
                raise
            refused |= dict.fromkeys((tp.topic for tp in partitions), str(error))
        else:
            starts |= offsets
            refused |= {tp.topic: str(error) for tp, error in unread.items()}
    return TopicStarts(starts, refused, begun)


def start_epochs(
    flow: Flow,
    bounds: Mapping[TopicPartition, LogBounds],
    pairs: Iterable[Pair],
    starts: TopicStarts,
) -> dict[TopicPartition, int]:
    """The leader epochs before the logs' ends, of partitions that have no position and may begin there.

    Without them, nothing would tell that a log was truncated below its begin, and has grown again, before the first
    record was copied. A log whose records are all deleted may have no epoch before its end any more: the oldest one
    ends where the log starts, and no earlier as long as it is that log.

    Args:
        flow: the flow.
        bounds: the source's logs.
        pairs: its topics.
        starts: where partitions begin by ``topics.start``.

    Raises:
        FerryError: the source does not answer.
    """
    ends = {
        source: bounds[source].end
        for pair in pairs
        for number in range(pair.source.partitions if pair.source else 0)
        if (source := TopicPartition(pair.topic, number)) in bounds
        and not pair.position(number)
        and bounds[source].end > 0
        and (
            starts.offsets[source] >= bounds[source].end
            if source in starts.offsets
            else flow.auto_offset_reset != "earliest" or _is_empty(bounds[source])
        )
    }
    emptied = {source for source in ends if _is_empty(bounds[source])}
    oldest = dict.fromkeys(emptied, OLDEST_EPOCH)
    written = {source: end for source, end in ends.items() if source not in emptied}
    if not written:
        return oldest
    with connect(flow.source) as cluster:
        return oldest | retry(lambda: epochs_before(cluster, written))


def _is_empty(log: LogBounds) -> bool:
    return log.start == log.end


def first_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, FerryError]]:
    """The first offset per partition with a timestamp at or after a time; absent where there is none.

    And why nothing says it of others.

    Args:
        cluster: the cluster.
        times: by partition, in milliseconds since 1970.

    Raises:
        ClusterUnreachable: it does not answer.
    """
    if not times:
        return {}, {}
    with connect(cluster) as wire:

        def ask(partitions: list[TopicPartition]) -> dict[TopicPartition, int | FerryError | None]:
            nodes = {tp: leader.node for tp, leader in wire.leaders(partitions).items()}
            # Treated as a partition without such records, one whose leader moves would be left out silently.
            moving = {
                tp: ClusterUnreachable(f"{tp} on {cluster.alias} has no leader.")
                for tp in partitions
            }
            return moving | offsets_at(wire, nodes, {tp: times[tp] for tp in partitions})

        answers = retry_each(times, ask)
    return (
        {tp: offset for tp, offset in answers.items() if isinstance(offset, int)},
        {tp: error for tp, error in answers.items() if isinstance(error, FerryError)},
    )


def first_records(
    cluster: Cluster, partitions: Iterable[TopicPartition], at_ms: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, FerryError]]:
    """As ``first_offsets``, of records alone; absent, too, where there are only markers for a long way.

    A transaction's marker has the time of its end. Records may be years older: those that Kafka Streams makes of a
    topic that it reads once more have the times of that topic's.

    Raises:
        ClusterUnreachable: it does not answer.
    """
    found, unread = first_offsets(cluster, dict.fromkeys(partitions, at_ms))
    if not found:
        return found, unread
    with connect(cluster) as wire:
        logs = retry(lambda: led_logs(wire, found))
        for tp in [*found]:
            try:
                if tp not in logs:
                    raise ClusterUnreachable(f"{tp} on {cluster.alias} has no leader.")
                offset = _first_record(wire, logs[tp], found.pop(tp), at_ms)
            except FerryError as error:
                unread[tp] = error
                continue
            if offset is not None:
                found[tp] = offset
    return found, unread


def _first_record(wire: WireCluster, log: PartitionLog, first: int, at_ms: int) -> int | None:
    """The first record from ``first`` on with a timestamp at or after a time, if it is not far; else None."""
    size = 0
    for batch in stored_batches(
        wire, log, max(first, log.start), log.end, max_bytes=_LOOKED_AT_ONCE
    ):
        size += batch.header.size
        if not batch.header.is_control and batch.header.max_timestamp >= at_ms:
            with corrupt_in(log.partition, wire.alias):
                younger = (
                    offset
                    for offset, timestamp, *_ in each_record(batch)
                    if offset >= first and timestamp >= at_ms
                )
                return next(younger, batch.header.next_offset)
        if size > _LOOKED_AT:
            break
    return None


def _offsets(
    flow: Flow, start: FirstStart, bounds: Mapping[TopicPartition, LogBounds]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, FerryError]]:
    """Where the partitions in ``bounds`` begin, and why nothing says it of some.

    Raises:
        FerryError: nothing says it of any.
    """
    firsts = {tp: log.start for tp, log in bounds.items()}
    ends = {tp: log.end for tp, log in bounds.items()}
    match start.kind:
        case "earliest":
            return firsts, {}
        case "latest":
            return ends, {}
        case "group":
            return firsts | _of_group(flow, start.name, firsts), {}
        case "file":
            return firsts | _of_file(flow, start.name, firsts), {}
    since = start.ms if start.kind == "moment" else now_ms() - start.ms
    offsets, unread = first_offsets(flow.source, dict.fromkeys(bounds, since))
    return ends | offsets, unread


def _of_group(
    flow: Flow, name: str, firsts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    with GroupControl(flow.source) as control:
        offsets = control.committed_offsets([Group(name)])[name]
    if isinstance(offsets, FerryError):
        raise offsets
    if not offsets:
        raise FerryError(f"The group {name} on {flow.source.alias} has no positions.")
    return {tp: offsets[tp].offset for tp in firsts if tp in offsets}


def _of_file(
    flow: Flow, name: str, firsts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    path = at_home(name, flow.file)
    topics = _read(flow, path)
    if missing := sorted({tp.topic for tp in firsts} - topics.keys()):
        raise ConfigError(str(flow.file), _OPTION, f"{path} has no topic {missing[0]}")
    offsets = {}
    for tp in firsts:
        offset = topics[tp.topic].get(tp.partition)
        if offset is not None:
            offsets[tp] = offset
    return offsets


def _read(flow: Flow, path: Path) -> dict[str, dict[int, int]]:
    """The offsets by topic and partition in a file, which JSON gives texts as keys."""

    def bad(reason: str) -> ConfigError:
        return ConfigError(str(flow.file), _OPTION, f"{path} {reason}")

    try:
        document: Any = read_document(content_of(path))
        return {
            str(topic): {int(number): _offset(at) for number, at in partitions.items()}
            for topic, partitions in document.items()
        }
    except OSError as error:
        raise bad(f"cannot be read: {error.strerror}") from None
    except NoDocument as error:
        raise bad(str(error)) from None
    except (AttributeError, TypeError, ValueError):
        raise bad("must have topics, each with its partitions and their offsets") from None


def _offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
