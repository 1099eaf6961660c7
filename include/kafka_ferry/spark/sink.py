"""The sink of the copying query, whose tasks copy the ranges that come as rows.

A task never raises for a range that fails: Spark would replay the micro-batch before it planned
anything new, and one poisoned partition would stop the flow. Failures travel in commit messages,
and the sink's ``commit``, which runs in another process than its ``write``, stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SINK: Final = "kafka-ferry-copy"


class CopySink(DataSource):
    """The sink that copies ranges.

    The flow is part of the class, which ``sink_of`` makes. Options: ``run`` (its id),
    ``run_folder`` (where ``commit`` stores outcomes), ``attempt`` (the same text as the source's).
    """

    flow: ClassVar[bytes]

    @classmethod
    def name(cls) -> str:
        """The name for ``writeStream.format``."""
        return SINK

    def streamWriter(self, schema: StructType, overwrite: bool) -> RangeCopyWriter:  # noqa: ARG002
        """The writer for one query."""
        return RangeCopyWriter(self.options, self.flow)


def sink_of(flow: bytes) -> type[CopySink]:
    """The sink of one packed flow: Spark pickles the class itself, since no module has it."""

    class FlowSink(CopySink):
        pass

    FlowSink.flow = flow
    return FlowSink


@dataclass
class CopyMessage(WriterCommitMessage):
    """The outcomes of one task's ranges, as JSON."""

    outcomes: bytes


class RangeCopyWriter(DataSourceStreamArrowWriter):
    """Copies the ranges that come as rows."""

    def __init__(self, options: Mapping[str, str], flow: bytes) -> None:
        self._options = dict(options)
        self._flow = flow

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CopyMessage:
        """Copy the task's ranges; failures are in the message."""
        from kafka_ferry.copy import Outcome, RateLimit, copy_for_flow, outcomes_to_json
        from kafka_ferry.plan import Range
        from kafka_ferry.plan.ranges import Backfill
        from kafka_ferry.spark.carrying import unpacked

        rows = [row for batch in iterator for row in batch.to_pylist()]
        # The same in all of them: the task's.
        limits = [row.pop("bytes_per_s") for row in rows]
        ranges = [
            Range(
                **row
                | {
                    "origins": tuple(row["origins"]),
                    "backfill": Backfill.decode(row["backfill"]) if row["backfill"] else None,
                }
            )
            for row in rows
        ]
        flow, rate = unpacked(self._flow), RateLimit(max(limits, default=0))
        outcomes: list[Outcome] = []
        for _, group in groupby(ranges, key=attrgetter("owner")):
            outcomes += copy_for_flow(flow, self._options["run"], list(group), rate)
        return CopyMessage(outcomes_to_json(outcomes))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Store the outcomes of the micro-batch in the run's folder."""
        from kafka_ferry.copy import OutcomeFiles, outcomes_from_json
        from kafka_ferry.state import StateFolder

        outcomes = [
            outcome
            for message in messages
            if isinstance(message, CopyMessage)
            for outcome in outcomes_from_json(message.outcomes)
        ]
        folder = StateFolder(self._options["run_folder"])
        OutcomeFiles(folder, self._options["attempt"]).write(batchId, outcomes)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what a task sealed stays, and the next one goes on behind it."""
