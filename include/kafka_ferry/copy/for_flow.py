"""Copying one writer's ranges of a flow: what a task does, whoever runs it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.config import kafka_python_config
from kafka_ferry.copy.copier import Limits, Outcome, copy_ranges
from kafka_ferry.copy.reader import RangeReader
from kafka_ferry.copy.translated import TranslatedWriter

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.plan import Range

# A transaction may also have to wait for its coordinators; the broker aborts it only after this.
_TRANSACTION_SLACK_MS: Final = 110_000


def copy_for_flow(flow: Flow, run: str, number: int, ranges: Sequence[Range]) -> list[Outcome]:
    """Copy ``ranges``, all of them the writer's ``number``, as ``flow`` says.

    Args:
        flow: the flow, with whatever secrets its clusters need.
        run: the run's id, for positions and ledger.
        number: the writer's number.
        ranges: at most one of a partition.

    Returns:
        An outcome for each range, in the order given.
    """
    source, target = flow.source, flow.target
    read = partial(
        RangeReader,
        source.alias,
        kafka_python_config(source.client_properties("consumer")),
        max_bytes=flow.fetch_max_bytes,
    )
    writer = TranslatedWriter(
        target.alias,
        kafka_python_config(target.client_properties("producer")),
        flow=flow.name,
        source_alias=source.alias,
        run=run,
        number=number,
        timeout_ms=flow.transaction_max_ms + _TRANSACTION_SLACK_MS,
    )
    limits = Limits(flow.transaction_max_bytes, flow.transaction_max_ms)
    try:
        return copy_ranges(ranges, read, writer, limits)
    finally:
        writer.close()
