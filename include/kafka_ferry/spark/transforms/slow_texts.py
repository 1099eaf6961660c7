"""Texts that Java takes hours to make something of, which are made none before, or fail.

(a) A decimal with a far exponent, such as 1e-999999999. Spark refuses what is too large for a decimal before it
    computes with it, but not what is too small, nor what its readers of JSON, CSV and XML read.
(b) Many capital sigmas: what one is in small letters depends on all letters around it, and Spark makes small letters
    of what is to be another number, a truth value or an interval, and of every line of CSV.
(c) XML with many elements, where arrays are read of it: Spark copies an array for each element that is added.
(d) Many commas, for to_number().

``JsonFields`` keeps (a) from what a rule's ``types`` have read. What would be (b), (c) or (d) as a whole fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kafka_ferry.spark.transforms.trees import Node, Tree, type_of, with_child

_LONG: Final = r"(?s:.{1000})"
_FAR: Final = rf"[eE][-+]?\p{{Nd}}{{4}}|{_LONG}"
_NOT_ASCII: Final = r"[^\x00-\x7f]"
# No value of any of these types.
_NOTHING: Final = "?"
_BY_TYPE: Final[Mapping[str, str]] = {
    "decimal": _FAR,
    **dict.fromkeys(("double", "float", "boolean", "interval"), _NOT_ASCII),
}
_DECIMALS: Final = r"decimal\(|interval\""
_NUMBERS: Final = rf"double|float|{_DECIMALS}"
# By what reads texts, the types that it takes long for; as Catalyst writes a type in JSON.
_READERS: Final = {
    kind: re.compile(rf'[tT]ype": "({types})')
    for kind, types in {
        "JsonToStructs": _DECIMALS,
        "XmlToStructs": rf"boolean|{_DECIMALS}",
        "CsvToStructs": _NUMBERS,
        "VariantGet": rf"boolean|{_NUMBERS}",
        "Cast": rf"boolean|{_NUMBERS}",
    }.items()
}
_TEXTS: Final = ("string", "char", "variant")
# Java looks at one word for each sigma in it, and these end words.
_IN_WORD: Final = r"[^\s,;|/:]{200}"
_LONG_WORD: Final = rf"\u03a3(?:{_IN_WORD}|(?<={_IN_WORD}\u03a3))"
_MANY_ELEMENTS: Final = r"\A(?:[^<]*+<){40000}+"
_TOO_SLOW: Final = "a text that Java would take hours to read"


def without_slow_texts(jvm: Any, root: Any) -> Any:
    """An expression in which a text that takes long to become something else becomes nothing, or fails;
    itself if there is none.

    Args:
        jvm: the JVM.
        root: Catalyst's expression, resolved.
    """
    from pyspark.sql import functions as sf

    to_expression = jvm.org.apache.spark.sql.classic.ExpressionUtils.expression
    replace = jvm.org.apache.spark.sql.catalyst.expressions.RegExpReplace
    # An inner one comes later, and keeps the places of outer ones.
    for node in reversed(Tree(root).nodes):
        if whole := _slow_as_a_whole(node):
            literals = (to_expression(sf.lit(value)._jc) for value in (whole, _TOO_SLOW))
            root = _failing(jvm, root, (*node.path, 0), *literals)
        if node.kind != "Cast":
            continue
        slow = _BY_TYPE.get(str(node.fields["dataType"]).partition("(")[0])
        if slow and _type_of_child(Tree(root), node).startswith("string"):
            text = Tree(root).at(node).child()
            literals = (to_expression(sf.lit(value)._jc) for value in (slow, _NOTHING, 1))
            root = with_child(jvm, root, (*node.path, 0), replace(text, *literals))
    return root


def _slow_as_a_whole(node: Node) -> str:
    """What of a text is too much for what reads it as a whole, as a regular expression; "" for nothing."""
    if node.kind == "CsvToStructs":
        return _LONG_WORD
    if node.kind in ("ToNumber", "TryToNumber"):
        return _LONG
    if node.kind == "XmlToStructs" and '"array"' in json.dumps(dict(node.fields)):
        return _MANY_ELEMENTS
    return ""


def _failing(jvm: Any, root: Any, path: tuple[int, ...], pattern: Any, why: Any) -> Any:
    """A tree in which the text at a path, if it has what a pattern looks for, fails."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    text = root
    for place in path:
        text = text.children().apply(place)
    checked = expressions.If(expressions.RLike(text, pattern), expressions.RaiseError(why), text)
    return with_child(jvm, root, path, checked)


def reads_slow_text(tree: Tree) -> str:
    """Where an expression makes something of texts that cannot be looked at before; "" for nowhere."""
    for node in tree.nodes:
        types = _READERS.get(node.kind)
        slow = types and types.search(json.dumps(dict(node.fields)))
        if not slow:
            continue
        if node.kind == "Cast":
            of = _type_of_child(tree, node)
            if of.startswith("string") or not any(text in of for text in _TEXTS):
                continue
        type_ = slow[1].strip('("')
        return f"reads a {type_} out of text, which may take hours: read text, and use cast(text as {type_})"
    return ""


def _type_of_child(tree: Tree, node: Node) -> str:
    return type_of(tree.at(node).child())
