"""A file that other code wants to have a name, and that is nowhere on a disk: it ends with its process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: str) -> Iterator[str]:
    """The name of a file with that content, for this process and those that it starts, while it is held.

    Where the system has no such files (macOS), it is a temporary one that only its owner may read.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("kafka-ferry")
    try:
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "w", encoding="utf-8", closefd=False) as written:
            written.write(content)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)
