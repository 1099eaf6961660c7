"""Whole logs of a partition, and what a read_committed consumer makes of every offset in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kafka_ferry.batches import AbortedTransaction, Reason
from tests.support.records.batches import (
    DELETE_HORIZON,
    NOW,
    TRANSACTIONAL,
    Consumed,
    Record,
    a_batch,
    a_marker,
    a_message_set,
    codecs,
    consumed_of_messages,
    header_of,
    records,
)

PRODUCERS = (7, 8, 9)


@dataclass
class _Transaction:
    first_offset: int
    spans: list[range] = field(default_factory=list)


@dataclass
class Log:
    """A partition's log, made step by step.

    Attributes:
        start: its first offset.
        end: the offset after its last one.
        batches: what is stored; the messages of an old format that came together are one.
        ends: the offset after each batch.
        fates: what consumers see at an offset, or why they see nothing; compacted where absent.
        aborted: producer, first offset and marker of each aborted transaction.
    """

    start: int
    end: int = field(init=False)
    batches: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    fates: dict[int, Consumed | Reason] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    _open: dict[int, _Transaction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end = self.start

    def compact_away(self, offsets: int) -> None:
        """Offsets of which nothing is left."""
        self.end += offsets

    def append(
        self, retained: Sequence[Record | None], producer: int | None, **options: Any
    ) -> None:
        """A data batch, in a transaction where there is a producer; None are compacted records."""
        deltas = [delta for delta, record in enumerate(retained) if record]
        kept = [record for record in retained if record]
        if not kept:
            options = {}
        if options.pop("delete_horizon", False):
            options["attributes"] = (
                options.get("codec", 0) | TRANSACTIONAL * (producer is not None) | DELETE_HORIZON
            )
            options.pop("append_time")
        self._store(
            a_batch(
                kept,
                at=self.end,
                deltas=deltas,
                last_offset_delta=len(retained) - 1,
                producer_id=-1 if producer is None else producer,
                transactional=producer is not None,
                **options,
            )
        )
        span = range(self.end - len(retained), self.end)
        for delta, record in zip(deltas, kept, strict=True):
            seen = record._replace(timestamp=options.get("append_time") or record.timestamp)
            self.fates[span[delta]] = Consumed(span[delta], *seen)
        if producer is not None:
            self._open.setdefault(producer, _Transaction(span[0])).spans.append(span)

    def append_old(self, retained: Sequence[Record | None], magic: int, **options: Any) -> None:
        """Messages of the formats v0 or v1; None are compacted records, and the last is retained."""
        deltas = [delta for delta, record in enumerate(retained) if record]
        kept = [record for record in retained if record]
        messages = a_message_set(kept, at=self.end, deltas=deltas, magic=magic, **options)
        for record in consumed_of_messages(messages):
            self.fates[record.offset] = record
        self.batches.append(messages)
        self.ends.append(self.end + len(retained))
        self.end = self.ends[-1]

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        """A marker; brokers also write some for transactions without data here."""
        self._store(a_marker(at=self.end, producer_id=producer, commit=commit))
        marker = self.end - 1
        self.fates[marker] = Reason.CONTROL
        transaction = self._open.pop(producer, None)
        if transaction and not commit:
            self.aborted.append((producer, transaction.first_offset, marker))
            for span in transaction.spans:
                self.fates |= dict.fromkeys(span, Reason.ABORTED)

    def end_all_transactions(self, *, commit: bool) -> None:
        """No transaction stays open: the log's end is its last stable offset."""
        for producer in list(self._open):
            self.end_transaction(producer, commit=commit)

    def fate(self, offset: int) -> Consumed | Reason:
        """What became of an offset."""
        return self.fates.get(offset, Reason.COMPACTED)

    def responses(
        self, start: int, end: int, sizes: Sequence[int], *, cut: int = 0, generous: bool = False
    ) -> Iterator[tuple[bytes, list[AbortedTransaction]]]:
        """What a broker answers to a consumer that reads ``[start, end)``.

        Args:
            start: the first offset asked for.
            end: where the reading ends.
            sizes: how many batches each response holds; the last one holds the rest.
            cut: how many bytes of the next batch come too.
            generous: whether transactions after the response are listed too.
        """
        sizes, at = list(sizes), start
        stored = zip(self.batches, self.ends, strict=True)
        ahead = [(batch, after) for batch, after in stored if after > start]
        while at < end and ahead:
            count = sizes.pop(0) if sizes else len(ahead)
            whole, ahead = ahead[:count], ahead[count:]
            following = whole[-1][1]
            aborted = [
                AbortedTransaction(producer, first)
                for producer, first, marker in self.aborted
                if marker >= at and (generous or first < following)
            ]
            cut_off = b"".join(batch for batch, _ in ahead[:1])[:cut]
            yield b"".join(batch for batch, _ in whole) + cut_off, aborted
            at = following

    def _store(self, batch: bytes) -> None:
        self.batches.append(batch)
        self.end = _next_offset(batch)
        self.ends.append(self.end)


def _next_offset(batch: bytes) -> int:
    header = header_of(batch)
    return header["base_offset"] + header["last_offset_delta"] + 1


_retained = st.lists(st.none() | records, min_size=1, max_size=4)
_options = st.fixed_dictionaries(
    {
        "codec": codecs,
        "append_time": st.none() | st.integers(1, NOW),
        "base_timestamp": st.none() | st.integers(0, NOW),
        "delete_horizon": st.booleans(),
    }
)
_old_options = st.fixed_dictionaries(
    {"codec": st.integers(0, 3), "append_time": st.none() | st.integers(1, NOW)}
)
_old_retained = st.tuples(st.lists(st.none() | records, max_size=3), records).map(
    lambda retained: [
        record and record._replace(headers=()) for record in (*retained[0], retained[1])
    ]
)
_steps = st.one_of(
    st.tuples(st.just("old"), _old_retained, st.integers(0, 1), _old_options),
    st.tuples(st.just("append"), _retained, st.none() | st.sampled_from(PRODUCERS), _options),
    st.tuples(st.just("append"), _retained, st.sampled_from(PRODUCERS), _options),
    st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
    st.tuples(st.just("compact"), st.integers(1, 5)),
)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Logs of any kind, with at least one batch and no open transaction."""
    log = Log(draw(st.sampled_from([0, 1, 1_000, 2**40])))
    for kind, *arguments in draw(st.lists(_steps, min_size=1, max_size=14)):
        if kind == "append":
            retained, producer, options = arguments
            log.append(retained, producer, **options)
        elif kind == "old":
            retained, magic, options = arguments
            log.append_old(retained, magic, **options)
        elif kind == "end":
            log.end_transaction(arguments[0], commit=arguments[1])
        else:
            log.compact_away(arguments[0])
    log.end_all_transactions(commit=draw(st.booleans()))
    log.end_transaction(PRODUCERS[0], commit=True)
    return log
