"""Records in a flow's ledger that are no entries: what they hide, and setting them aside.

An unreadable record stops every flow that reads the ledger, since it may be the entry of a transaction. Whether it
was one shows in what is left: the ranges of a partition join, and the last one ends at its position. What does not
join lies between two ledger offsets, and only an unreadable record between those can have said where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.as_json import read_json
from kafka_ferry.clock import now_ms, run_id_now
from kafka_ferry.control import read_positions
from kafka_ferry.errors import InputError
from kafka_ferry.ledger import (
    LedgerError,
    SetAsideEntry,
    TransactionEntry,
    UnreadableRecord,
    append_entry,
    content_digest,
    ledger_topic,
    ledger_values,
    records_set_aside,
)
from kafka_ferry.ledger.record import VERSION
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import CopiedRange, Entry

_END: Final = 2**63


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """A record of a ledger's topic that is no entry.

    Attributes:
        offset: its offset.
        size: the bytes of its value.
        why: why it cannot be read.
        digest: of its value.
        hides: what no other record says, a sentence for each partition; none where all that was copied is in others.
        is_newer: whether it looks like an entry of a newer release.
        is_aside: whether it was set aside.
    """

    offset: int
    size: int
    why: str
    digest: str
    hides: tuple[str, ...] = ()
    is_newer: bool = False
    is_aside: bool = False


class _Gap(NamedTuple):
    """Source offsets ``[start, end)`` that no entry has, between two ledger offsets; ``start`` -1 where unknown."""

    source: str
    start: int
    end: int
    after: int
    before: int


class LedgerRecords:
    """The records of a flow's ledger that are no entries."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.topic = ledger_topic(flow.source.alias)

    def unreadable(self) -> list[LedgerRecord]:
        """All of them, with what they hide of this flow; reads the ledger's topic whole.

        Raises:
            FerryError: if the target does not answer, or the flow's positions cannot be read.
        """
        entries: list[tuple[int, Entry]] = []
        unreadable: list[LedgerRecord] = []
        for at, value, entry, _ in ledger_values(self._flow.target, self.topic, 0):
            if isinstance(entry, LedgerError):
                unreadable.append(
                    LedgerRecord(
                        offset=at,
                        size=len(value or b""),
                        why=entry.message,
                        digest=content_digest(value),
                        is_newer=_is_newer(value or b""),
                    )
                )
            else:
                entries.append((at, entry))
        aside = records_set_aside(entry for _, entry in entries)
        gaps = list(self._gaps(entries)) if unreadable else []
        return [
            replace(
                it,
                hides=tuple(_sentence(gap) for gap in gaps if gap.after < it.offset < gap.before),
                is_aside=aside.get(it.offset) == it.digest,
            )
            for it in unreadable
        ]

    def set_aside(self, offsets: Collection[int], reason: str) -> list[LedgerRecord]:
        """Set records aside, by their offsets: every flow of this ledger passes over them from here on.

        Raises:
            InputError: if one of them is no unreadable record; nothing is changed then.
        """
        known = {record.offset: record for record in self.unreadable()}
        for offset in offsets:
            if offset not in known:
                raise InputError(
                    f"{self.topic} has no unreadable record at the offset {offset}.",
                    advice="ferry repair --ledger lists those that it has.",
                )
        chosen = [known[offset] for offset in sorted(set(offsets))]
        entry = SetAsideEntry(
            flow=self._flow.name,
            run=run_id_now("repair"),
            at=now_ms(),
            records=tuple(
                UnreadableRecord(offset=unreadable.offset, digest=unreadable.digest)
                for unreadable in chosen
            ),
            reason=reason,
        )
        append_entry(self._flow, entry)
        return chosen

    def _gaps(self, entries: Collection[tuple[int, Entry]]) -> Iterator[_Gap]:
        """Where the flow's ranges do not join, and where they end before the position."""
        last: dict[TopicPartition, tuple[int, int, str, str]] = {}
        for at, entry in entries:
            if entry.flow != self._flow.name or not isinstance(entry, TransactionEntry):
                continue
            for copied in entry.ranges:
                target = TopicPartition(copied.remote_topic, copied.partition)
                source = str(TopicPartition(copied.topic, copied.partition))
                end, before, ids, _ = last.get(target, (copied.start, -1, "", source))
                now = f"{copied.topic_id} {copied.remote_topic_id}"
                if copied.start > end and now == ids and copied.rewound_from < 0:
                    yield _Gap(source, end, copied.start, before, at)
                if target not in last and _follows_others(copied):
                    yield _Gap(source, -1, copied.start, before, at)
                last[target] = copied.end, at, now, source
        for target, position in read_positions(self._flow.target, self._flow.name).items():
            end, before, _, source = last.get(target, (0, -1, "", f"what is copied to {target}"))
            if position.offset > end:
                yield _Gap(source, end, position.offset, before, _END)


def _follows_others(copied: CopiedRange) -> bool:
    """Whether something lay on the target before a partition's first range, which may have been copied too."""
    return (
        copied.start > 0
        and not copied.preserved
        and any(segment.target for segment in copied.segments[:1])
    )


def _sentence(gap: _Gap) -> str:
    if gap.start < 0:
        return f"offsets before {gap.end} of {gap.source}, which no other record has"
    return f"offsets [{gap.start}, {gap.end}) of {gap.source}, which no other record has"


def _is_newer(value: bytes) -> bool:
    try:
        document = read_json(value)
    except ValueError:
        return False
    version = document.get("version") if isinstance(document, dict) else None
    return isinstance(version, int) and version > VERSION
