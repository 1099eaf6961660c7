"""Waiting for what a broker does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Return as soon as ``holds``; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.05)
