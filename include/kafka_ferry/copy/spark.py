"""The Spark side of copying: a stream of ranges, and a sink whose tasks copy them.

The source is read with ``trigger(availableNow=True)``. Its offset, which Spark keeps in the
checkpoint, *is* a run's ranges: a micro-batch that is retried gets exactly the ranges that were
planned. Where each one really starts is read from the target by the task, so that an old
checkpoint, or none, does no harm.

A task never raises for a range that fails: Spark would replay the micro-batch before it planned
anything new, and one poisoned partition would stop the flow. Failures travel in commit messages,
and the sink's ``commit``, which runs in another process than its ``write``, stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from kafka_ferry.config import kafka_python_config, load_flow
from kafka_ferry.copy.copier import Limits, Outcome, copy_ranges
from kafka_ferry.copy.reader import RangeReader
from kafka_ferry.copy.translated import TranslatedWriter
from kafka_ferry.plan.plan import Plan
from kafka_ferry.plan.ranges import Range, SourceOffset, TopicPartition, writer_of
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafka_ferry.config import Flow

SOURCE: Final = "kafka-ferry-ranges"
SINK: Final = "kafka-ferry-copy"
PLAN_FILE: Final = "plan.json"
_COLUMNS: Final = "topic string, partition int, start bigint, end bigint, topic_id string, remote_topic string, writer int"
_OUTCOMES: Final = TypeAdapter(list[Outcome])
# A transaction may also have to wait for its coordinators; the broker aborts it only after this.
_TRANSACTION_SLACK_MS: Final = 110_000


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
        stored = StateFolder(self._run_folder).read(PLAN_FILE)
        if stored is None:
            raise FileNotFoundError(
                f"There is no {PLAN_FILE} in {self._run_folder}: plan the run first."
            )
        plan = Plan.from_json(stored)
        return offset_of(plan, self._attempt) if plan.ranges else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[WriterRanges]:  # noqa: ARG002
        """One input partition for each writer that has ranges."""
        ranges = sorted(ranges_in(end, self._writers), key=attrgetter("writer"))
        return [
            WriterRanges(tuple(group)) for _, group in groupby(ranges, key=attrgetter("writer"))
        ]

    def read(self, partition: WriterRanges) -> Iterator[pa.RecordBatch]:
        """The ranges of one writer as rows."""
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = [asdict(range_) for range_ in partition.ranges]
        yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(self._schema, timezone="UTC"))


def offset_of(plan: Plan, attempt: str) -> dict[str, Any]:
    """The stream's offset for a plan: its ranges, in the form that Spark keeps (texts and nested objects)."""
    topics: dict[str, dict[str, Any]] = {}
    for range_ in plan.ranges:
        topic = topics.setdefault(
            range_.topic, {"id": range_.topic_id, "remote": range_.remote_topic, "ranges": {}}
        )
        topic["ranges"][str(range_.partition)] = f"{range_.start}-{range_.end}"
    return {"run": plan.run, "attempt": attempt, "topics": topics}


def ranges_in(offset: Mapping[str, Any], writers: int) -> list[Range]:
    """The ranges in an offset of the stream, given to the writers that there are now."""
    ranges = []
    for name, topic in offset["topics"].items():
        for number, interval in topic["ranges"].items():
            start, _, end = interval.partition("-")
            ranges.append(
                Range(
                    topic=name,
                    partition=int(number),
                    start=SourceOffset(int(start)),
                    end=SourceOffset(int(end)),
                    topic_id=topic["id"],
                    remote_topic=topic["remote"],
                    writer=writer_of(TopicPartition(topic["remote"], int(number)), writers),
                )
            )
    return ranges


class CopySink(DataSource):
    """The sink that copies ranges.

    Options: ``config`` and ``flow`` (the flow's file and name: secrets are read from it by the
    task and never travel), ``run`` (its id), ``run_folder`` (where ``commit`` stores outcomes),
    ``attempt`` (the same text as the source's).
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``writeStream.format``."""
        return SINK

    def streamWriter(self, schema: StructType, overwrite: bool) -> RangeCopyWriter:  # noqa: ARG002
        """The writer for one query."""
        return RangeCopyWriter(self.options)


@dataclass
class CopyMessage(WriterCommitMessage):
    """The outcomes of one task's ranges, as JSON."""

    outcomes: str


class RangeCopyWriter(DataSourceStreamArrowWriter):
    """Copies the ranges that come as rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CopyMessage:
        """Copy the task's ranges; failures are in the message."""
        ranges = [Range(**row) for batch in iterator for row in batch.to_pylist()]
        flow = load_flow(self._options["config"], self._options["flow"])
        outcomes: list[Outcome] = []
        for number, group in groupby(ranges, key=attrgetter("writer")):
            outcomes.extend(_copy(flow, self._options["run"], number, list(group)))
        return CopyMessage(_OUTCOMES.dump_json(outcomes).decode())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Store the outcomes of the micro-batch in the run's folder."""
        outcomes = [
            outcome
            for message in messages
            if isinstance(message, CopyMessage)
            for outcome in _OUTCOMES.validate_json(message.outcomes)
        ]
        StateFolder(self._options["run_folder"]).write(
            f"{outcomes_prefix(self._options['attempt'])}{batchId}.json",
            _OUTCOMES.dump_json(outcomes),
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what a task sealed stays, and the next one goes on behind it."""


def outcomes_prefix(attempt: str) -> str:
    """How the names of the files begin that hold the outcomes of an attempt's micro-batches."""
    return f"outcomes-{attempt}-"


def read_outcomes(folder: StateFolder, attempt: str) -> list[Outcome]:
    """The outcomes of an attempt; of a range that two micro-batches held, the last one's."""
    latest: dict[TopicPartition, Outcome] = {}
    for name in folder.names(".json"):
        if name.startswith(outcomes_prefix(attempt)):
            for outcome in _OUTCOMES.validate_json(folder.read(name) or b"[]"):
                latest[outcome.range.source] = outcome
    return list(latest.values())


def _copy(flow: Flow, run: str, number: int, ranges: Sequence[Range]) -> list[Outcome]:
    source, target = flow.source, flow.target
    writer = TranslatedWriter(
        target.alias,
        kafka_python_config(target.client_properties("producer")),
        flow=flow.name,
        source_alias=source.alias,
        run=run,
        number=number,
        timeout_ms=flow.transaction_max_ms + _TRANSACTION_SLACK_MS,
    )
    try:
        return copy_ranges(
            ranges,
            partial(
                RangeReader,
                source.alias,
                kafka_python_config(source.client_properties("consumer")),
                max_bytes=flow.fetch_max_bytes,
            ),
            writer,
            Limits(flow.transaction_max_bytes, flow.transaction_max_ms),
        )
    finally:
        writer.close()
