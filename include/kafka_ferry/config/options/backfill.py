"""What a backfill of a date range copies, and where to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.types.values import Number

_HOUR_MS = 60 * 60 * 1000


class BackfillOptions(Options):
    """The options of a flow that say what a backfill does."""

    backfill_topic: Literal["same", "separate"] = Field(
        default="same",
        description="Where a backfill's records go: after the others in the same remote topic, or "
        "to a separate one, the remote topic's name with .backfill after it.",
    )
    backfill_disorder_ms: Number = Field(
        default=_HOUR_MS,
        ge=-1,
        description="How much later than a younger record an older one may stand in its partition, "
        "by their timestamps. A backfill looks no further than the first record that is so much "
        "younger than its window; -1 has it look at everything up to the flow's position.",
    )
