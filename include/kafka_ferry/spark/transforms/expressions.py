"""Single SQL expressions, by Spark's own parser and analyzer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.batches.rule_counts import RuleVerb
from kafka_ferry.config.options.transform import PARTS, with_secrets
from kafka_ferry.config.types.record_path import RecordPath
from kafka_ferry.spark.transforms.like_patterns import lists_patterns, with_single_searches
from kafka_ferry.spark.transforms.repeatable import (
    flattens_arrays,
    names_class,
    names_schema_file,
    not_repeatable,
    reads_variant,
    unknown_function,
)
from kafka_ferry.spark.transforms.slow_texts import reads_slow_text, without_slow_texts
from kafka_ferry.spark.transforms.trees import Node, Tree

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NESTED: Final = frozenset({"array", "map", "struct", "variant"})
# What the plan of a plain expression over rows consists of.
_PLAIN: Final = "Project"
_NAMES: Final = ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable")
_EXTRACTION: Final = "UnresolvedExtractValue"
# What is made for a field that may be missing.
_SEEKING: Final = frozenset({"IsNull", "IsNotNull", "EqualNullSafe"})
_SEEKING_FUNCTIONS: Final = frozenset(
    {"coalesce", "ifnull", "isnotnull", "isnull", "nvl", "nvl2", "equal_null"}
)

# A tree's JSON has twice what is in one of these: of twenty within each other, a million times.
_MOST_NESTED: Final = 12
_MOST_NODES: Final = 100_000
# What Spark, or a check of ours, replaces by what has an argument twice, or at most as often as there are arguments.
_REPEATING: Final = frozenset(
    {
        *("between", "decode", "nullif", "nullifzero"),
        *("from_csv", "from_xml", "to_number", "try_to_number"),
    }
)
_TOO_LARGE: Final = (
    f"stands for more than {_MOST_NODES:,} parts, since CASE with a value, LIKE ANY, BETWEEN, decode(), nullif(), "
    "to_number() and others stand for what has a value several times: nest fewer of them"
)
_NOT_PLAIN: Final = (
    "must be an expression over one record, without aggregates, windows, generators and subqueries"
)
_AGAIN: Final = ": a run that is tried again must give the same records"


class ParsedExpression:
    """An expression as Spark's parser reads it.

    Args:
        spark: the session.
        text: the expression.

    Attributes:
        uses_secrets: whether it has ``secret('name')``.

    Raises:
        ParseException: it is no expression.
        ValueError: Spark's analyzer would read a file or an address, or may.
    """

    def __init__(self, spark: SparkSession, text: str) -> None:
        self.text = with_secrets(text)
        self.uses_secrets = self.text != text
        parser: Any = spark._jsparkSession.sessionState().sqlParser()
        self.tree = Tree(parser.parseExpression(self.text))
        _check_nesting(_jvm(spark), self.tree.root)
        _check_repetition(self.tree)
        # Before the analyzer sees it, which reads the files and addresses of tables.
        patterns = _jvm(spark).org.apache.spark.sql.catalyst.trees.TreePattern
        if self.tree.root.containsPattern(patterns.PLAN_EXPRESSION()):
            raise ValueError(_NOT_PLAIN)
        if any(node.kind == "ExpressionWithUnresolvedIdentifier" for node in self.tree.nodes):
            raise ValueError("uses identifier(): name what it stands for")
        if problem := unknown_function(self.tree):
            raise ValueError(f"{problem}{_AGAIN}")
        if names_class(self.tree):
            raise ValueError(
                "has a schema that is no text of DDL: write it as 'name type, ...', or use schema_of_json"
            )
        if flattens_arrays(self.tree):
            raise ValueError(
                "may have a path with [*][*], which ends Spark where arrays are nested deep: write the path as a "
                "literal, with one [*] in a row"
            )
        if names_schema_file(self.tree):
            raise ValueError(
                "may name a schema of XML by its path: write the options as map('name', 'value'), without "
                "rowValidationXSDPath"
            )

    @property
    def has_star(self) -> bool:
        """Whether it has a ``*`` that stands for columns or fields."""
        return any(node.kind.startswith("UnresolvedStar") for node in self.tree.nodes)

    @property
    def names(self) -> Iterator[tuple[str, ...]]:
        """The columns and fields that it names, each by its parts; not what a lambda calls its arguments."""
        yield from (name for _, name in self._names())

    @property
    def reads(self) -> Iterator[tuple[RecordPath, RuleVerb]]:
        """The fields of keys and values and the headers that it reads by name, or asks for."""
        for node, (part, *names) in self._names():
            path = None
            if part.lower() in PARTS and names:
                path = RecordPath("key" if part.lower() == "key" else "value", tuple(names))
            elif part.lower() == "headers" and (header := names or self._key(node)):
                path = RecordPath("headers", (header[0],))
            if path:
                yield path, "sought" if self._is_sought(node) else "read"

    def _key(self, node: Node) -> list[str]:
        """The name by which a map is read at a node, none where it is not a literal."""
        above = self.tree.parent(node)
        key = self.tree.child(above, 1) if above and above.kind == _EXTRACTION else None
        is_text = key is not None and key.fields.get("dataType") == "string"
        return [str(key.fields["value"])] if key and is_text else []

    def _is_sought(self, node: Node) -> bool:
        """Whether an expression makes sense for records without what a node names."""
        above = self.tree.parent(node)
        while above and above.kind == _EXTRACTION:
            above = self.tree.parent(above)
        return above is not None and (
            above.kind in _SEEKING or (above.names[-1].lower() in _SEEKING_FUNCTIONS)
        )

    def _names(self) -> Iterator[tuple[Node, tuple[str, ...]]]:
        """What it names, each with the node that does."""
        own = {argument.names[0].lower() for argument in self.tree.nodes if _is_argument(argument)}
        for node in self.tree.nodes:
            if node.kind not in _NAMES:
                continue
            parts = self.tree.at(node).nameParts()
            name = tuple(str(parts.apply(at)) for at in range(parts.size()))
            if node.kind == _NAMES[0] or name[0].lower() not in own:
                yield node, name


def _check_nesting(jvm: Any, root: Any) -> None:
    """Check how large an expression is, and how deep ``CASE``, and functions that Spark replaces by others, are within
    each other.

    Raises:
        ValueError: to look at the expression would take hours.
    """
    # By its number, Spark looks no further than the node.
    if root.apply(_MOST_NODES) is not None:
        raise ValueError(_TOO_LARGE)
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    twice = patterns.CASE_WHEN(), patterns.RUNTIME_REPLACEABLE()
    waiting, nodes = [(root, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        if not any(map(node.containsPattern, twice)):
            continue
        depth += any(map(node.nodePatterns().contains, twice))
        if depth > _MOST_NESTED:
            raise ValueError(
                f"has more than {_MOST_NESTED} CASE, or functions such as nvl(), within each other: give one CASE "
                "several WHEN, or use if() or coalesce()"
            )
        nodes += 2**depth
        if nodes > _MOST_NODES:
            raise ValueError(_TOO_LARGE)
        children = node.children()
        waiting += ((children.apply(place), depth) for place in range(children.size()))


def _check_repetition(tree: Tree) -> None:
    """Check how large a parsed expression becomes when functions are replaced by what has an argument several times.

    Raises:
        ValueError: so large that to look at it would take hours.
    """
    times: dict[tuple[int, ...], int] = {(): 1}
    nodes = 0
    for node in tree.nodes:
        nodes += times[node.path]
        if nodes > _MOST_NODES:
            raise ValueError(_TOO_LARGE)
        count = int(node.fields["num-children"])
        is_repeating = node.names[-1].lower() in _REPEATING
        within = times[node.path] * (max(count, 2) if is_repeating else 1)
        times |= {(*node.path, place): within for place in range(count)}


def _is_argument(node: Node) -> bool:
    """Whether it is an argument's name: a lambda's first child is what it does."""
    return node.parent == "LambdaFunction" and node.path[-1] > 0


@dataclass(frozen=True)
class ResolvedExpression:
    """An expression over the columns of rows.

    Attributes:
        column: the expression, also over rows that have more columns than those.
        type_name: its type's name.
        is_nested: whether that holds others.
        tree: it as Catalyst has it.
        plan: Catalyst's plan of it and those that were resolved with it.
        place: its place in that.
    """

    column: Column
    type_name: str
    is_nested: bool
    tree: Any
    plan: Any
    place: int

    def plain(self, spark: SparkSession) -> Tree:
        """The expression without others that Spark replaces before it evaluates it."""
        rule = _jvm(spark).org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions
        return Tree(rule.apply(self.plan).expressions().apply(self.place))


def resolve(
    rows: DataFrame, expressions: Sequence[ParsedExpression]
) -> Iterator[ResolvedExpression]:
    """The expressions over ``rows``, by one call of Spark's analyzer.

    Their columns are those of ``rows`` for ever, whichever others have the same names later.

    Raises:
        AnalysisException: one names what is not there, or the types do not fit.
        ValueError: one is not over one record.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as sf

    if any(expression.uses_secrets and expression.has_star for expression in expressions):
        raise ValueError("uses * beside secret(): name the columns")
    selected = rows.select(*(sf.expr(expression.text) for expression in expressions))
    plan, rows_plan = (frame._jdf.queryExecution().analyzed() for frame in (selected, rows))
    jvm = _jvm(rows.sparkSession)
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    is_plain = plan.nodeName() == _PLAIN and plan.children().apply(0).sameResult(rows_plan)
    if not is_plain or plan.containsPattern(patterns.PLAN_EXPRESSION()):
        raise ValueError(_NOT_PLAIN)
    if plan.expressions().size() > len(expressions):
        raise ValueError("must be one expression: use struct(*)")
    made = [plan.expressions().apply(place) for place in range(len(expressions))]
    for tree in made:
        _check_nesting(jvm, tree)
    near = [without_slow_texts(jvm, with_single_searches(jvm, tree)) for tree in made]
    to_column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
    if any(one is not other for one, other in zip(made, near, strict=True)):
        plan = rows.select(*map(Column, map(to_column, near)))._jdf.queryExecution().analyzed()
    for place, field in enumerate(selected.schema):
        tree = plan.expressions().apply(place)
        if tree.getClass().getSimpleName() == "Alias":
            tree = tree.child()
        column = Column(to_column(tree))
        type_ = field.dataType.typeName()
        yield ResolvedExpression(column, type_, type_ in _NESTED, tree, plan, place)


def repeatable(
    spark: SparkSession, expression: ParsedExpression, resolved: ResolvedExpression
) -> Tree:
    """An expression that gives the same for the same record every time, as it is evaluated.

    Raises:
        ValueError: it may give something else the next time, or take any time.
    """
    patterns = _jvm(spark).org.apache.spark.sql.catalyst.trees.TreePattern
    if not resolved.tree.deterministic() or resolved.tree.containsPattern(patterns.CURRENT_LIKE()):
        raise ValueError(f"depends on chance, the time, the user or the session{_AGAIN}")
    plain = resolved.plain(spark)
    if problem := reads_slow_text(plain) or lists_patterns(plain) or reads_variant(plain):
        raise ValueError(problem)
    if problem := not_repeatable(expression.text, expression.tree, plain):
        raise ValueError(f"{problem}{_AGAIN}")
    return plain


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def attempt(spark: SparkSession, column: Column) -> Column:
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


def json_type(fields: Mapping[tuple[str, ...], str]) -> Any:
    """The struct type with these fields.

    Args:
        fields: Spark's types by the names on the way to each.

    Raises:
        ValueError: a field has a type and fields of its own, or a type is none of Spark's.
    """
    from pyspark.sql.types import StructField, StructType

    tree: dict[str, dict[tuple[str, ...], str]] = {}
    for names, type_ in fields.items():
        tree.setdefault(names[0], {})[names[1:]] = type_
    struct_fields = []
    for name, below in tree.items():
        if () in below and len(below) > 1:
            raise ValueError(f"{name} is named as a whole and by its fields")
        type_of = _read_type(below[()]) if () in below else json_type(below)
        struct_fields.append(StructField(name, type_of))
    return StructType(struct_fields)


def _read_type(text: str) -> Any:
    """A type as SQL has it; raises ``ValueError`` if it is none of Spark's, or none for a text's field."""
    from pyspark.errors import ParseException
    from pyspark.sql.types import CalendarIntervalType, CharType, DataType, VarcharType, VariantType

    try:
        type_ = DataType.fromDDL(text)
    except ParseException:
        raise ValueError(f"{text!r} is not a type of Spark SQL") from None
    for part in _types_in(type_):
        # Those of days or of months read only what is quick.
        if isinstance(part, CalendarIntervalType):
            raise ValueError("has an interval, which may take hours: read text, and use cast")
        if isinstance(part, VariantType):
            raise ValueError("has a variant, which ends Spark where it is nested deep: read text")
        if isinstance(part, CharType | VarcharType):
            raise ValueError(f"{text!r} is for columns of tables: write string")
    return type_


def _types_in(type_: Any) -> Iterator[Any]:
    """A type, and those of its elements, keys, values and fields."""
    yield type_
    inner = (getattr(type_, name, None) for name in ("elementType", "keyType", "valueType"))
    fields = (field.dataType for field in getattr(type_, "fields", ()))
    for part in chain(filter(None, inner), fields):
        yield from _types_in(part)
