"""The checkpoint of a flow's copying query, and the files of its ranges.

Each start of the query writes what it is to copy to its own file, in the folder ``ranges`` next to Spark's
files. Spark's file source reads that folder, so Spark's log says which file was in which micro-batch, and
the file says from which to which offset. A task reads from the target where each range really starts, so
that an old checkpoint, or none, does no harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from kafka_ferry.as_json import AsJson
from kafka_ferry.errors import SparkFailed, StateUnreadable
from kafka_ferry.local_files import LinkRefused
from kafka_ferry.model import Range
from kafka_ferry.state import StateFolder

_RANGES: Final = "ranges"
_LOCATION: Final = "location"
# Spark's own: without the file no query starts that has a log.
_LOGS: Final = ("offsets", "commits")
_METADATA: Final = "metadata"
FILE_SUFFIX: Final = ".json"
# Spark's log of the file source keeps every file's name for ever, and each start reads it.
_MAX_FILES: Final = 500


@dataclass(frozen=True)
class StartRanges(AsJson):
    """What one start of the query is to copy.

    Attributes:
        run: the run's id.
        attempt: a unique text for this start of the query.
        at: when, in milliseconds since 1970.
        ranges: the ranges.
    """

    WHAT: ClassVar = "the ranges of a copying query"

    run: str
    attempt: str
    at: int
    ranges: tuple[Range, ...]


class QueryCheckpoint:
    """A folder for Spark's checkpoint of a copying query.

    Args:
        folder: the folder; it may be missing, or deleted whenever no query uses it.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._ranges = folder.folder(_RANGES)
        self.location = folder.location

    @property
    def has_ranges(self) -> bool:
        """Whether it is the checkpoint of a flow that has been run."""
        return bool(self._files())

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self._folder.local_path is not None

    @property
    def uri(self) -> str:
        """The checkpoint's location, for Spark."""
        return self._folder.uri

    @property
    def moved_from(self) -> str:
        """Where it was when a query used it last, as ``uri``; "" where it still is there, or that is not known."""
        before = self._location_before()
        return before if self.has_ranges and before != self.uri else ""

    @property
    def source_pattern(self) -> str:
        """The location of the files of ranges, escaped for Spark's file source, which reads a glob pattern."""
        return re.sub(r"([\\*?\[\]{}])", r"\\\1", self._ranges.uri)

    def add(self, start: StartRanges) -> None:
        """Add what this start of the query is to copy.

        Raises:
            SparkFailed: if it cannot be written.
            LinkRefused: a part of it is a symbolic link, which Spark would follow.
        """
        try:
            self._renew()
            if links := self._folder.links():
                raise LinkRefused(
                    f"{links[0]} is a symbolic link, and Spark would write where it leads.",
                    advice=f"Find out who writes in {self.location}, and delete that folder.",
                )
            if self._location_before() != self.uri:
                self._folder.write(_LOCATION, self.uri)
            self._ranges.write(f"{start.at}-{start.attempt}{FILE_SUFFIX}", start.to_json())
        except (OSError, StateUnreadable) as error:
            raise SparkFailed(
                f"The checkpoint {self.location} cannot be written: {error}",
                advice="Is its file system full or read-only? It may be deleted at any time.",
            ) from error

    def _renew(self) -> None:
        """Begin a new checkpoint if this one is too long, was moved, or has lost its files or their content.

        Spark's log has whole names of files, and no query starts where they are not. Spark does not flush what
        it writes either: after a power cut its last files may be empty.

        The run's own plan has the ranges of an unfinished micro-batch too.
        """
        files = len(self._files())
        logs = [name for log in _LOGS for name in self._folder.folder(log).names()]
        is_lost = logs and (not files or _METADATA not in self._folder.names())
        is_moved = files and self._location_before() != self.uri
        if files >= _MAX_FILES or is_lost or is_moved or self._folder.empty_files():
            for name in self._folder.folders():
                self._folder.delete_folder(name)
            self._folder.delete(self._folder.names())

    def _location_before(self) -> str:
        """Where it was when a query used it last; "" where none did."""
        return (self._folder.read(_LOCATION) or b"").decode(errors="replace")

    def _files(self) -> list[str]:
        return self._ranges.names(FILE_SUFFIX)
