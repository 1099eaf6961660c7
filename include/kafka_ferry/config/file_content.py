"""The content of files that a flow names, such as key stores: whole, and never without an end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 16 * 1024 * 1024
"""No key store, password file or flow has more."""


def content_of(file: Path) -> bytes:
    """The content of a file.

    Raises:
        OSError: it cannot be read, is no regular file (a device has no end, and a pipe may have no writer), or has
            more than 16 MiB.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(file))
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES // 2**20} MiB", str(file))
    return content
