"""The one way of foreign text to people: on terminals, in logs, pages, messages and Markdown.

Names from a cluster can hold control characters, and what a server says can hold a secret.
"""

from __future__ import annotations

import logging
from typing import Final

import regex

from kafka_ferry.secret_values import mask

# All except line breaks and tabs; and what has no width, changes the direction of writing, or is half a character.
# And what folds lines on Airflow's page of a log, which leaves out each line that has it.
_FOLD: Final = "group::"
_CONTROL: Final = regex.compile(rf"[^\P{{Cc}}\n\t]|[\p{{Cf}}\p{{Cs}}]|:(?=:(?:end)?{_FOLD})")
_LINE_BREAK: Final = regex.compile(r"[\n\t\u2028\u2029]")


LOOKED_AT: Final = 64 * 1024
"""The most characters of a program's output that are searched for secrets: no more of it is shown."""


def excerpt(text: str, longest: int = 300) -> str:
    """What another program says of itself, for a sentence: in one line, and no more of it than people read.

    It may be hundreds of megabytes, which would go into logs, reports, messages and the ledger.

    Args:
        text: its words.
        longest: how many characters are shown.
    """
    shown = printable(" ".join(text[:LOOKED_AT].split()))
    return shown[:longest].rstrip(".")


def one_line(text: str) -> str:
    """``printable``, with line breaks and tabs written as their numbers too: a group's id may hold them."""
    return str(_LINE_BREAK.sub(lambda found: ascii(found[0])[1:-1], printable(text)))


def printable(text: str) -> str:
    """The text without secrets, and with each control character written as its number, such as ``\\x1b``."""
    text = mask(text)
    if text.isprintable() and _FOLD not in text:
        return text
    return str(_CONTROL.sub(_number, text))


def _number(found: regex.Match[str]) -> str:
    return r"\x3a" if found[0] == ":" else ascii(found[0])[1:-1]


class Printable(logging.Formatter):
    """Log lines without control characters and secrets; a name in one does not begin another."""

    def format(self, record: logging.LogRecord) -> str:
        """The line as it is written."""
        if isinstance(record.args, tuple):
            # Texts are names; sentences of several lines come as errors.
            shown = (
                one_line(argument) if isinstance(argument, str) else argument
                for argument in record.args
            )
            record = logging.makeLogRecord({**record.__dict__, "args": tuple(shown)})
        return printable(super().format(record))
