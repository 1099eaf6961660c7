"""A file system of a few megabytes for a broker's logs, which is really full when it is full."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

needs_mount = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0,
    reason="only root may mount a file system",
)


class SmallDisk:
    """A file system in memory, mounted for the length of a ``with`` block.

    Args:
        folder: where; made if absent.
        size: bytes that it holds.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self._size = size
        self._filler = folder / "filler"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={self._size}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ferry", self.folder], check=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def fill(self, *, left: int) -> None:
        """Leave room for only so many bytes."""
        found = os.statvfs(self.folder)
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, found.f_bavail * found.f_frsize - left)

    def make_room(self) -> None:
        """Take back what ``fill`` did."""
        self._filler.unlink()
