"""Python's garbage collection, as rare as suits short processes that mostly import."""

from __future__ import annotations

import gc


def search_seldom() -> None:
    """Collect after 50,000 new objects instead of 700; call this before large imports.

    Those create some million objects, nearly all of which stay.
    """
    gc.set_threshold(50_000, 20, 20)
