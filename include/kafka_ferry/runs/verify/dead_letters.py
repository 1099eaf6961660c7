"""Reads back the dead letters of a run: what went to the dead letter topic is nowhere else on the target.

Once, with the first proof of the ranges that they belong to: afterwards people may delete what they have dealt with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.batches import MalformedBatch, each_record
from kafka_ferry.batches.record_format.content import each_header, headers_of
from kafka_ferry.errors import FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.verify.rows import DeadLetters
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.held_back import wait_for_shown
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import ended_batches

if TYPE_CHECKING:
    from kafka_ferry.batches import Batch
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerRange, RangeKey
    from kafka_ferry.wire import WireCluster

log = logging.getLogger(__name__)

_COORDINATES: Final = (b"ferry.topic", b"ferry.partition", b"ferry.offset")
# A topic that is gone does not come back.
_WAIT_S: Final = 5.0

Coordinates = tuple[bytes | None, ...]
"""Topic, partition and offset of a record on the source, as the headers of its dead letter have them."""


def look_up_letters(flow: Flow, ranges: Iterable[LedgerRange]) -> dict[RangeKey, DeadLetters]:
    """What the dead letter topic has of the letters that the ledger names, by range; only of ranges with any.

    Args:
        flow: the flow.
        ranges: what is proved for the first time.
    """
    with_letters = [entry for entry in ranges if entry.copied.letters]
    if not with_letters:
        return {}
    letters = [letter for entry in with_letters for letter in entry.copied.letters]
    first = min(letter.target for letter in letters)
    end = max(letter.target + letter.records for letter in letters)
    try:
        seen = _read(flow, first, end)
    except FerryError as error:
        log.warning("%s cannot be read: %s", flow.dead_letter_name, error)
        return {entry.key: find_letters(entry, 0, {}, str(error)) for entry in with_letters}
    return {
        entry.key: find_letters(entry, seen.log_start, seen.coordinates) for entry in with_letters
    }


def find_letters(
    entry: LedgerRange, start: int, coordinates: Mapping[int, Coordinates], unread: str = ""
) -> DeadLetters:
    """What there is of a range's letters.

    Args:
        entry: the range.
        start: the first offset of the dead letter topic.
        coordinates: by offset of the dead letter topic, whose record the letter there is.
        unread: why it could not be read; "" if it was.
    """
    copied, missing, deleted = entry.copied, 0, 0
    for source, target, records in copied.letters:
        for number in range(records):
            wanted = (copied.topic, str(copied.partition), str(source + number))
            if target + number < start:
                deleted += 1
            elif coordinates.get(target + number) != tuple(text.encode() for text in wanted):
                missing += 1
    return DeadLetters(missing, deleted, unread)


class _Seen(NamedTuple):
    """What consumers see of the dead letter topic between two offsets.

    Attributes:
        log_start: where the topic starts.
        coordinates: the letters' records, by the letters' offsets.
        hidden_from: from where on an open transaction hides the rest; -1 where nothing is hidden.
    """

    log_start: int
    coordinates: dict[int, Coordinates]
    hidden_from: int


def _read(flow: Flow, first: int, end: int) -> _Seen:
    """What consumers see of ``[first, end)``, once no open transaction hides any of it.

    Raises:
        FerryError: the topic cannot be read, or a transaction stays open.
    """
    partition = TopicPartition(flow.dead_letter_name, 0)
    with connect(flow.target) as cluster:
        look = partial(retry, partial(_look, cluster, partition, first, end))
        with retry_for(_WAIT_S):
            seen = look()
        if seen.hidden_from >= 0 and wait_for_shown(cluster, {partition: end}):
            seen = look()
    if seen.hidden_from >= 0:
        raise FerryError(
            f"An open transaction hides what it has from offset {seen.hidden_from} on.",
            advice="One of this flow, the next run ends that copies more of the same partitions.",
        )
    return seen


def _look(cluster: WireCluster, partition: TopicPartition, first: int, end: int) -> _Seen:
    log = partition_log(cluster, partition)
    start, stop = max(first, log.start), min(end, log.end)
    ends, coordinates = [stop], dict[int, Coordinates]()
    batches = ended_batches(cluster, log, start, on_end=ends.append) if start < stop else iter(())
    for batch, is_aborted in batches:
        if batch.header.base_offset >= stop:
            break
        if not is_aborted:
            coordinates |= _letters(batch)
    return _Seen(log.start, coordinates, min(ends) if min(ends) < stop else -1)


def _letters(batch: Batch) -> Iterator[tuple[int, Coordinates]]:
    if batch.header.is_control:
        return
    try:
        for offset, _, _, content in each_record(batch):
            headers = each_header(headers_of(content))
            coordinates = {name: value for name, value in headers if name in _COORDINATES}
            yield offset, tuple(map(coordinates.get, _COORDINATES))
    except MalformedBatch as error:
        log.warning("%s", error)
