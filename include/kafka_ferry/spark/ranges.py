"""The source of the copying query: a stream whose rows are ranges.

It is read with ``trigger(availableNow=True)``. Its offset, which Spark keeps in the
checkpoint, *is* a run's ranges: a micro-batch that is retried gets exactly the ranges that were
planned. Where each one really starts is read from the target by the task, so that an old
checkpoint, or none, does no harm.

Spark starts several Python processes one after the other only to plan a query, and each imports
this module: what only some of them need is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafka_ferry.plan import Plan, Range
    from kafka_ferry.plan.sharding import Writers

SOURCE: Final = "kafka-ferry-ranges"
_COLUMNS: Final = (
    "topic string, partition int, start bigint, end bigint, "
    "topic_id string, remote_topic string, writer int, remote_topic_id string, "
    "preserved boolean, log_start bigint, origins array<string>, "
    "returned_since bigint, expires_at bigint, "
    "backfill string, bytes_per_s bigint"
)


class RangeSource(DataSource):
    """A stream of ranges.

    Options: ``run_folder`` (the location with the run's plan), ``writers`` (how many there are) and
    ``groups`` (of them, as ``plan.sharding`` has them), ``shard`` (the one to copy, "" for all),
    ``bytes_per_s`` (the limit of the whole run, 0 for none) and ``tasks`` (among how many it is
    shared out then), ``attempt`` (any text that no earlier start of the query had: a run with
    unfinished ranges and no new data is a new micro-batch).
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``spark.readStream.format``."""
        return SOURCE

    def schema(self) -> str:
        """One row is one range."""
        return _COLUMNS

    def streamReader(self, schema: StructType) -> RangeStreamReader:
        """The reader for one query."""
        return RangeStreamReader(self.options, schema)


@dataclass
class WriterRanges(InputPartition):
    """What one Spark task copies: the ranges of one writer, or under a limit of several.

    Attributes:
        ranges: the ranges, a writer's next to each other.
        bytes_per_s: how many bytes the task may send in a second; 0 for no limit.
    """

    ranges: tuple[Range, ...]
    bytes_per_s: int = 0


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives the ranges of the run's plan, once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._run_folder = options["run_folder"]
        self._attempt = options["attempt"]
        self._writers = int(options["writers"]), int(options["groups"])
        self._shard = int(options["shard"]) if options["shard"] else None
        self._bytes_per_s, self._tasks = int(options["bytes_per_s"]), int(options["tasks"])
        self._schema = schema

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to freeze: the ranges end where the plan says."""

    def initialOffset(self) -> dict[str, Any]:
        """Before any run."""
        return {"run": "", "attempt": "", "topics": {}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        """The planned ranges; ``start`` itself once they were given out or where there are none."""
        if start["attempt"] == self._attempt:
            return start
        plan = self._plan()
        ranges = plan.of_shard(self._shard)
        return offset_of(plan.run, ranges, self._attempt) if ranges else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[WriterRanges]:  # noqa: ARG002
        """One input partition for each writer of either kind that has ranges, the most urgent first."""
        from kafka_ferry.plan.priority import by_urgency
        from kafka_ferry.plan.sharding import Writers

        ranges = ranges_in(end, Writers(*self._writers))
        if end["attempt"] != self._attempt:
            ranges = self._still_meant(ranges)
        owner = attrgetter("owner")
        groups = groupby(sorted(ranges, key=owner), key=owner)
        tasks = by_urgency([tuple(group) for _, group in groups])
        if self._bytes_per_s:
            return self._limited(tasks)
        return [WriterRanges(task) for task in tasks]

    def _still_meant(self, ranges: Iterable[Range]) -> list[Range]:
        """Those of an earlier attempt's ranges that are of partitions which this one is to copy.

        Another shard's are that one's by now: two that shared a writer would fence each other.
        """
        meant = {range_.source for range_ in self._plan().of_shard(self._shard)}
        return [range_ for range_ in ranges if range_.source in meant]

    def _limited(self, tasks: Sequence[tuple[Range, ...]]) -> list[WriterRanges]:
        """No more tasks than may run at a time, each with its share of the limit: together they keep to it."""
        from kafka_ferry.plan.sharding import divided, load_of, loads_of, shares

        plan = self._plan()
        loads = loads_of(plan.ranges, plan.estimates)
        limit = self._bytes_per_s
        if self._shard is not None:
            limit = shares(limit, [load_of(shard, loads) for shard in plan.shards])[self._shard]
        # A writer of both kinds counts twice, which only makes the shares a little less even.
        of_task = [load_of({range_.writer for range_ in task}, loads) for task in tasks]
        parts = divided(of_task, self._tasks)
        limits = shares(limit, [sum(of_task[at] for at in part) for part in parts])
        return [
            WriterRanges(tuple(chain.from_iterable(tasks[at] for at in part)), limit)
            for part, limit in zip(parts, limits, strict=True)
        ]

    def _plan(self) -> Plan:
        from kafka_ferry.plan import read_plan
        from kafka_ferry.state import StateFolder

        return read_plan(StateFolder(self._run_folder))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The ranges of one writer as rows."""
        assert isinstance(partition, WriterRanges)
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        limit = {"bytes_per_s": partition.bytes_per_s}
        rows = [
            asdict(range_) | limit | {"backfill": _encoded(range_)} for range_ in partition.ranges
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(self._schema, timezone="UTC"))


def offset_of(run: str, ranges: Iterable[Range], attempt: str) -> dict[str, Any]:
    """The stream's offset for a run's ranges, in the form that Spark keeps (texts and nested objects)."""
    topics: dict[str, dict[str, Any]] = {}
    for range_ in ranges:
        topic = topics.setdefault(
            range_.topic,
            {
                "id": range_.topic_id,
                "remote": range_.remote_topic,
                "remote_id": range_.remote_topic_id,
                "preserved": range_.preserved,
                "origins": list(range_.origins),
                "returned_since": range_.returned_since,
                "ranges": {},
                "expires": {},
                "backfills": {},
            },
        )
        interval = f"{range_.start}-{range_.end}"
        if range_.log_start >= 0:
            interval += f"-{range_.log_start}"
        topic["ranges"][str(range_.partition)] = interval
        if range_.expires_at >= 0:
            topic["expires"][str(range_.partition)] = range_.expires_at
        if range_.backfill:
            topic["backfills"][str(range_.partition)] = _encoded(range_)
    return {"run": run, "attempt": attempt, "topics": topics}


def _encoded(range_: Range) -> str:
    return range_.backfill.encode() if range_.backfill else ""


def ranges_in(offset: Mapping[str, Any], writers: Writers) -> list[Range]:
    """The ranges in an offset of the stream, given to the writers that there are now."""
    from kafka_ferry.plan import Range, TopicPartition
    from kafka_ferry.plan.ranges import Backfill

    ranges = []
    for name, topic in offset["topics"].items():
        for number, interval in topic["ranges"].items():
            start, end, *log_start = map(int, interval.split("-"))
            backfill = topic.get("backfills", {}).get(number)
            ranges.append(
                Range(
                    topic=name,
                    partition=int(number),
                    start=start,
                    end=end,
                    topic_id=topic["id"],
                    remote_topic=topic["remote"],
                    writer=writers.of(TopicPartition(topic["remote"], int(number))),
                    remote_topic_id=topic.get("remote_id", ""),
                    preserved=topic.get("preserved", False),
                    log_start=log_start[0] if log_start else -1,
                    origins=tuple(topic.get("origins", ())),
                    returned_since=topic.get("returned_since", -1),
                    expires_at=topic.get("expires", {}).get(number, -1),
                    backfill=Backfill.decode(backfill) if backfill else None,
                )
            )
    return ranges
