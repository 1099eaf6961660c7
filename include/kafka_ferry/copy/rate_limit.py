"""How fast a task may send: a token bucket, as the time at which all that was sent will be paid for."""

from __future__ import annotations

import time
from typing import Final

# What was not sent while the source had nothing to give may be made up for, up to so much of it.
_CREDIT_S: Final = 1.0


class RateLimit:
    """Bytes a second, over all writers of one task.

    Over any time of ``t`` seconds, no more than ``bytes_per_s * (t + 1)`` and one batch are sent.

    Args:
        bytes_per_s: the limit; 0 for none.
    """

    def __init__(self, bytes_per_s: int) -> None:
        self.bytes_per_s = bytes_per_s
        self._paid_at = time.monotonic()

    def spend(self, size: int) -> None:
        """Take note of ``size`` bytes that are about to be sent."""
        if self.bytes_per_s:
            earliest = time.monotonic() - _CREDIT_S
            self._paid_at = max(self._paid_at, earliest) + size / self.bytes_per_s

    @property
    def wait_s(self) -> float:
        """Seconds until the next byte may be sent; 0 or less for now."""
        return self._paid_at - time.monotonic() if self.bytes_per_s else 0.0
