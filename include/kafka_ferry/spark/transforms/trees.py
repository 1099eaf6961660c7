"""Catalyst's trees of an expression, as far as rules are judged by them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Node:
    """A node of a tree.

    Attributes:
        kind: its class.
        fields: its arguments, as far as they can be written in JSON.
        path: the places on the way to it, from the tree's root.
        parent: the class of its parent; "" for the root.
    """

    kind: str
    fields: Mapping[str, Any]
    path: tuple[int, ...]
    parent: str

    @property
    def names(self) -> list[str]:
        """The parts of a name that is not resolved; no part of it may hold a comma."""
        return str(self.fields.get("nameParts", "[]"))[1:-1].split(", ")


class Tree:
    """A tree of Catalyst's.

    Args:
        root: Catalyst's own root.
    """

    def __init__(self, root: Any) -> None:
        self.root = root

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes, each before its children; one call of the JVM."""
        return list(_nodes(iter(json.loads(self.root.toJSON())), (), ""))

    def at(self, node: Node) -> Any:
        """Catalyst's own node."""
        current = self.root
        for place in node.path:
            current = current.children().apply(place)
        return current

    def parent(self, node: Node) -> Node | None:
        """The node of which a node is a child, None for the root."""
        return self._by_path.get(node.path[:-1]) if node.path else None

    def child(self, node: Node, place: int) -> Node | None:
        """A node's child at a place, None if it has fewer."""
        return self._by_path.get((*node.path, place))

    @cached_property
    def _by_path(self) -> Mapping[tuple[int, ...], Node]:
        return {node.path: node for node in self.nodes}


def type_of(expression: Any) -> str:
    """The type of a resolved expression of Catalyst's, with all of its fields: a ``simpleString`` has 25 of them."""
    return str(expression.dataType().catalogString())


def with_child(jvm: Any, root: Any, path: tuple[int, ...], child: Any) -> Any:
    """A tree of Catalyst's with another child at a path."""
    if not path:
        return child
    place, *below = path
    children = [root.children().apply(at) for at in range(root.children().size())]
    children[place] = with_child(jvm, children[place], tuple(below), child)
    return root.withNewChildren(jvm.PythonUtils.toSeq(children))


def _nodes(rest: Iterator[dict[str, Any]], path: tuple[int, ...], parent: str) -> Iterator[Node]:
    fields = next(rest)
    kind = str(fields["class"]).rpartition(".")[2]
    yield Node(kind, fields, path, parent)
    for place in range(fields["num-children"]):
        yield from _nodes(rest, (*path, place), kind)
