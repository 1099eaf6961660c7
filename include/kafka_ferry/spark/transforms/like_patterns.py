"""Patterns of LIKE with several parts, as regular expressions that look at a text once.

Spark's own, such as ``.*a.*b.*``, look for ``b`` after each ``a``: of a producer's megabyte of ``a``, that takes hours,
and with a third part weeks. The first place of each part is enough: what follows it has the most room then.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kafka_ferry.spark.transforms.trees import Tree, with_child

_ANY: Final = "%"
_ONE: Final = "_"
# Spark takes no other one for a list.
_ESCAPE: Final = "\\"
_LISTS: Final = ("LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny")


def with_single_searches(jvm: Any, root: Any) -> Any:
    """An expression whose patterns of LIKE take no longer than the length of a text;
    itself if it has no such pattern.

    Args:
        jvm: the JVM.
        root: Catalyst's expression, resolved.
    """
    from pyspark.sql import functions as sf

    to_expression = jvm.org.apache.spark.sql.classic.ExpressionUtils.expression
    search = jvm.org.apache.spark.sql.catalyst.expressions.RLike
    # An inner one comes later, and keeps the places of outer ones.
    for node in reversed([node for node in Tree(root).nodes if node.kind in ("Like", "ILike")]):
        like = Tree(root).at(node)
        if node.kind == "ILike":
            like = like.replacement()
        pattern = like.right().eval(None) if like.right().foldable() else None
        is_plain = like.left().dataType().simpleString() == "string"
        parts = _parts(str(pattern), str(like.escapeChar())) if pattern and is_plain else []
        if _is_slow(parts):
            expression = to_expression(sf.lit(_expression(parts))._jc)
            root = with_child(jvm, root, node.path, search(like.left(), expression))
    return root


def lists_patterns(tree: Tree) -> str:
    """Where an expression compares a text with a list of patterns of several parts; "" for nowhere."""
    for node in tree.nodes:
        if node.kind in _LISTS:
            patterns = tree.at(node).patterns()
            texts = [str(patterns.apply(at)) for at in range(patterns.size())]
            if any(_is_slow(_parts(text, _ESCAPE)) for text in texts):
                return "lists patterns of several parts, which may take hours: write a LIKE for each of them"
    return ""


def _is_slow(parts: list[str]) -> bool:
    """Whether a pattern has parts of which one is looked for after each place of another one."""
    return sum(map(bool, parts[1:])) > 1


def _parts(pattern: str, escape: str) -> list[str]:
    """What is between the pattern's ``%``, as regular expressions; none of a pattern that is none for Spark."""
    parts, characters = [""], iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in (_ANY, _ONE, escape):
                return []
            parts[-1] += re.escape(escaped)
        elif character == _ANY:
            parts.append("")
        else:
            parts[-1] += "." if character == _ONE else re.escape(character)
    return parts


def _expression(parts: list[str]) -> str:
    first, *middle, last = parts
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return rf"(?s)\A{first}{between}.*{last}\z"
