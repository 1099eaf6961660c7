"""Python's search for garbage, as rare as suits processes that mostly import and soon end."""

from __future__ import annotations

import gc


def search_seldom() -> None:
    """Have it searched for after 50,000 new objects instead of 700; called before large imports.

    They make some million objects, nearly all of which stay.
    """
    gc.set_threshold(50_000, 20, 20)
