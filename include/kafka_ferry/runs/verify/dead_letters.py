"""Reads back the dead letters of a run: what went to the dead letter topic is nowhere else on the target.

Once, with the first proof of the ranges that they belong to: afterwards people may delete what they have dealt with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

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
        start, coordinates = _read(flow, first, end)
    except FerryError as error:
        log.warning("%s cannot be read: %s", flow.dead_letter_name, error)
        return {entry.key: find_letters(entry, 0, {}, str(error)) for entry in with_letters}
    return {entry.key: find_letters(entry, start, coordinates) for entry in with_letters}


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


def _read(flow: Flow, first: int, end: int) -> tuple[int, dict[int, Coordinates]]:
    """Where the dead letter topic starts, and its letters of ``[first, end)``, as its consumers see them.

    Raises:
        FerryError: the topic cannot be read, or a transaction stays open that hides some of them.
    """
    partition = TopicPartition(flow.dead_letter_name, 0)
    hidden_from = -1
    with connect(flow.target) as cluster:

        def read() -> tuple[int, dict[int, Coordinates]]:
            nonlocal hidden_from
            known = partition_log(cluster, partition)
            begin, stop = max(first, known.start), min(end, known.end)
            ends, coordinates = [stop], dict[int, Coordinates]()
            if begin < stop:
                for batch, is_aborted in ended_batches(cluster, known, begin, on_end=ends.append):
                    if batch.header.base_offset >= stop:
                        break
                    if not is_aborted:
                        coordinates |= _letters(batch)
            hidden_from = min(ends) if min(ends) < stop else -1
            return known.start, coordinates

        with retry_for(_WAIT_S):
            letters = retry(read)
        if hidden_from >= 0 and wait_for_shown(cluster, {partition: end}):
            letters = retry(read)
        if hidden_from >= 0:
            raise FerryError(
                f"An open transaction hides what it has from offset {hidden_from} on.",
                advice="One of this flow, the next run ends that copies more of the same partitions.",
            )
        return letters


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
