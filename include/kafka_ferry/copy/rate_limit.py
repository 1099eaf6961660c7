"""A task's rate limit: a token bucket, kept as the time at which all that was sent is paid for."""

from __future__ import annotations

import time
from typing import Final

# The burst: time without records on the source may be made up for, up to so many seconds.
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
        """Count ``size`` bytes that are about to be sent."""
        if self.bytes_per_s:
            earliest = time.monotonic() - _CREDIT_S
            self._paid_at = max(self._paid_at, earliest) + size / self.bytes_per_s

    @property
    def wait_s(self) -> float:
        """Seconds until the next byte may be sent; 0 or less for now."""
        return self._paid_at - time.monotonic() if self.bytes_per_s else 0.0
