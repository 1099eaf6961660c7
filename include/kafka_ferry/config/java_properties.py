"""Text in the form of Java's properties files, in time that grows as the text does.

Source: ``java.util.Properties.load``. javaproperties' own reader looks at a whole value again for each line on which it
continues: 1.3 MB of such lines take it minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import javaproperties
import regex

_LINE: Final = regex.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+")
_BLANKS: Final = " \t\f"
_SEPARATOR: Final = regex.compile(r"(?<!\\)(?:\\\\)*([ \t\f]*[=:]|[ \t\f])[ \t\f]*")


class PropertyEntry(NamedTuple):
    """A key and its value, as they are meant, and the number of the line where the key begins, from 1 on."""

    key: str
    value: str
    line: int


def entries(text: str) -> Iterator[PropertyEntry]:
    """The entries of a text, in their order; a key may come several times.

    Raises:
        javaproperties.InvalidUEscapeError: a ``\\u`` has less than four hexadecimal digits after it.
    """
    lines = enumerate((match[0].rstrip("\r\n") for match in _LINE.finditer(text)), 1)
    for number, first in lines:
        piece = first.lstrip(_BLANKS)
        if piece[:1] in ("", "#", "!"):
            continue
        pieces = []
        while _continues(piece):
            pieces.append(piece[:-1])
            _, following = next(lines, (0, ""))
            piece = following.lstrip(_BLANKS)
        whole = "".join([*pieces, piece])
        if whole:
            separator = _SEPARATOR.search(whole)
            key = whole[: separator.start(1)] if separator else whole
            value = whole[separator.end() :] if separator else ""
            yield PropertyEntry(
                javaproperties.unescape(key), javaproperties.unescape(value), number
            )


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def read_text(text: str) -> dict[str, str]:
    """The values of a text by key; of equal keys the last counts.

    Raises:
        javaproperties.InvalidUEscapeError: as ``entries``.
    """
    return {key: value for key, value, _ in entries(text)}
