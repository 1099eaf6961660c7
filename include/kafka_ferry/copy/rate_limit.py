"""A task's rate limit: a token bucket, kept as the time at which all that was sent is paid for."""

from __future__ import annotations

import time
from typing import Final

from kafka_ferry.batches import BatchHeader
from kafka_ferry.model.rate import UNLIMITED, Rate

# The burst: time without records on the source may be made up for, up to so many seconds.
_CREDIT_S: Final = 1.0


class RateLimit:
    """Keeps all writers of one task together to a rate.

    Over any time of ``t`` seconds, no more than the rate for ``t + 1`` seconds and one batch are sent.

    Args:
        rate: the most to send in a second.
    """

    def __init__(self, rate: Rate = UNLIMITED) -> None:
        self.rate = rate
        self._paid_at = time.monotonic()

    def spend(self, header: BatchHeader) -> None:
        """Count a batch that is about to be sent."""
        spent = ((header.size, self.rate.bytes_per_s), (header.records, self.rate.records_per_s))
        # By what takes longer: so the sum of it keeps to both.
        seconds = max((amount / limit for amount, limit in spent if limit), default=0.0)
        self._paid_at = max(self._paid_at, time.monotonic() - _CREDIT_S) + seconds

    @property
    def wait_s(self) -> float:
        """Seconds until the next batch may be sent; 0 or less for now."""
        return self._paid_at - time.monotonic()
