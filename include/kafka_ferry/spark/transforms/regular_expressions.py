"""Regular expressions in rules: those that are none are refused, and a record on which one overflows is found first.

Java's ``Pattern`` goes one step deeper into the stack for each repetition of a group. Where the stack ends, it throws
an ``Error``, which ``TryEval`` does not catch, and which ends the whole JVM. Java's reflection makes an exception of
it: so texts that may be too long are searched once before, by reflection. Possessive groups do not go deeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.spark.transforms.trees import Node, Tree

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_TEXT: Final = 0
_PATTERNS: Final = {
    "RLike": (1,),
    "RegExpReplace": (1,),
    "RegExpExtract": (1,),
    "RegExpExtractAll": (1,),
    "RegExpInStr": (1,),
    "StringSplit": (1,),
    "StringToMap": (1, 2),
}
# A group that is repeated and may give back what it has taken; and what is as many characters as it likes.
_DEEP: Final = re.compile(r"\)(?:[*+]|\{\d+,\d*\})(?!\+)|\\[RX]")
_SHORT_TEXT: Final = 200
_SEARCH: Final = ("org.apache.commons.lang3.RegExUtils", "removeAll")


@dataclass(frozen=True)
class DeepSearch:
    """A search that goes deeper into the stack the longer its text is.

    Attributes:
        text: the place of the text in the tree of its expression.
        pattern: the place of the regular expression.
    """

    text: Node
    pattern: Node


def deep_searches(spark: SparkSession, tree: Tree) -> Iterator[DeepSearch]:
    """The deep searches of an expression.

    Raises:
        ValueError: a regular expression is none, or a deep search is within a lambda, where it cannot be tried before.
    """
    from pyspark.errors import IllegalArgumentException

    jvm: Any = spark.sparkContext._jvm
    for node in tree.nodes:
        for place in _PATTERNS.get(node.kind, ()):
            text, pattern = tree.child(node, _TEXT), tree.child(node, place)
            assert text is not None
            assert pattern is not None
            written = _constant_pattern(tree, pattern)
            if written is not None:
                try:
                    jvm.java.util.regex.Pattern.compile(written)
                except IllegalArgumentException as error:
                    why, *_ = str(error).strip().splitlines()
                    raise ValueError(f"{written!r} is no regular expression: {why}") from None
                if not _DEEP.search(written):
                    continue
            if any(_is_in_lambda(tree, operand) for operand in (text, pattern)):
                raise ValueError(
                    "repeats a group of a regular expression in a lambda, where a long text can end Spark: make the "
                    "group possessive, such as (a|b)*+"
                )
            yield DeepSearch(text, pattern)


def _constant_pattern(tree: Tree, pattern: Node) -> str | None:
    """A regular expression that is the same for all records; None where it is not."""
    root = tree.at(pattern)
    value = root.eval(None) if root.foldable() else None
    return None if value is None else str(value.toString())


def _is_in_lambda(tree: Tree, node: Node) -> bool:
    inner = (
        descendant for descendant in tree.nodes if descendant.path[: len(node.path)] == node.path
    )
    return any(descendant.kind == "NamedLambdaVariable" for descendant in inner)


def parts_of(spark: SparkSession, tree: Tree, search: DeepSearch) -> Column:
    """The text and the regular expression of a search, as a struct."""
    from pyspark.sql import Column
    from pyspark.sql import functions as sf

    jvm: Any = spark.sparkContext._jvm
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    text, pattern = (
        Column(expressions.column(tree.at(node))) for node in (search.text, search.pattern)
    )
    return sf.struct(text.alias("text"), pattern.alias("pattern"))


def overflow_trial(name: str) -> tuple[Column, Column]:
    """Whether to try a search, and the search by reflection, which fails where it overflows.

    Args:
        name: the column of ``parts_of``.
    """
    from pyspark.sql import functions as sf

    text, pattern = sf.col(f"{name}.text"), sf.col(f"{name}.pattern")
    return sf.length(text) > _SHORT_TEXT, sf.reflect(*map(sf.lit, _SEARCH), text, pattern)
