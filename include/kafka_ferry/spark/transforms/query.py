"""The flow's rules as a part of Spark's plans, and the session in which they mean the same everywhere.

For each row the plan says whether the record is kept, what each path of its rule's ``set`` becomes, and which step
failed for it. Expressions see Spark's ANSI mode, UTC and no secrets but by the name of a column.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafka_ferry.config.options.transform import PARTS
from kafka_ferry.schemas.fields.rule_types import with_registry_types
from kafka_ferry.spark.security.flow_key import without_key
from kafka_ferry.spark.transforms.arrow_rows import ROWS, ROWS_AT_A_TIME
from kafka_ferry.spark.transforms.rule_plan import RAW, RESULT, RESULT_TYPE, RulePlan
from kafka_ferry.transform import MOST_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.transform import Columns, Decimals, Reads

_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_A_TIME),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(MOST_BYTES),
    # Shared by two expressions, a part would be evaluated outside of what catches its errors.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
}
# Settings of the application that change how a plan is executed, and not what it gives.
_OF_EXECUTION: Final = tuple(
    f"spark.sql.{part}."
    for part in ("adaptive", "artifact", "codegen", "execution", "files", "shuffle", "streaming")
)


def rules_session(spark: SparkSession) -> SparkSession:
    """A session of the same application in which expressions mean the same, whatever its defaults say."""
    from pyspark.errors import AnalysisException

    session = without_key(spark.newSession())
    for key in session.conf.getAll:
        if key.startswith("spark.sql.") and not key.startswith(_OF_EXECUTION):
            with suppress(AnalysisException):
                session.conf.unset(key)
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    return session


def checked_rules(spark: SparkSession, flow: Flow) -> Columns:
    """The columns that the flow's rules use.

    Raises:
        ConfigError: as ``RulesQuery``, or as ``with_registry_types``.
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``with_registry_types``.
    """
    return RulesQuery(rules_session(spark), with_registry_types(flow)).columns


class RulesQuery:
    """The rules of a flow as a part of Spark's plans.

    Args:
        spark: the session, as ``rules_session`` gives it.
        flow: the flow, with the types of its registry's schemas.

    Attributes:
        columns: for each rule, the columns that its expressions use.
        decimals: for each rule, the names of the fields that are decimals in rows.
        reads: for each rule, the fields and headers that they read by name.

    Raises:
        ConfigError: Spark cannot make sense of an expression, or it may give something else the next time.
    """

    def __init__(self, spark: SparkSession, flow: Flow) -> None:
        self._rules = [RulePlan(spark, flow, number) for number in range(len(flow.transform))]
        nothing = _internal(spark.sql(_no_rows()))
        self.columns: Columns = [rule.checked_columns(nothing) for rule in self._rules]
        self.decimals: Decimals = [
            {part: rule.decimals(part) for part in PARTS} for rule in flow.transform
        ]
        self.reads: Reads = [rule.reads for rule in self._rules]

    def with_results(self, rows: DataFrame) -> DataFrame:
        """The rows' results.

        Args:
            rows: as ``arrow_rows.ROWS`` says, without columns that no expression uses.
        """
        from pyspark.sql import functions as sf

        evaluated = _internal(rows)
        for rule, columns in zip(self._rules, self.columns, strict=True):
            evaluated = rule.apply(evaluated, columns)
        result = sf.col(RESULT)
        return evaluated.select(
            sf.col(f"{RAW}rule").alias("rule"),
            result.keep.alias("keep"),
            result.failed.alias("failed"),
            result.results.alias("results"),
            result.seen.alias("seen"),
            sf.col(f"{RAW}filler").alias("filler"),
        )


def _internal(rows: DataFrame) -> DataFrame:
    """The rows by names of our own, with an empty result."""
    from pyspark.sql import functions as sf

    raw = (sf.col(name).alias(RAW + name) for name in rows.columns)
    return rows.select(*raw, sf.lit(None).cast(RESULT_TYPE).alias(RESULT))


def _no_rows() -> str:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(ROWS)
    columns = (
        f"cast(null as {field.dataType.simpleString()}) as `{field.name}`" for field in schema
    )
    return f"select {', '.join(columns)} limit 0"
