"""What a backfill of a date range copies, and where to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.types.durations import Milliseconds

_HOUR_MS = 60 * 60 * 1000


class BackfillOptions(Options):
    """The options of a flow that say what a backfill does."""

    backfill_topic: Literal["same", "separate"] = Field(
        default="same",
        description="Where a backfill's records go: after the others in the same remote topic, or "
        "to a separate topic, named like the remote topic with .backfill appended.",
    )
    backfill_disorder_ms: Milliseconds = Field(
        default=_HOUR_MS,
        ge=-1,
        description="How far out of order timestamps in a partition may be. A backfill stops at the "
        "first record that is newer than its window by that much; with -1 it reads everything up to "
        "the flow's position.",
    )
