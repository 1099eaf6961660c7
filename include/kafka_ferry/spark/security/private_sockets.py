"""Folders for sockets, and for a JVM's temporary files, that only this user reaches."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import stat
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_PRIVATE: Final = 0o700
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: process, user, group


def short_folder() -> str:
    """The folder for temporary files, or ``/tmp``: a socket's path may have about a hundred characters."""
    folder = tempfile.gettempdir()
    return folder if len(folder) < 40 else "/tmp"


@cache
def driver_folder() -> str:
    """A folder that only this user may enter; deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="ferry-", dir=short_folder())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def temporary_files_in(folder: str) -> str:
    """The option with which a JVM keeps its temporary files in a folder that only this user may enter.

    lz4-java, snappy-java and zstd-jni write their native code into such a file and load it. In a folder for all users,
    one who sees the file's name come could have opened it first, and have the JVM run other code.
    """
    return f'"-Djava.io.tmpdir={folder}"'


def is_private(folder: Path) -> bool:
    """Whether it is a folder, and no link to one, that only this user may enter."""
    status = folder.lstat()
    mode = stat.S_IMODE(status.st_mode)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and mode == _PRIVATE


def is_own_process(peer: socket.socket) -> bool:
    """Whether a process of this user is on the other side of a Unix socket, as far as the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):  # macOS
        return True
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())
