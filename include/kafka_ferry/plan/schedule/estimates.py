"""Estimates how many records and bytes there are to copy, from the source's logs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_ferry.model.cluster_state import SourceLogs
from kafka_ferry.model.plan import Estimate
from kafka_ferry.model.ranges import Range


def estimates(logs: SourceLogs, ranges: Iterable[Range]) -> Iterator[Estimate]:
    """Estimates each range with something to copy.

    Offsets without a record (transaction markers, aborted and compacted records) are only known for
    sampled partitions. A log's bytes are assumed to be spread evenly over its offsets.
    """
    for range_ in ranges:
        source = range_.source
        if not len(range_):
            continue
        bounds, size = logs.bounds[source], logs.sizes.get(source)
        # What the source has deleted is accounted for, and not copied.
        offsets = max(0, range_.end - max(range_.start, bounds.start))
        records = round(offsets * logs.densities.get(source, 1.0))
        held = bounds.end - bounds.start
        of_log = None if size is None or held <= 0 else round(size * min(1.0, offsets / held))
        yield Estimate(range_.topic, range_.partition, records, of_log)
