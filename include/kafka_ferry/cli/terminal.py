"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Container, Iterable, Sequence
from types import TracebackType
from typing import Any, Final

import regex
from rich.console import Console
from rich.text import Text

from kafka_ferry.printable import one_line, printable
from kafka_ferry.secret_values import mask


def is_plain() -> bool:
    """Whether the user wants neither colours nor other styles (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


class _Terminal(Console):
    """Escapes text from clusters: control characters could rewrite the lines above them."""

    def __init__(self, **options: Any) -> None:
        # Rich takes away colours, and leaves dim and bold.
        super().__init__(color_system=None if is_plain() else "auto", **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich does, with control characters escaped."""
        return super().render_str(printable(text), **options)


_WIDEST: Final = 100_000
_INVISIBLE: Final = regex.compile(r"[\p{Cf}\p{Cs}\x7f-\x9f]")

# No line is wrapped: people copy paths and sentences from them, and programs search them. None is markup,
# and no name an emoji, as `:key:` would be.
out = _Terminal(soft_wrap=True, markup=False, emoji=False, highlight=False)
messages = _Terminal(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


def show_that_rules_are_read() -> None:
    """Spark takes some seconds to start, in which a person at a terminal would see nothing."""
    if messages.is_terminal:
        messages.print("Spark starts, to read the rules ...", style="dim")


def show_table(
    columns: Sequence[str], rows: Iterable[Iterable[object]], *, numbers: Container[str] = ()
) -> None:
    """Print a table without lines, so wide that each row is one line and no name is cut.

    Args:
        columns: the headings.
        rows: the cells by row; None is shown as a dash.
        numbers: the headings of numbers, which stand to the right.
    """
    # Most commands show none.
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*("-" if cell is None else one_line(str(cell)) for cell in row))
    table.width = out.measure(table, options=out.options.update(max_width=_WIDEST)).maximum
    out.print(table)


def warn(text: object) -> None:
    """Write what is unusual to stderr."""
    messages.print(str(text), style="yellow")


def show_error(error: object) -> None:
    """Write an error to stderr."""
    messages.print(f"ERROR: {error}", style="red")


def show_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Write an unexpected error to stderr, as Python does, and without secrets."""
    lines = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(printable(lines))


def show_json(results: Sequence[object], *, several: bool) -> None:
    """Print JSON for programs.

    Args:
        results: the result of each flow that did not fail.
        several: whether there are several flows; their JSON is a list.
    """
    if several or results:
        # Escapes no letter, and every control character: programs read it, and so do terminals.
        shown = json.dumps(results if several else results[0], indent=1, ensure_ascii=False)
        print(mask(_json_printable(shown)))


def _json_printable(text: str) -> str:
    """JSON with what has no width, or would turn the direction of writing, written as its numbers."""
    return str(_INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text))
