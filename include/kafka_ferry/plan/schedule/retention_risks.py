"""What the source may delete before it is copied, by the flow's timetable and the topic's retention. Pure.

Three risks can be known beforehand, each from one offset per partition that the source gives for a time:

- *expiring*: records older than ``retention.ms`` when the next run begins. Those that are not copied
  yet depend on this run: if it fails, the next one comes too late.
- *recent*: records written within the last interval between runs. If a log whose start has moved holds
  nothing older, then whatever moves it (``retention.ms``, ``retention.bytes``, DeleteRecords) is faster
  than the timetable.
- *deletions*: records of a compacted topic older than ``delete.retention.ms`` that are not copied yet, after
  others were. The cleaner removes a tombstone after that time, and nothing tells the copy of what it deleted.

Brokers delete whole segments, so that records may stay longer: these are the earliest times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from croniter import croniter

from kafka_ferry.batches.topic_limits import config_number
from kafka_ferry.clock import moment_text
from kafka_ferry.config import Flow
from kafka_ferry.model.cluster_state import SourceLogs, SourceState, Topic
from kafka_ferry.model.plan import OffsetsChoice
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.remarks import Risk
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.retention import is_deleted_from, retention_ms

_SECOND_MS: Final = 1000
_DAY_MS: Final = 24 * 60 * 60 * _SECOND_MS
# Airflow's presets that croniter does not know (airflow.timetables.CronMixin).
_PRESETS: Final = {"@quarterly": "0 0 1 */3 *"}
_LONGER: Final = "Keep its records longer, or mirror more often."
_KEPT_KEYS: Final = (
    "Mirror more often, or raise delete.retention.ms. `ferry audit` finds such keys."
)


@dataclass(frozen=True, slots=True)
class Pace:
    """When a flow runs.

    Attributes:
        next_run: when the next run is due, in milliseconds since 1970.
        interval_ms: how long that is after the timetable's previous time.
    """

    next_run: int
    interval_ms: int


def pace_of(flow: Flow, at: int) -> Pace | None:
    """The timetable of ``flow``, in its time zone as in Airflow, around ``at``; None for a flow without one.

    Args:
        flow: the flow.
        at: now, in milliseconds since 1970.
    """
    if interval := flow.schedule_interval:
        # Airflow counts from the previous run: never later than this.
        length = int(interval.total_seconds() * _SECOND_MS)
        return Pace(at + length, length)
    schedule = _PRESETS.get(flow.schedule or "", flow.schedule)
    # Airflow reports an invalid schedule.
    if not schedule or not croniter.is_valid(schedule):
        return None
    now = datetime.fromtimestamp(at / _SECOND_MS, ZoneInfo(flow.timezone))
    following: datetime = croniter(schedule, now).get_next(datetime)
    last: datetime = croniter(schedule, following).get_prev(datetime)
    return Pace(
        int(following.timestamp() * _SECOND_MS),
        # Within one time zone, Python subtracts wall clock times.
        int((following.timestamp() - last.timestamp()) * _SECOND_MS),
    )


@dataclass(frozen=True, slots=True)
class Questions:
    """The times for which to ask the source for offsets, in milliseconds since 1970 by source partition.

    Attributes:
        expiring: the time before which retention deletes everything by the next run.
        recent: one interval between runs ago.
        deletions: the time before which the cleaner may have removed tombstones.
        oldest: no time: the partitions whose first record's time is needed.
    """

    expiring: Mapping[TopicPartition, int]
    recent: Mapping[TopicPartition, int]
    deletions: Mapping[TopicPartition, int]
    oldest: frozenset[TopicPartition] = frozenset()


def questions(flow: Flow, logs: SourceLogs, pairs: Iterable[Pair], at: int) -> Questions:
    """What must be asked to know the risks of partitions that are not copied to their end."""
    pairs = list(pairs)
    oldest = frozenset(
        source
        for pair in pairs
        if pair.source and is_deleted_from(pair.source)
        for source in uncopied_partitions(pair, logs)
    )
    # Where nothing was copied yet, the copy has no key that a tombstone has deleted.
    deletions = {
        source: at - _delete_retention_ms(pair.source)
        for pair in pairs
        if pair.source and pair.source.is_compacted
        for source in uncopied_partitions(pair, logs)
        if pair.position(source.partition)
    }
    pace = pace_of(flow, at)
    if pace is None:
        return Questions({}, {}, deletions, oldest)
    expiring, recent = dict[TopicPartition, int](), dict[TopicPartition, int]()
    for pair in pairs:
        kept = retention_ms(pair.source) if pair.source else None
        for source in uncopied_partitions(pair, logs):
            if kept is not None and pace.next_run > kept:
                expiring[source] = pace.next_run - kept
            if logs.bounds[source].start > 0:
                recent[source] = at - pace.interval_ms
    return Questions(expiring, recent, deletions, oldest)


def uncopied_partitions(pair: Pair, logs: SourceLogs) -> Iterator[TopicPartition]:
    """The source partitions of ``pair`` with records that are not copied yet."""
    for number in range(pair.source.partitions if pair.source else 0):
        source = TopicPartition(pair.topic, number)
        bounds, position = logs.bounds.get(source), pair.position(number)
        if bounds and max(bounds.start, position.offset if position else 0) < bounds.end:
            yield source


def risks(
    flow: Flow,
    source: SourceState,
    choices: Iterable[OffsetsChoice],
    ranges: Sequence[Range],
    at: int,
) -> Iterator[Risk]:
    """Topics that may lose records before they are copied, each with its worst partition.

    Args:
        flow: the flow.
        source: its source's topics and logs.
        choices: one for each topic that is planned.
        ranges: what the run copies.
        at: now, in milliseconds since 1970.
    """
    pace = pace_of(flow, at)
    by_topic = defaultdict[str, list[Range]](list)
    for range_ in ranges:
        by_topic[range_.topic].append(range_)
    for choice in choices:
        topic, of_topic = source.topics[choice.topic], by_topic[choice.topic]
        yield from _forgotten_deletions(source.logs, topic, of_topic)
        if pace is None:
            continue
        yield from _expiry_risks(source.logs, topic, of_topic, pace)
        yield from _too_short(source.logs, topic, of_topic, pace)


def _delete_retention_ms(topic: Topic) -> int:
    return config_number(topic.configs, "delete.retention.ms", _DAY_MS)


def _expiry_risks(
    logs: SourceLogs, topic: Topic, ranges: Sequence[Range], pace: Pace
) -> Iterator[Risk]:
    """Offsets for which this run is the last chance."""
    text = (
        f"may be deleted before the next run ({moment_text(pace.next_run, seconds=False)}) if this one does not copy "
        f"them: retention.ms={topic.configs.get('retention.ms')}."
    )
    yield from _before(logs, logs.expiring, topic, ranges, text, _LONGER)


def _forgotten_deletions(logs: SourceLogs, topic: Topic, ranges: Sequence[Range]) -> Iterator[Risk]:
    """Offsets among which tombstones may be missing, so that the copy keeps what they have deleted."""
    text = (
        f"are older than delete.retention.ms={_delete_retention_ms(topic)}: if the source's cleaner has removed a "
        "tombstone among them, the copy keeps the key that it deleted."
    )
    yield from _before(logs, logs.deletions, topic, ranges, text, _KEPT_KEYS)


def _before(
    logs: SourceLogs,
    offsets: Mapping[TopicPartition, int],
    topic: Topic,
    ranges: Sequence[Range],
    text: str,
    advice: str,
) -> Iterator[Risk]:
    """The risk of what ranges have before these offsets, by *source* partition, and the source still has."""
    starts = {range_: max(range_.start, logs.bounds[range_.source].start) for range_ in ranges}
    early = {
        range_: min(offsets.get(range_.source, 0), range_.end) - start
        for range_, start in starts.items()
    }
    early = {range_: count for range_, count in early.items() if count > 0}
    if early:
        worst = max(early, key=lambda range_: early[range_])
        of_worst = f"offsets [{starts[worst]}, {starts[worst] + early[worst]}) {text}"
        total = sum(early.values())
        yield Risk(topic.name, worst.partition, len(early), total, of_worst, advice)


def _too_short(
    logs: SourceLogs, topic: Topic, ranges: Sequence[Range], pace: Pace
) -> Iterator[Risk]:
    """Records that no run may ever see, if nothing changes."""
    between = f"the time between two runs ({timedelta(milliseconds=pace.interval_ms)})"
    consequence = "records may be deleted before any run copies them."
    kept = retention_ms(topic)
    if kept is not None and kept < pace.interval_ms:
        text = f"retention.ms={kept} is less than {between}: {consequence}"
        yield Risk(topic.name, 0, topic.partitions, 0, text, _LONGER)
        return
    short = [
        range_
        for range_ in ranges
        if range_.source in logs.recent
        and logs.recent[range_.source] <= logs.bounds[range_.source].start
    ]
    if short:
        worst = max(short, key=len)
        text = f"its log holds less than {between}: {consequence}"
        yield Risk(topic.name, worst.partition, len(short), 0, text, _LONGER)
