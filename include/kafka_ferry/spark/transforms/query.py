"""The rules' expressions as a Spark plan, and the errors in them.

For each row it says whether the record is kept, what each path of its rule's ``set`` becomes, and which step
failed for it. Expressions see Spark's ANSI mode, UTC and no secrets but by the name of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_ferry.config.options.transform import PARTS, TransformRule, with_secrets
from kafka_ferry.config.types.record_path import read_path
from kafka_ferry.errors import ConfigError
from kafka_ferry.schemas.fields.rule_types import with_registry_types
from kafka_ferry.spark.transforms.expressions import (
    attempted,
    checked,
    json_type,
    names_in,
)
from kafka_ferry.spark.transforms.relay import ROWS, ROWS_AT_A_TIME
from kafka_ferry.transform import WRAPPED
from kafka_ferry.transform.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from kafka_ferry.config import Flow
    from kafka_ferry.transform import Column, Columns

_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_A_TIME),
    # Shared by two expressions, a part would be evaluated outside of what catches its errors.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
}
# Without it, to_json writes milliseconds.
_MICROSECONDS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_RAW: Final = "_raw_"
_RESULT: Final = "_result"
_RESULT_TYPE: Final = "struct<keep boolean, failed int, results array<binary>>"


def rules_session(spark: SparkSession) -> SparkSession:
    """A session of the same application in which expressions always mean the same."""
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    return session


def checked_rules(spark: SparkSession, flow: Flow) -> Columns:
    """The columns that the flow's rules use.

    Raises:
        ConfigError: Spark cannot make sense of an expression, or it may give something else the next time; or
            as ``with_registry_types``.
        ClusterUnreachable, AccessDenied, RegistryRefused: as ``with_registry_types``.
    """
    session = rules_session(spark)
    rows = session.createDataFrame([], _spark_schema())
    with_results(rows, with_registry_types(flow))
    return columns_of(session, flow.transform)


def columns_of(spark: SparkSession, rules: Iterable[TransformRule]) -> Columns:
    """The columns that rules use."""
    return [_columns_of(spark, rule) for rule in rules]


def _columns_of(spark: SparkSession, rule: TransformRule) -> frozenset[Column]:
    used = {
        name[0].lower()
        for _, text in rule.expressions
        for name in names_in(spark, with_secrets(text))
    }
    return frozenset(column for column in COLUMNS if column in used)


def with_results(rows: DataFrame, flow: Flow) -> DataFrame:
    """The rows' results.

    Args:
        rows: as ``relay.ROWS`` says, without columns that no expression uses.
        flow: the flow whose rules they are for.

    Raises:
        ConfigError: as ``checked_rules``.
    """
    from pyspark.sql import functions as sf

    raw = rows.select(*(sf.col(name).alias(_RAW + name) for name in rows.columns))
    found = raw.withColumn(_RESULT, sf.lit(None).cast(_RESULT_TYPE))
    for number, rule in enumerate(flow.transform):
        found = _Rule(flow, number, rule).applied(found)
    result = sf.col(_RESULT)
    return found.select(
        sf.col(f"{_RAW}rule").alias("rule"),
        result.keep.alias("keep"),
        result.failed.alias("failed"),
        result.results.alias("results"),
        sf.col(f"{_RAW}filler").alias("filler"),
    )


class _Rule:
    """One rule on its way into the plan."""

    def __init__(self, flow: Flow, number: int, rule: TransformRule) -> None:
        self._flow, self._number, self._rule = flow, number, rule

    def applied(self, rows: DataFrame) -> DataFrame:
        """The rows, of which those of this rule have results."""
        from pyspark.sql import functions as sf

        raw = rows.columns
        is_own = sf.col(f"{_RAW}rule") == self._number
        reads = dict(self._reads(rows.sparkSession))
        seen = rows.select(
            "*", *(sf.when(is_own, column).alias(f"_read_{part}") for part, column in reads.items())
        )
        seen = seen.select("*", *self._columns(raw, reads.keys()))
        steps: list[SparkColumn] = [
            sf.col(_RAW + part).isNotNull() & sf.col(f"_read_{part}").isNull() for part in reads
        ]
        # A step that reads nothing cannot fail, and keeps its number.
        places = [place for place, part in enumerate(self._formatted) if part in reads]
        is_kept = is_own
        for place, (what, text) in enumerate(self._rule.expressions):
            expression = self._checked(seen, what, text)
            is_where = what == "where"
            name = f"_step_{place}"
            seen = seen.withColumn(name, sf.when(is_kept, attempted(rows.sparkSession, expression)))
            steps.append(is_kept & sf.col(name).isNull())
            places.append(len(self._formatted) + place)
            if is_where:
                is_kept = is_own & sf.coalesce(sf.col(f"{name}.it"), sf.lit(False))
        failed = sf.coalesce(
            *(sf.when(is_failed, place) for is_failed, place in zip(steps, places, strict=True)),
            sf.lit(-1),
        )
        first = 1 if self._rule.where else 0
        sets = [sf.col(f"_step_{place}.it") for place in range(first, first + len(self._rule.set))]
        results = sf.array(*sets) if sets else sf.lit(None)
        result = sf.struct(
            is_kept.alias("keep"), failed.alias("failed"), results.alias("results")
        ).cast(_RESULT_TYPE)
        kept = sf.when(is_own, result).otherwise(sf.col(_RESULT)).alias(_RESULT)
        return seen.select(*(name for name in raw if name != _RESULT), kept)

    @property
    def _formatted(self) -> list[Literal["key", "value"]]:
        return [part for part in PARTS if self._rule.format_of(part) != "bytes"]

    def _reads(self, spark: SparkSession) -> Iterator[tuple[str, SparkColumn]]:
        """How the parts are read that have a format, as far as expressions use them."""
        from pyspark.sql import functions as sf

        for part in self._formatted:
            text = sf.col(_RAW + part).cast("string")
            if self._rule.format_of(part) == "string":
                yield part, attempted(spark, sf.validate_utf8(text))
                continue
            # FieldFormat.as_json has seen to it that it is UTF-8, many times as fast.
            if schema := self._json_schema(spark, part):
                yield part, attempted(spark, sf.from_json(text, schema, {"mode": "FAILFAST"}))

    def _columns(self, raw: Iterable[str], read: Iterable[str]) -> Iterator[SparkColumn]:
        """What expressions see, by the names that they use."""
        from pyspark.sql import functions as sf

        for column in COLUMNS:
            if column in read:
                yield sf.col(f"_read_{column}.it").alias(column)
            elif _RAW + column in raw:
                yield sf.col(_RAW + column).alias(column)

    def _json_schema(self, spark: SparkSession, part: str) -> Any:
        """The type of a key or value in JSON: the fields that expressions name, None if they name none."""
        fields: dict[tuple[str, ...], str] = {}
        for _, text in self._rule.expressions:
            for name in names_in(spark, with_secrets(text)):
                if name[0].lower() == part and len(name) > 1:
                    fields[tuple(name[1:])] = "string"
        types = {
            path.names: type_
            for path, type_ in ((read_path(text), type_) for text, type_ in self._rule.types)
            if path.part == part
        }
        for names, type_ in types.items():
            within = [it for it in fields if it[: len(names)] == names]
            if names in within or not all(it in types for it in within):
                fields = {it: fields[it] for it in fields if it not in within} | {names: type_}
        try:
            return json_type(fields) if fields else None
        except ValueError as error:
            raise self._wrong("types", str(error)) from None

    def _checked(self, seen: DataFrame, what: str, text: str) -> SparkColumn:
        """An expression as what it becomes in a record: a truth value, bytes or a JSON text."""
        from pyspark.errors import AnalysisException, ParseException
        from pyspark.sql import functions as sf

        try:
            found = checked(seen, with_secrets(text))
        except (AnalysisException, ParseException) as error:
            raise self._wrong(what, _first_line(error)) from None
        except ValueError as error:
            raise self._wrong(what, str(error)) from None
        if what == "where":
            if found.type_name != "boolean":
                raise self._wrong(what, f"gives {found.type_name} where it must give true or false")
            return found.column
        path = read_path(what.removeprefix("set "))
        if path.part != "headers" and path.names:
            alone = sf.struct(found.column.alias(WRAPPED))
            options = {"ignoreNullFields": "false"}
            if self._rule.format_of(path.part) == "protobuf":
                options["timestampFormat"] = _MICROSECONDS
            return sf.to_json(alone, options).cast("binary")
        if found.is_nested:
            raise self._wrong(what, f"gives {found.type_name}: use to_json, or cast it to text")
        if found.type_name == "binary":
            return found.column
        return found.column.cast("string").cast("binary")

    def _wrong(self, what: str, reason: str) -> ConfigError:
        topics = ", ".join(self._rule.topics)
        return ConfigError(
            self._flow.file, f"transform, rule {self._number + 1} ({topics}), {what}", reason
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _spark_schema() -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(ROWS)
