"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console

# Lines are not broken: they hold paths and sentences that people copy and programs search.
out = Console(soft_wrap=True)
messages = Console(stderr=True, soft_wrap=True)


def show_error(error: object) -> None:
    """Say on stderr what went wrong."""
    messages.print(f"ERROR: {error}", style="red", markup=False, highlight=False)


def show_json(found: Sequence[object], *, several: bool) -> None:
    """Print JSON for programs.

    Args:
        found: what was found, of each flow that did not fail.
        several: whether there are several flows, whose JSON is a list.
    """
    if several or found:
        print(json.dumps(found if several else found[0], indent=1, ensure_ascii=False))
