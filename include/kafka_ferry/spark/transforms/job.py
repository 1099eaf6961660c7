"""Work on ranges of topics that have a rule, which needs its expressions: a Spark plan with a task for each item."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafka_ferry.errors import mask_errors
from kafka_ferry.schemas.fields.rule_types import with_registry_types
from kafka_ferry.spark.security.serialized_flow import envelope, open_envelope
from kafka_ferry.spark.transforms.query import RulesQuery, rules_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.transform import Columns, Decimals, Evaluator, Reads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
WorkByRules = Callable[["Flow", _Item, "Evaluator"], list[_Result]]
"""Does a task's work with what evaluates the flow's rules; called in a worker."""


def run_by_rules(
    spark: SparkSession,
    flow: Flow,
    items: Sequence[_Item],
    work: WorkByRules[_Item, _Result],
) -> list[_Result]:
    """The results of ``work`` for all ``items``, each done in a Spark task of its own.

    Args:
        spark: the session.
        flow: the flow.
        items: what to do, each of which pickles.
        work: does it, as a function that pickles.

    Raises:
        ConfigError: as ``RulesQuery``, or as ``with_registry_types``.
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``with_registry_types``.
        Py4JJavaError: if a task fails too often.
    """
    from kafka_ferry.spark.transforms.relay import feed, outcomes_batch

    session = rules_session(spark)
    query = RulesQuery(session, with_registry_types(flow))
    columns, decimals, reads = query.columns, query.decimals, query.reads
    pack, name = envelope(flow), uuid.uuid4().hex

    def task(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield outcomes_batch(_results(results, pack, name, columns, decimals, reads, work))

    one_each = session.range(0, len(items), 1, len(items))
    rows = one_each.mapInArrow(feed(list(items), name), _ddl(columns))
    answers = query.with_results(rows).mapInArrow(task, "outcomes binary").collect()
    return [outcome for answer in answers for outcome in pickle.loads(bytes(answer.outcomes))]


def _results(
    results: Iterator[pa.RecordBatch],
    pack: bytes,
    name: str,
    columns: Columns,
    decimals: Decimals,
    reads: Reads,
    work: WorkByRules[_Item, _Result],
) -> list[_Result]:
    from kafka_ferry.spark.transforms.relay import Relay

    flow = open_envelope(pack)
    # A worker's traceback is printed by its executor.
    secrets = dict(flow.transform_secrets)
    with mask_errors(), Relay(results, name, columns, decimals, reads, secrets) as relay:
        return work(flow, relay.item, relay)


def _ddl(columns: Columns) -> str:
    from pyspark.sql.pandas.types import from_arrow_schema

    from kafka_ferry.spark.transforms.arrow_rows import schema_of

    return str(from_arrow_schema(schema_of(columns)).toDDL())
