"""The root of a Merkle tree over lines, as in RFC 9162 (2.1.1) with SHA-256. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import reduce

_LEAF, _NODE = b"\0", b"\1"


def merkle_root(lines: Iterable[bytes]) -> str:
    """The root over ``lines``, 64 hexadecimal digits; of no lines, the hash of nothing.

    Args:
        lines: the leaves in their order, without line breaks. They are read one by one.
    """
    # The roots of the complete subtrees so far with their numbers of leaves, the largest first.
    trees: list[tuple[int, bytes]] = []
    for line in lines:
        size, root = 1, hashlib.sha256(_LEAF + line).digest()
        while trees and trees[-1][0] == size:
            _, left = trees.pop()
            size, root = 2 * size, _parent(left, root)
        trees.append((size, root))
    roots = [root for _, root in reversed(trees)]
    if not roots:
        return hashlib.sha256().hexdigest()
    return reduce(lambda right, left: _parent(left, right), roots).hex()


def _parent(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()
