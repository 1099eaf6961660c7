"""The ledger's projection: a Parquet table in the flow's state folder, one row per entry or copied range.

A file's name says which ledger offsets it holds, ``{first}-{next}.parquet``: where to continue follows
from the names, nothing else is stored. The table may be deleted at any time, as a whole or file by file;
the next projection recreates it from the topic. The same happens to a file that cannot be read, for
example after a power cut. Files with other names are left alone.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.config import Cluster
from kafka_ferry.ledger.claims import CLAIMED, EntryClaim, claim_of, claims_in
from kafka_ferry.ledger.record import Entry, LedgerError
from kafka_ferry.ledger.rows import SCHEMA, rows_of
from kafka_ferry.ledger.synced import DAMAGE, stored_end
from kafka_ferry.ledger.table_files import TableFiles, TablePart, holds_files
from kafka_ferry.ledger.topic import read_ledger
from kafka_ferry.state import StateFolder

log = logging.getLogger(__name__)

# An hourly flow writes some 9,000 files a year; they are merged whenever there are so many.
_MERGE_AT: Final = 64
_ROWS_AT_ONCE: Final = 20_000
# Entries closer to the end are read anyway.
_NEAR: Final = 500
_OF_ALL_FLOWS: Final = frozenset({"ownership", "release"})
_PAUSES_S: Final = (0.01, 0.1, 0.5, 1.0)


class _OfAnotherTopicError(Exception):
    """The table disagrees with the topic."""


class Projection:
    """The projected ledger of one flow.

    Args:
        folder: the state folder that holds the table's files and nothing else.
        flow: the flow's name; of other flows in the same ledger, only what they own is known.
    """

    def __init__(self, folder: StateFolder, flow: str) -> None:
        self._folder = folder
        self._files = TableFiles(folder)
        self._flow = flow
        self._complete_to = 0
        # What the last projection left: a run asks some thirty questions, and a store's list takes a request each.
        self._parts: list[TablePart] = []
        self._topic: tuple[Cluster, str] | None = None
        # The newest entry that was read since the whole table was compared: the log may be truncated at any time.
        self._last_read: dict[int, EntryClaim] | None = None

    @property
    def next_offset(self) -> int:
        """The ledger offset to project next."""
        return max((part.end for part in self._parts or self._files.parts()), default=0)

    def project(
        self, target: Cluster, topic: str, *, is_relied_on: Callable[[], bool] = lambda: False
    ) -> int:
        """Append what is new in the ledger's topic.

        Args:
            target: the cluster that has it.
            topic: its name.
            is_relied_on: whether something was decided by the table, so that it may not be made anew by a topic that
                has lost a part of it; only asked where the two disagree.

        Returns:
            The ledger offset up to which the table is complete.

        Raises:
            LedgerError: if the two disagree, and the table is relied on.
        """
        self._topic = target, topic
        try:
            return self._project()
        except _OfAnotherTopicError:
            if is_relied_on():
                raise LedgerError(
                    f"The topic {topic} on {target.alias} no longer has all that this run has read of it: its log was "
                    "truncated (an unclean leader election, a power cut?), or another process has written to "
                    f"{self._folder.location}.",
                    advice="Run the flow again: its plan compares the copies with what is left of the ledger. "
                    "`ferry audit` says whether they lack anything, or have it twice.",
                ) from None
            log.warning(
                "The table of the ledger %s disagrees with the topic: it is recreated.", topic
            )
            self._folder.delete(self._folder.names())
            self._files.forget_held()
            self._complete_to, self._last_read = 0, None
            return self._project()

    def _project(self) -> int:
        self._parts = self._files.parts()
        rows: list[dict[str, Any]] = []
        # Once: another run may delete or write files meanwhile, and the file's name says what it holds.
        begin = first = following = self.next_offset
        for offset, entry in self._new_entries(first):
            following = offset + 1
            if entry.flow == self._flow or entry.type in _OF_ALL_FLOWS:
                rows.extend(rows_of(offset, entry))
            if len(rows) >= _ROWS_AT_ONCE:
                self._append(rows, first, following)
                rows, first = [], following
        if following > first:
            self._append(rows, first, following)
        self._complete_to = following
        if following > begin:
            self._parts = self._files.parts()
        if len(self._parts) >= _MERGE_AT and not holds_files():
            self._merge()
        return following

    def _new_entries(self, first: int) -> Iterator[tuple[int, Entry]]:
        """The topic's entries that the table does not have.

        Raises:
            _OfAnotherTopicError: the topic lacks the table's entries: it was recreated, has lost records,
                or another process has written to the state folder.
        """
        assert self._topic is not None
        known = self._last_read
        claims = claims_in(self.read(columns=CLAIMED)) if known is None else {**known}
        # Another run may have begun the table anew meanwhile.
        claims = {at: it for at, it in claims.items() if at < first}
        for far in [offset for offset in claims if first - offset > _NEAR]:
            offset, entry = next(read_ledger(*self._topic, far), (-1, None))
            if offset != far or entry is None or claim_of(entry) != claims.pop(far):
                raise _OfAnotherTopicError
        newest = {at: it for at, it in claims.items() if at == max(claims)}
        start = min([first, *claims])
        for offset, entry in read_ledger(*self._topic, start):
            if offset < start or (offset >= first and claims):
                raise _OfAnotherTopicError
            if offset >= first:
                newest = {offset: claim_of(entry)}
                yield offset, entry
            elif claims.get(offset) == claim_of(entry):
                del claims[offset]
        if claims:
            raise _OfAnotherTopicError
        self._last_read = newest

    def read(
        self, filter_: pc.Expression | None = None, columns: list[str] | None = None
    ) -> pa.Table:
        """The rows that match, in ledger order.

        Raises:
            LedgerError: transient, if the table is repeatedly deleted meanwhile, or if a file is damaged
                and nothing was projected yet.
        """
        return self._rows_and_end(filter_, columns)[0]

    def _rows_and_end(
        self, filter_: pc.Expression | None, columns: list[str] | None = None
    ) -> tuple[pa.Table, int]:
        """What ``read`` returns, and the ledger offset up to which these rows are complete."""
        for pause_s in _PAUSES_S:
            parts = self._parts or self._files.parts()
            end = max((part.end for part in parts), default=0)
            if end >= self._complete_to:
                # Another run of the flow may have merged the files since they were listed.
                with contextlib.suppress(FileNotFoundError):
                    try:
                        return self._files.read(parts, filter_, columns), end
                    except DAMAGE:
                        if not self._mend(parts):
                            raise
            self._parts = []
            time.sleep(pause_s)
        raise LedgerError(
            f"The ledger's table in {self._folder.location} was deleted while it was read.",
            advice="Run it again: the table is recreated.",
            transient=True,
        )

    def _mend(self, parts: Sequence[TablePart]) -> bool:
        """Project the content of damaged files again; returns whether there were any."""
        damaged = self._files.damaged_files(parts)
        if damaged:
            self.project_again(damaged)
        return bool(damaged)

    def project_again(self, damaged: Sequence[str], *, all_of_it: bool = False) -> None:
        """Delete damaged files, or with them the whole table, and project what they held.

        Raises:
            LedgerError: transient, if nothing was projected yet.
        """
        where = f"{', '.join(damaged)} in {self._folder.location}"
        if self._topic is None:
            raise LedgerError(
                f"The ledger's table cannot be read: {where}.",
                advice="Run the flow: it recreates the table from the ledger's topic.",
                transient=True,
            )
        log.warning("%s cannot be read: it is recreated from the ledger's topic.", where)
        self._folder.delete([*damaged, *(self._files.names() if all_of_it else ())])
        self._complete_to, self._last_read = 0, None
        self.project(*self._topic)

    def _append(self, rows: list[dict[str, Any]], first: int, following: int) -> None:
        self._files.write(pa.Table.from_pylist(rows, SCHEMA), first, following)

    def _merge(self) -> None:
        names = self._files.names()
        # Folded entries are not read again, and may be most of the table.
        folded = stored_end(self._folder)
        needed = (pc.field("type") != "groups") | (pc.field("ledger_offset") >= folded)
        rows, end = self._rows_and_end(needed)
        merged = self._files.write(rows, 0, end)
        self._folder.delete(name for name in names if name != merged)
        self._parts = self._files.parts()
