"""A file for code that needs a file name, held in memory only: it disappears with its process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: str | bytes) -> Iterator[str]:
    """Yields the name of a file with that content, valid in this process and its children.

    Where the system has no such files (macOS), it is a temporary file that only its owner may read.
    """
    data = content.encode() if isinstance(content, str) else content
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile("wb") as file:
            file.write(data)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("kafka-ferry")
    try:
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb", closefd=False) as written:
            written.write(data)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)
