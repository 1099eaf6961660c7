"""What the kernel tells of each process in ``/proc``. Of one that has ended it tells nothing, or half."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_PROC = Path("/proc")
# linux/sched.h: PF_FORKNOEXEC
_NOT_EXECUTED = 0x40


def parents() -> dict[int, int]:
    """Each process's parent."""
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = int(_stat(int(folder.name))[1])
            except OSError:
                continue
    return found


def children(pid: int) -> set[int]:
    """A process's children."""
    return {child for child, parent in parents().items() if parent == pid}


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` after the name: state, parent, ..."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def began(pid: int) -> int:
    """When a process began, so that one that gets its id later is another one."""
    return int(_stat(pid)[19])


def has_executed(pid: int) -> bool:
    """Whether it runs a program of its own yet: until then its memory is that of the process that has started it."""
    return not int(_stat(pid)[6]) & _NOT_EXECUTED


def name(pid: int) -> str:
    """Of the program, cut to 15 characters."""
    return (_PROC / str(pid) / "comm").read_text().strip()


def peak_rss(pid: int) -> tuple[int, str]:
    """Bytes, and the program's name."""
    fields = _status(pid)
    return _bytes(fields["VmHWM"]), fields["Name"].strip()


def cpu_s(pid: int) -> float:
    """Seconds of user and system time, of its threads and of the children that it waited for."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def ignores_its_children(pid: int) -> bool:
    """Whether it ignores SIGCHLD: what its children used is then in no account when they end."""
    return bool(int(_status(pid)["SigIgn"], 16) >> (signal.SIGCHLD - 1) & 1)


def _status(pid: int) -> dict[str, str]:
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    return dict(line.partition(":")[::2] for line in lines)


def pss(pid: int) -> int:
    """The proportional set size in bytes: a page that three share counts a third in each."""
    lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return _bytes(dict(line.partition(":")[::2] for line in lines)["Pss"])


def _bytes(kilobytes: str) -> int:
    return int(kilobytes.split(maxsplit=1)[0]) * 1024
