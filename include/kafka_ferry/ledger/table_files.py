"""The Parquet files of a projected ledger: which to read, and what of each."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_ferry.errors import StateUnwritable
from kafka_ferry.ledger.rows import SCHEMA
from kafka_ferry.ledger.synced import DAMAGE, require_own_file, write_own_table
from kafka_ferry.state import StateFolder

# A run asks some sixty questions of the table, most of them more than once, and adds a file or two: small files are
# read once, and small answers are kept. Of a file's some forty columns, each takes longer to compress than a few
# values take to write.
_SMALL_BYTES: Final = 64 * 1024
# What is asked once for each of many partitions would otherwise make the list long, and each look at it.
_KEPT_ANSWERS: Final = 128
_holds: ContextVar[bool] = ContextVar("holds", default=False)
log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet")


@contextmanager
def held_if_unwritable() -> Iterator[None]:
    """In the body, files that the state folder does not take are held in memory, and none are merged.

    For a command that reads alone: a full disk, or a folder of another user, must not stop it in an emergency.
    """
    token = _holds.set(True)
    try:
        yield
    finally:
        _holds.reset(token)


def holds_files() -> bool:
    """Whether the caller is in the body of ``held_if_unwritable``."""
    return _holds.get()


class TablePart(NamedTuple):
    """The rows of a file from the ledger offset ``start`` on, up to ``end``.

    Attributes:
        written: when the file was, in nanoseconds since 1970.
        size: the file's, in bytes.
    """

    name: str
    start: int
    end: int
    written: int
    size: int

    @property
    def is_small(self) -> bool:
        """Whether its rows stay in memory once they were read."""
        return self.size <= _SMALL_BYTES


class TableFiles:
    """The files ``{first}-{next}.parquet`` in a folder; those with other names are left alone.

    Args:
        folder: the state folder that holds them.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._held: dict[str, bytes] = {}
        self._small: dict[TablePart, pa.Table] = {}
        self._joined: dict[tuple[TablePart, ...], pa.Table] = {}
        self._answered: tuple[TablePart, ...] = ()
        self._answers = deque[tuple[pc.Expression | None, list[str] | None, pa.Table]](
            maxlen=_KEPT_ANSWERS
        )

    def names(self) -> list[str]:
        """All files, also those that hold nothing to be read."""
        return sorted(self._stamps())

    def parts(self) -> list[TablePart]:
        """What to read of each file so that every ledger offset from 0 on is read once, up to the first gap.

        Files may overlap: an interrupted merge leaves both, and two concurrent runs of a flow project
        the same entries.
        """
        parts: list[TablePart] = []
        at = 0
        stamps = self._stamps()
        intervals = {name: _interval(name) for name in stamps}
        for name in sorted(intervals, key=lambda name: (intervals[name][0], -intervals[name][1])):
            first, following = intervals[name]
            if first <= at < following:
                parts.append(TablePart(name, at, following, *stamps[name]))
                at = following
        return parts

    def read(
        self,
        parts: Sequence[TablePart],
        filter_: pc.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        """The rows of ``parts`` that match, in ledger order.

        Raises:
            FileNotFoundError: a file was deleted since it was listed.
            OSError, pa.ArrowException: one is damaged, see ``damaged_files``.
        """
        if self._answered != tuple(parts):
            self._answered = tuple(parts)
            self._answers.clear()
            self._small = {part: rows for part, rows in self._small.items() if part in parts}
        for earlier, its_columns, rows in self._answers:
            if its_columns == columns and _is_same(earlier, filter_):
                return rows
        rows = self._select(parts, filter_, columns)
        if rows.nbytes <= _SMALL_BYTES:
            self._answers.append((filter_, columns, rows))
        return rows

    def _select(
        self, parts: Sequence[TablePart], filter_: pc.Expression | None, columns: list[str] | None
    ) -> pa.Table:
        tables = []
        for are_small, group in groupby(parts, key=lambda part: part.is_small):
            if are_small:
                rows = self._rows_of_small(tuple(group))
                chosen = rows.select(columns) if columns else rows
                tables.append(chosen if filter_ is None else chosen.filter(_mask(rows, filter_)))
            else:
                tables += [self._rows_of(part, filter_, columns) for part in group]
        if not tables:
            return SCHEMA.empty_table().select(columns or SCHEMA.names)
        return pa.concat_tables(tables)

    def damaged_files(self, parts: Iterable[TablePart]) -> list[str]:
        """The files of ``parts`` that are damaged; one that is gone, or whose storage fails, is not."""
        return [part.name for part in parts if self._is_damaged(part.name)]

    def write(self, rows: pa.Table, first: int, following: int) -> str:
        """Write the rows of the ledger offsets from ``first`` to ``following``; returns the file's name."""
        sink, name = pa.BufferOutputStream(), f"{first:020d}-{following:020d}.parquet"
        is_small = rows.nbytes <= _SMALL_BYTES
        write_own_table(rows, sink, compression="none" if is_small else "zstd")
        content = sink.getvalue().to_pybytes()
        try:
            self._folder.write(name, content)
        except StateUnwritable as error:
            if not holds_files():
                raise
            if not self._held:
                log.warning("%s What is new in the ledger is held in memory.", error.message)
            self._held[name] = content
        return name

    def forget_held(self) -> None:
        """Give up what is held in memory alone."""
        self._held.clear()

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = self._folder.stamps(".parquet")
        stamps |= {name: (0, len(content)) for name, content in self._held.items()}
        return {name: stamp for name, stamp in stamps.items() if _NAME.fullmatch(name)}

    def _rows_of_small(self, parts: tuple[TablePart, ...]) -> pa.Table:
        if parts not in self._joined:
            for part in parts:
                if part not in self._small:
                    self._small[part] = self._all_rows_of(part)
            joined = pa.concat_tables(self._small[part] for part in parts)
            self._joined = {parts: joined.combine_chunks()}
        return self._joined[parts]

    def _open(self, name: str) -> pa.NativeFile:
        content = self._held.get(name)
        return self._folder.open_parquet(name) if content is None else pa.BufferReader(content)

    def _all_rows_of(self, part: TablePart) -> pa.Table:
        """As ``_rows_of``, without what makes large files faster and small ones slower."""
        file = self._open(part.name)
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        require_own_file(parquet.metadata, part.size, SCHEMA)
        rows = parquet.read(use_threads=False)
        if _interval(part.name)[0] < part.start:
            rows = rows.filter(pc.field("ledger_offset") >= part.start)
        return rows

    def _rows_of(
        self,
        part: TablePart,
        filter_: pc.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        wanted = pc.field("ledger_offset") >= part.start
        file = self._open(part.name)
        require_own_file(pq.read_metadata(file), part.size, SCHEMA)
        return pq.read_table(
            file,
            columns=columns,
            filters=wanted if filter_ is None else wanted & filter_,
            page_checksum_verification=True,
        )

    def _is_damaged(self, name: str) -> bool:
        content = self._folder.read(name)
        if content is None:
            return False
        try:
            file = pa.BufferReader(content)
            require_own_file(pq.read_metadata(file), len(content), SCHEMA)
            pq.read_table(file, page_checksum_verification=True)
        except DAMAGE:
            return True
        return False


def _is_same(one: pc.Expression | None, other: pc.Expression | None) -> bool:
    return one is other or (one is not None and other is not None and one.equals(other))


def _mask(rows: pa.Table, filter_: pc.Expression) -> pa.ChunkedArray:
    """Which rows match, computed on this thread: waking others takes longer than few rows do.

    ``Table.filter`` by an expression would also copy all columns, of which few are asked for.
    """
    from pyarrow import acero  # noqa: PLC0415

    steps = (
        acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
        acero.Declaration("project", acero.ProjectNodeOptions([filter_], ["matches"])),
    )
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False)["matches"]


def _interval(name: str) -> tuple[int, int]:
    first, following = name.removesuffix(".parquet").split("-")
    return int(first), int(following)
