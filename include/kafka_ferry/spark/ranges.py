"""The source of the copying query: a stream whose rows are ranges.

It is read with ``trigger(availableNow=True)``. Its offset, which Spark keeps in the
checkpoint, *is* a run's ranges: a micro-batch that is retried gets exactly the ranges that were
planned. Where each one really starts is read from the target by the task, so that an old
checkpoint, or none, does no harm.

Spark starts several Python processes one after the other only to plan a query, and each imports
this module: what only some of them need is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafka_ferry.plan import Plan, Range

SOURCE: Final = "kafka-ferry-ranges"
_COLUMNS: Final = (
    "topic string, partition int, start bigint, end bigint, "
    "topic_id string, remote_topic string, writer int, remote_topic_id string, "
    "preserved boolean, log_start bigint, origins array<string>, "
    "returned_since bigint"
)


class RangeSource(DataSource):
    """A stream of ranges.

    Options: ``run_folder`` (the location with the run's plan), ``writers`` (how many there are),
    ``attempt`` (any text that no earlier start of the query had: a run with unfinished ranges and
    no new data is a new micro-batch).
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
    """The ranges of one writer: one Spark task."""

    ranges: tuple[Range, ...]


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives the ranges of the run's plan, once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._run_folder = options["run_folder"]
        self._attempt = options["attempt"]
        self._writers = int(options["writers"])
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
        from kafka_ferry.plan import read_plan
        from kafka_ferry.state import StateFolder

        plan = read_plan(StateFolder(self._run_folder))
        return offset_of(plan, self._attempt) if plan.ranges else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[WriterRanges]:  # noqa: ARG002
        """One input partition for each writer of either kind that has ranges."""
        owner = attrgetter("owner")
        ranges = sorted(ranges_in(end, self._writers), key=owner)
        return [WriterRanges(tuple(group)) for _, group in groupby(ranges, key=owner)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The ranges of one writer as rows."""
        assert isinstance(partition, WriterRanges)
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = [asdict(range_) for range_ in partition.ranges]
        yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(self._schema, timezone="UTC"))


def offset_of(plan: Plan, attempt: str) -> dict[str, Any]:
    """The stream's offset for a plan: its ranges, in the form that Spark keeps (texts and nested objects)."""
    topics: dict[str, dict[str, Any]] = {}
    for range_ in plan.ranges:
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
            },
        )
        interval = f"{range_.start}-{range_.end}"
        if range_.log_start >= 0:
            interval += f"-{range_.log_start}"
        topic["ranges"][str(range_.partition)] = interval
    return {"run": plan.run, "attempt": attempt, "topics": topics}


def ranges_in(offset: Mapping[str, Any], writers: int) -> list[Range]:
    """The ranges in an offset of the stream, given to the writers that there are now."""
    from kafka_ferry.plan import Range, TopicPartition, writer_of

    ranges = []
    for name, topic in offset["topics"].items():
        for number, interval in topic["ranges"].items():
            start, end, *log_start = map(int, interval.split("-"))
            ranges.append(
                Range(
                    topic=name,
                    partition=int(number),
                    start=start,
                    end=end,
                    topic_id=topic["id"],
                    remote_topic=topic["remote"],
                    writer=writer_of(TopicPartition(topic["remote"], int(number)), writers),
                    remote_topic_id=topic.get("remote_id", ""),
                    preserved=topic.get("preserved", False),
                    log_start=log_start[0] if log_start else -1,
                    origins=tuple(topic.get("origins", ())),
                    returned_since=topic.get("returned_since", -1),
                )
            )
    return ranges
