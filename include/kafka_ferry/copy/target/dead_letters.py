"""Records of a range that the target has refused, which are set aside when the range is written again.

A broker refuses a batch as a whole. Where it names the bad records (KIP-467) they are known at once;
where it does not, the batch is divided until a single record is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.batches import (
    Batch,
    ConvertedBatch,
    Rejected,
    SegmentList,
    TopicLimits,
    cut_at,
    dead_letter,
    halves,
    is_too_large,
    offsets_at,
    set_aside,
    unfit,
)
from kafka_ferry.clock import now_ms
from kafka_ferry.copy.target.produce.partition_queue import Outgoing
from kafka_ferry.ledger import CopiedRange
from kafka_ferry.model.plan import Creation
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.secret_values import mask
from kafka_ferry.wire.error_codes import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
)

ABOUT_RECORDS: Final = frozenset(
    {MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD}
)
"""Errors about a record, not about a partition, a permission or the broker."""
_REFUSED_BY: Final = {
    MESSAGE_TOO_LARGE: "Raise its max.message.bytes",
    RECORD_LIST_TOO_LARGE: "Raise its max.message.bytes",
    INVALID_TIMESTAMP: "Raise its message.timestamp.before.max.ms or message.timestamp.after.max.ms "
    "(before Kafka 3.6, message.timestamp.difference.max.ms)",
    INVALID_RECORD: "Records without a key fit into no compacted topic: change its cleanup.policy",
}

# It accepts any record, and keeps it forever: its records are nowhere else on the target.
_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(100 * 1024 * 1024),  # the brokers' socket.request.max.bytes
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


def advice_on_records(code: int) -> str:
    """What to do where a remote topic refuses records with this error code; "" where it is not about records."""
    if code not in ABOUT_RECORDS:
        return ""
    return f"{_REFUSED_BY[code]}, or set on.rejected.record to dead-letter."


def dead_letter_creation(topic: str, replication_factor: int) -> Creation:
    """The dead letter topic as it is to be created."""
    return Creation(topic, 1, replication_factor, _TOPIC_CONFIGS)


@dataclass(slots=True)
class Rejections:
    """What is known of the records of one range that the target rejects.

    Attributes:
        errors: what the broker said, by the leader epoch of the record's batch and its source offset: after an
            unclean leader election, the source has another record there.
        cuts: source offsets at which batches are divided to find such records.
        screened: the broker's error about records without a key or with a bad timestamp, "" as long
            as there was none: from then on they are looked for before they are sent.
        too_large: its error about a record that is too large; from then on all such are set aside unsent.
    """

    errors: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    cuts: set[int] = field(default_factory=set)
    screened: str = ""
    too_large: str = ""

    def learn(
        self, converted: ConvertedBatch, code: int, error: str, records: tuple[int, ...]
    ) -> None:
        """Record that the target refused ``converted``.

        Args:
            converted: what was sent.
            code: Kafka's error code.
            error: the broker's message.
            records: indices in the batch of the records that it names.
        """
        assert converted.batch is not None
        if converted.batch.header.records == 1:
            records = (0,)
        if not records:
            self.cuts.add(halves(converted)[1].start)
            return
        errors = self.errors[converted.leader_epoch]
        errors |= dict.fromkeys(offsets_at(converted, records), error)
        if code in (INVALID_RECORD, INVALID_TIMESTAMP):
            self.screened = error
        elif converted.batch.header.records == 1:
            self.too_large = error

    def forget_before(self, position: int) -> None:
        """Forget records before a position that is committed."""
        for epoch, errors in self.errors.items():
            self.errors[epoch] = {at: error for at, error in errors.items() if at >= position}

    def sort_out(
        self, converted: ConvertedBatch, topic_limits: TopicLimits
    ) -> Iterator[tuple[ConvertedBatch, list[tuple[Rejected, str]]]]:
        """``converted`` in pieces that the target may accept, each with the records that were taken out."""
        for piece in self._divide(converted):
            errors = self.errors[piece.leader_epoch]
            bad = {at: errors[at] for at in errors.keys() & range(piece.start, piece.end)}
            if self.screened:
                bad = dict.fromkeys(unfit(piece, topic_limits, now_ms()), self.screened) | bad
            if self.too_large and is_too_large(piece, topic_limits):
                bad = dict.fromkeys(offsets_at(piece, (0,)), self.too_large) | bad
            if not bad or piece.batch is None:
                yield piece, []
                continue
            rest, taken = set_aside(piece, bad)
            yield rest, [(record, bad[record.offset]) for record in taken]

    def _divide(self, converted: ConvertedBatch) -> Iterator[ConvertedBatch]:
        for cut in sorted(cut for cut in self.cuts if converted.start < cut < converted.end):
            before, converted = cut_at(converted, cut)
            yield before
        yield converted


class SentLetters:
    """The dead letters of an open transaction."""

    def __init__(self) -> None:
        self._by_source: dict[TopicPartition, list[Outgoing]] = defaultdict(list)

    def add(self, range_: Range, record: Rejected, error: str, run: str) -> Outgoing:
        """The letter for a record of a range, to be sent to the dead letter topic."""
        letter = Outgoing(alone(letter_for(range_, record, error, run), record.offset), range_)
        self._by_source[range_.source].append(letter)
        return letter

    def with_letters(self, copied: CopiedRange) -> CopiedRange:
        """What the transaction holds of a range, with where its dead letters are."""
        letters = SegmentList()
        for out in self._by_source.get(TopicPartition(copied.topic, copied.partition), ()):
            if copied.start <= out.converted.start < copied.end and out.base_offset is not None:
                letters.add(out.converted.runs, out.base_offset)
        return copied.model_copy(update={"letters": tuple(letters)}) if letters else copied

    def ahead_of(self, entries: Iterable[CopiedRange]) -> list[TopicPartition]:
        """The source partitions with letters of records after what the transaction holds of them."""
        ends = {TopicPartition(it.topic, it.partition): it.end for it in entries}
        return [
            source
            for source, letters in self._by_source.items()
            if any(out.converted.start >= ends.get(source, 0) for out in letters)
        ]

    def clear(self) -> None:
        """Forget them with their transaction."""
        self._by_source.clear()


def alone(record: Batch, offset: int = 0) -> ConvertedBatch:
    """A batch of one record as it is queued for one of the flow's own topics."""
    return ConvertedBatch(offset, offset + 1, record, ((offset, 1),))


def letter_for(range_: Range, record: Rejected, error: str, run: str) -> Batch:
    """The dead letter: the record as it is, with its coordinates and the broker's error as headers."""
    about = {
        "ferry.topic": range_.topic,
        "ferry.partition": str(range_.partition),
        "ferry.offset": str(record.offset),
        "ferry.timestamp": str(record.timestamp),
        "ferry.topic.id": range_.topic_id,
        "ferry.error": mask(error),
        "ferry.run": run,
    }
    return dead_letter(
        record, [(name, text.encode(errors="backslashreplace")) for name, text in about.items()]
    )
