"""Single SQL expressions, by Spark's own parser and analyzer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NESTED: Final = frozenset({"array", "map", "struct", "variant"})
# What the plan of a plain expression over rows consists of.
_PLAIN: Final = "Project"


@dataclass(frozen=True)
class CheckedExpression:
    """An expression over one record that gives the same for it every time.

    Attributes:
        column: the expression.
        type_name: its type's name.
        is_nested: whether that holds others.
    """

    column: Column
    type_name: str
    is_nested: bool


def checked(rows: DataFrame, text: str) -> CheckedExpression:
    """The expression over ``rows``.

    Raises:
        AnalysisException: it names what is not there, or the types do not fit.
        ParseException: it is no expression.
        ValueError: it is not over one record, or may give something else the next time.
    """
    from pyspark.sql import functions as sf

    column = sf.expr(text)
    found = rows.select(column)
    plan, given = (frame._jdf.queryExecution().analyzed() for frame in (found, rows))
    patterns = _jvm(rows.sparkSession).org.apache.spark.sql.catalyst.trees.TreePattern
    is_plain = plan.nodeName() == _PLAIN and plan.children().apply(0).sameResult(given)
    expression = plan.expressions().apply(0)
    if not is_plain or expression.containsPattern(patterns.PLAN_EXPRESSION()):
        raise ValueError(
            "must be an expression over one record, without aggregates, windows, generators and subqueries"
        )
    if not expression.deterministic() or expression.containsPattern(patterns.CURRENT_LIKE()):
        raise ValueError(
            "depends on chance, the time, the user or the session: a run that is tried again must give the "
            "same records"
        )
    type_ = found.schema[0].dataType.typeName()
    return CheckedExpression(column, type_, type_ in _NESTED)


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def attempted(spark: SparkSession, column: Column) -> Column:
    """A struct with the column as ``it``, or null where evaluating it fails.

    Spark SQL has no such function for any expression; Catalyst has (``TryEval``).
    """
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import functions as sf

    jvm = _jvm(spark)
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    whole = expressions.expression(sf.struct(column.alias("it"))._jc)
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(whole)
    return SparkColumn(expressions.column(tried))


def names_in(spark: SparkSession, text: str) -> Iterator[tuple[str, ...]]:
    """The columns and fields that an expression names, each by its parts.

    Raises:
        ParseException: it is no expression.
    """
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
    leaves = parsed.collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.getClass().getSimpleName() == "UnresolvedAttribute":
            parts = leaf.nameParts()
            yield tuple(parts.apply(at) for at in range(parts.size()))


def json_type(fields: Mapping[tuple[str, ...], str]) -> Any:
    """The struct type with these fields.

    Args:
        fields: Spark's types by the names on the way to each.

    Raises:
        ValueError: a field has a type and fields of its own, or a type is none of Spark's.
    """
    from pyspark.errors import ParseException
    from pyspark.sql.types import DataType, StructField, StructType

    tree: dict[str, dict[tuple[str, ...], str]] = {}
    for names, type_ in fields.items():
        tree.setdefault(names[0], {})[names[1:]] = type_
    found = []
    for name, below in tree.items():
        if () in below and len(below) > 1:
            raise ValueError(f"{name} is named as a whole and by its fields")
        try:
            type_of = DataType.fromDDL(below[()]) if () in below else json_type(below)
        except ParseException:
            raise ValueError(f"{below[()]!r} is not a type of Spark SQL") from None
        found.append(StructField(name, type_of))
    return StructType(found)
