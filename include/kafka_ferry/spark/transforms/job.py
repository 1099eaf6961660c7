"""Copies ranges of topics that have a rule: a Spark plan of one task a writer."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafka_ferry.spark.serialized_flow import carried, unpacked
from kafka_ferry.spark.transforms.query import columns_of, rules_session, with_results

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.copy import Outcome
    from kafka_ferry.plan.schedule.tasks import TaskRanges
    from kafka_ferry.transform import Column, Evaluator

CopyTask = Callable[["Flow", "TaskRanges", "Evaluator"], list["Outcome"]]
"""Copies the ranges of a task; called in a worker."""


def copied_with_rules(
    spark: SparkSession, flow: Flow, tasks: Sequence[TaskRanges], copy: CopyTask, *, beside: int = 0
) -> list[Outcome]:
    """The outcomes of the ranges of ``tasks``, each copied in a Spark task of its own.

    Args:
        spark: the session.
        flow: the flow.
        tasks: what to copy.
        copy: copies them, as a function that pickles.
        beside: how many bytes it holds.

    Raises:
        ConfigError: Spark cannot make sense of a rule.
        Py4JJavaError: if a task fails too often.
    """
    from kafka_ferry.spark.transforms.relay import feed, outcomes_batch

    session = rules_session(spark)
    columns, pack, name = (
        columns_of(session, flow.transform),
        carried(spark, flow, beside=beside),
        uuid.uuid4().hex,
    )

    def work(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield outcomes_batch(_copied(results, pack, name, columns, copy))

    one_each = session.range(0, len(tasks), 1, len(tasks))
    rows = one_each.mapInArrow(feed(list(tasks), name), _ddl(columns))
    answers = with_results(rows, flow).mapInArrow(work, "outcomes binary").collect()
    return [outcome for answer in answers for outcome in pickle.loads(bytes(answer.outcomes))]


def _copied(
    results: Iterator[pa.RecordBatch],
    pack: bytes,
    name: str,
    columns: frozenset[Column],
    copy: CopyTask,
) -> list[Outcome]:
    from kafka_ferry.spark.transforms.relay import Relay

    flow = unpacked(pack)
    with Relay(results, name, columns, dict(flow.transform_secrets)) as relay:
        return copy(flow, relay.task, relay)


def _ddl(columns: frozenset[Column]) -> str:
    from pyspark.sql.pandas.types import from_arrow_schema

    from kafka_ferry.spark.transforms.relay import schema_of

    return str(from_arrow_schema(schema_of(columns)).toDDL())
