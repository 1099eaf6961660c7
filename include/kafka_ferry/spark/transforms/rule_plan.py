"""One rule's expressions as a part of a Spark plan, and the errors in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_ferry.batches.rule_counts import RuleUse
from kafka_ferry.config.doubts import TRANSFORM
from kafka_ferry.config.files.load import line_of
from kafka_ferry.config.options.transform import PARTS, SECRETS_COLUMN
from kafka_ferry.config.types.record_path import RecordPath, read_path
from kafka_ferry.errors import ConfigError
from kafka_ferry.spark.transforms.expressions import (
    ParsedExpression,
    ResolvedExpression,
    attempt,
    json_type,
    repeatable,
    resolve,
)
from kafka_ferry.spark.transforms.regular_expressions import (
    DeepSearch,
    deep_searches,
    overflow_trial,
    parts_of,
)
from kafka_ferry.transform import MOST_READS, WRAPPED
from kafka_ferry.transform.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from kafka_ferry.batches.rule_counts import RuleVerb
    from kafka_ferry.config import Flow
    from kafka_ferry.transform import Column

RAW: Final = "_raw_"
"""What the names of rows' columns begin with in a plan, where no expression can name them."""
RESULT: Final = "_result"
"""The column of what became of a record."""
RESULT_TYPE: Final = "struct<keep boolean, failed int, results array<binary>, seen bigint>"

# Without it, to_json writes milliseconds.
_TOO_DEEP: Final = "is nested too deep for Spark to read"
_MICROSECONDS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
# Without these, a text that is only a time is a timestamp of today.
_TIMESTAMPS: Final = {
    "timestampFormat": "yyyy-MM-dd[['T'][' ']HH:mm[:ss[.SSSSSSSSS]][XXX]]",
    "enableDateTimeParsingFallback": "false",
}
# By the beginning of Spark's condition.
_ADVICE: Final = {
    # A field of what has none, as bytes.
    "INVALID_EXTRACT_BASE_FIELD_TYPE": "A key or value has fields by the rule's format alone, such as format: "
    "{value: json}.",
    "UNRESOLVED_COLUMN": "If a field is meant, name it with its part, such as value.email; if a text, put it in single "
    "quotes within the expression, such as \"'masked'\".",
    "INVALID_USAGE_OF_STAR_OR_REGEX": "If a text is meant, put it in single quotes within the expression, such as "
    "\"'***'\".",
}


class RulePlan:
    """One rule, as a part of the Spark plan.

    Its expressions are resolved against the documented columns alone. The plan has internal columns too, which no
    expression can name.
    """

    def __init__(self, spark: SparkSession, flow: Flow, number: int) -> None:
        self._spark, self._flow, self._number = spark, flow, number
        self._rule = flow.transform[number]
        self._expressions = [
            (what, self._parse(what, text)) for what, text in self._rule.expressions
        ]
        self._searches: dict[str, list[DeepSearch]] = {}

    def checked_columns(self, rows: DataFrame) -> frozenset[Column]:
        """The columns that its expressions use, each of which is checked.

        Args:
            rows: rows by our own names, with all columns.

        Raises:
            ConfigError: as ``RulesQuery``.
        """
        with self._wrong_in("types"):
            visible = self._visible(self._with_inputs(rows, dict(self._reads(PARTS))))
        used: set[str] = set()
        for what, expression in self._expressions:
            with self._wrong_in(what):
                resolved = self._resolve(visible, [what])[what]
                self._became(what, resolved)
                tree = repeatable(self._spark, expression, resolved)
                self._searches[what] = list(deep_searches(self._spark, tree))
            used |= {
                str(node.fields["name"]) for node in tree.nodes if node.kind == "AttributeReference"
            }
            # Those that nothing comes of have to be there too.
            used |= {name[0].lower() for name in expression.names}
        used = {"secrets" if name == SECRETS_COLUMN else name for name in used}
        return frozenset(column for column in COLUMNS if column in used)

    @property
    def reads(self) -> list[RuleUse]:
        """What its expressions read by name."""
        return [RuleUse(verb, str(path)) for path, verb in self._paths.items()]

    @cached_property
    def _paths(self) -> dict[RecordPath, RuleVerb]:
        """The same as paths, at most ``MOST_READS``; what one expression needs, none merely asks for."""
        reads = [read for _, expression in self._expressions for read in expression.reads]
        # "read" comes before "sought", and so the latter is put over it first.
        ordered = sorted(reads, key=itemgetter(1), reverse=True)
        return dict(list(dict(ordered).items())[:MOST_READS])

    def apply(self, rows: DataFrame, columns: frozenset[Column]) -> DataFrame:
        """The rows; those of this rule have results.

        Args:
            rows: rows by our own names.
            columns: the columns that its expressions use; of formats, only they are read.
        """
        from pyspark.sql import functions as sf

        is_own = sf.col(f"{RAW}rule") == self._number
        reads = dict(self._reads([part for part in PARTS if part in columns]))
        extended = self._with_inputs(
            rows, {part: sf.when(is_own, column) for part, column in reads.items()}
        )
        steps: list[SparkColumn] = [
            sf.col(RAW + part).isNotNull() & sf.col(f"_read_{part}").isNull() for part in reads
        ]
        # A step that reads nothing cannot fail, and keeps its number.
        places = [place for place, part in enumerate(self._parts_with_format) if part in reads]
        resolved = self._resolve(self._visible(extended), dict(self._expressions))
        extended = extended.select("*", *self._deep_parts(resolved, is_own))
        tried = [
            sf.when(
                self._is_shallow(what), attempt(self._spark, self._became(what, resolved[what]))
            )
            for what, _ in self._expressions
        ]
        is_kept = is_own
        if self._rule.where:
            extended = extended.withColumn("_where", sf.when(is_own, tried.pop(0)))
            steps.append(is_own & sf.col("_where").isNull())
            is_kept = is_own & sf.coalesce(sf.col("_where.it"), sf.lit(False))
        names = [f"_set_{place}" for place in range(len(tried))]
        sets = (
            sf.when(is_kept, column).alias(name) for column, name in zip(tried, names, strict=True)
        )
        extended = extended.select("*", *sets)
        steps += [is_kept & sf.col(name).isNull() for name in names]
        places += range(len(self._parts_with_format), len(self._rule.steps))
        failed = sf.coalesce(
            *(sf.when(is_failed, place) for is_failed, place in zip(steps, places, strict=True)),
            sf.lit(-1),
        )
        result_columns = [sf.col(f"{name}.it") for name in names]
        results = sf.array(*result_columns) if result_columns else sf.lit(None)
        result = sf.struct(
            is_kept.alias("keep"),
            failed.alias("failed"),
            results.alias("results"),
            self._seen_reads(reads).alias("seen"),
        ).cast(RESULT_TYPE)
        kept = sf.when(is_own, result).otherwise(sf.col(RESULT)).alias(RESULT)
        return extended.select(*(name for name in rows.columns if name != RESULT), kept)

    def _seen_reads(self, formats: Collection[str]) -> SparkColumn:
        """Which of ``reads`` a record has, a bit each; null where expressions read nothing by name.

        Args:
            formats: the parts that are read by their formats.
        """
        from pyspark.sql import functions as sf

        bits = sf.lit(0 if self._paths else None).cast("bigint")
        for place, path in enumerate(self._paths):
            if path.part == "headers":
                is_there = sf.map_contains_key(sf.col(f"{RAW}headers"), path.names[0])
            elif path.part in formats:
                within = sf.col(f"_read_{path.part}.it")
                for name in path.names:
                    within = within.getField(name)
                is_there = within.isNotNull()
            else:
                continue
            bit = sf.when(is_there, sf.lit(1 << place)).otherwise(0).cast("bigint")
            bits = bits.bitwiseOR(bit)
        return bits

    def _with_inputs(self, rows: DataFrame, reads: Mapping[str, SparkColumn]) -> DataFrame:
        """The rows with what expressions see beside what they do not."""
        read = rows.select("*", *(column.alias(f"_read_{part}") for part, column in reads.items()))
        return read.select("*", *self._columns(rows.columns, reads))

    def _deep_parts(
        self, resolved: Mapping[str, ResolvedExpression], is_own: SparkColumn
    ) -> Iterator[SparkColumn]:
        """What the expressions search that may overflow; null where that cannot be evaluated."""
        from pyspark.sql import functions as sf

        for place, (what, _) in enumerate(self._expressions):
            searches = self._searches[what]
            if not searches:
                continue
            tree = resolved[what].plain(self._spark)
            for number, search in enumerate(searches):
                parts = attempt(self._spark, parts_of(self._spark, tree, search))
                yield sf.when(is_own, parts).alias(f"_search_{place}_{number}")

    def _is_shallow(self, what: str) -> SparkColumn:
        """Whether no search of an expression overflows."""
        from pyspark.sql import functions as sf

        place = [name for name, _ in self._expressions].index(what)
        is_shallow = sf.lit(True)
        for number in range(len(self._searches[what])):
            is_long, trial = overflow_trial(f"_search_{place}_{number}.it")
            passes = attempt(self._spark, trial).isNotNull()
            is_shallow = is_shallow & sf.when(is_long, passes).otherwise(True)
        return is_shallow

    def _visible(self, rows: DataFrame) -> Mapping[bool, DataFrame]:
        """What expressions without secrets see, and those with them."""
        names = [name for name in rows.columns if name in COLUMNS]
        more = {False: (), True: (f"`{SECRETS_COLUMN}`",)}
        variants = {expression.uses_secrets for _, expression in self._expressions}
        return {uses_secrets: rows.select(*names, *more[uses_secrets]) for uses_secrets in variants}

    def _resolve(
        self, visible: Mapping[bool, DataFrame], which: Collection[str]
    ) -> dict[str, ResolvedExpression]:
        """The expressions that are for ``which``."""
        resolved: dict[str, ResolvedExpression] = {}
        for uses_secrets, rows in visible.items():
            chosen = {
                what: expression
                for what, expression in self._expressions
                if expression.uses_secrets == uses_secrets and what in which
            }
            if chosen:
                resolved |= zip(chosen, resolve(rows, list(chosen.values())), strict=True)
        return resolved

    def _parse(self, what: str, text: str) -> ParsedExpression:
        with self._wrong_in(what):
            return ParsedExpression(self._spark, text)

    @property
    def _parts_with_format(self) -> list[Literal["key", "value"]]:
        return [part for part in PARTS if self._rule.format_of(part) != "bytes"]

    def _reads(self, parts: Collection[str]) -> Iterator[tuple[str, SparkColumn]]:
        """How those of ``parts`` are read that have a format, as far as expressions use them."""
        from pyspark.sql import functions as sf

        for part in self._parts_with_format:
            if part not in parts:
                continue
            text = sf.col(RAW + part).cast("string")
            if self._rule.format_of(part) == "string":
                yield part, attempt(self._spark, sf.validate_utf8(text))
                continue
            options = {"mode": "FAILFAST", **_TIMESTAMPS}
            # FieldFormat.as_json has seen to it that it is UTF-8, many times as fast.
            if schema := self._json_schema(part):
                yield part, attempt(self._spark, sf.from_json(text, schema, options))

    def _columns(self, raw: Iterable[str], read: Iterable[str]) -> Iterator[SparkColumn]:
        """What expressions see, by the names that they use."""
        from pyspark.sql import functions as sf

        for column in COLUMNS:
            name = SECRETS_COLUMN if column == "secrets" else column
            if column in read:
                yield sf.col(f"_read_{column}.it").alias(name)
            elif RAW + column in raw:
                yield sf.col(RAW + column).alias(name)

    def _json_schema(self, part: str) -> Any:
        """The type of a key or value in JSON: the fields that expressions name, None if they name none."""
        fields: dict[tuple[str, ...], str] = {}
        for _, expression in self._expressions:
            for name in expression.names:
                if name[0].lower() == part and len(name) > 1:
                    fields[tuple(name[1:])] = "string"
        types = {
            path.names: type_
            for path, type_ in ((read_path(text), type_) for text, type_ in self._rule.types)
            if path.part == part
        }
        for names, type_ in types.items():
            within = [field for field in fields if field[: len(names)] == names]
            if names in within or not all(field in types for field in within):
                fields = {field: fields[field] for field in fields if field not in within} | {
                    names: type_
                }
        try:
            return json_type(fields) if fields else None
        except ValueError as error:
            raise self._wrong("types", str(error)) from None

    def _became(self, what: str, resolved: ResolvedExpression) -> SparkColumn:
        """An expression as what it becomes in a record: a truth value, bytes or a JSON text."""
        from pyspark.sql import functions as sf

        if what == "where":
            if resolved.type_name != "boolean":
                raise self._wrong(
                    what, f"gives {resolved.type_name} where it must give true or false"
                )
            return resolved.column
        path = read_path(what.removeprefix("set "))
        if path.part != "headers" and path.names:
            alone = sf.struct(resolved.column.alias(WRAPPED))
            options = {"ignoreNullFields": "false"}
            if self._rule.format_of(path.part) == "protobuf":
                options["timestampFormat"] = _MICROSECONDS
            return sf.to_json(alone, options).cast("binary")
        if resolved.is_nested:
            raise self._wrong(what, f"gives {resolved.type_name}: use to_json, or cast it to text")
        if resolved.type_name == "binary":
            return resolved.column
        return resolved.column.cast("string").cast("binary")

    @contextmanager
    def _wrong_in(self, what: str) -> Iterator[None]:
        """Raise what is wrong with an expression as a ``ConfigError``."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from kafka_ferry.spark.spark_errors import reason_of

        try:
            yield
        except RecursionError:
            raise self._wrong(what, _TOO_DEEP) from None
        except Py4JJavaError as error:
            is_deep = "StackOverflowError" in str(error.java_exception.getClass().getName())
            why = _TOO_DEEP if is_deep else f"makes no sense to Spark: {reason_of(error)}"
            raise self._wrong(what, why) from None
        except PySparkException as error:
            condition = str(error.getCondition())
            advice = next((text for of, text in _ADVICE.items() if condition.startswith(of)), "")
            raise self._wrong(what, _first_line(error), advice) from None
        except ValueError as error:
            raise self._wrong(what, str(error)) from None

    def _wrong(self, what: str, reason: str, advice: str = "") -> ConfigError:
        topics = ", ".join(self._rule.topics)
        key = f"{TRANSFORM}, rule {self._number + 1} ({topics}), {what}"
        place = f"{TRANSFORM}.{self._number}.{what.replace(' ', '.', 1)}"
        line = line_of(self._flow, place)
        return ConfigError(self._flow.file, key, reason, advice=advice, line=line)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip("; ")
