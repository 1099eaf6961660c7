"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from kafka_ferry.printable import printable

if TYPE_CHECKING:
    from rich.table import Table


class _Terminal(Console):
    """Escapes text from clusters: control characters could rewrite the lines above them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich does, with control characters escaped."""
        return super().render_str(printable(text), **options)


class Printable(logging.Formatter):
    """Log lines without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The line as it is written."""
        return printable(super().format(record))


_WIDEST: Final = 100_000

# No line is wrapped: people copy paths and sentences from them, and programs search them.
out = _Terminal(soft_wrap=True)
messages = _Terminal(stderr=True, soft_wrap=True)


def plain_table(*columns: str, numbers: Container[str]) -> Table:
    """A table without lines, for ``show_table``.

    Args:
        columns: the headings.
        numbers: those of numbers, which stand to the right.
    """
    # Most commands show none.
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    return table


def show_table(table: Table) -> None:
    """Print a table as wide as its content, so that each row is one line and no name is cut."""
    table.width = out.measure(table, options=out.options.update(max_width=_WIDEST)).maximum
    out.print(table)


def show_error(error: object) -> None:
    """Write an error to stderr."""
    messages.print(f"ERROR: {error}", style="red", markup=False, highlight=False)


def show_json(found: Sequence[object], *, several: bool) -> None:
    """Print JSON for programs.

    Args:
        found: the result of each flow that did not fail.
        several: whether there are several flows; their JSON is a list.
    """
    if several or found:
        print(json.dumps(found if several else found[0], indent=1, ensure_ascii=False))
