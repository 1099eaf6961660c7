"""Makes foreign text safe for a terminal or a log: names from a cluster can hold control characters."""

from __future__ import annotations

from typing import Final

import regex

# All except line breaks and tabs, and those that change the direction of writing.
_CONTROL: Final = regex.compile(r"[^\P{Cc}\n\t]|[\u202A-\u202E\u2066-\u2069]")


_LINE_BREAK: Final = regex.compile(r"[\n\t\u2028\u2029]")


def one_line(text: str) -> str:
    """``printable``, with line breaks and tabs written as their numbers too: a group's id may hold them."""
    return printable(_LINE_BREAK.sub(lambda found: ascii(found[0])[1:-1], text))


def printable(text: str) -> str:
    """The text with each control character written as its number, such as ``\\x1b``."""
    return str(_CONTROL.sub(lambda found: ascii(found[0])[1:-1], text))
