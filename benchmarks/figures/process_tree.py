"""What all the processes of a command used: processor time, and memory at its peak.

The processor time is the kernel's own count of every process that ended, however short it lived,
and not a sum of samples. A descendant whose parent has gone comes to this process, which waits for
it too. Where a parent ignores that its children end, as the daemon does that Spark forks its Python
workers from, the kernel forgets what they used: of these the last sample counts. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from benchmarks.figures import proc

_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37
_SHARE_OF_A_CORE = 0.05
"""How much the sampling itself may take: reading what a large process shares takes milliseconds."""

Kind = Literal["driver", "JVM", "worker"]


@dataclass(frozen=True)
class Process:
    """A process as it was last seen.

    Attributes:
        name: of its program.
        kind: ``JVM`` is any Java, ``driver`` what else this process started itself, ``worker`` the rest.
        peak_rss: its largest resident set so far, in bytes, as the kernel keeps it.
    """

    name: str
    kind: Kind
    peak_rss: int


@dataclass(frozen=True)
class Usage:
    """What the processes used.

    Attributes:
        cpu_s: user and system time of all of them, in seconds.
        peak_pss: the largest sum of their proportional set sizes at one moment, in bytes.
        processes: those that lived long enough to be seen.
        outlived: the programs that still ran ``grace`` seconds after the block, and were killed.
        sampling_s: processor time of the sampling itself; not part of ``cpu_s``.
    """

    cpu_s: float
    peak_pss: int
    processes: tuple[Process, ...]
    outlived: tuple[str, ...]
    sampling_s: float

    @property
    def sum_of_peaks(self) -> int:
        """Each process's own peak, added up, in bytes: shared pages count in each, whenever it was."""
        return sum(process.peak_rss for process in self.processes)

    def largest(self, kind: Kind) -> int:
        """The peak of the largest process of a kind, in bytes; 0 if there was none."""
        return max((p.peak_rss for p in self.processes if p.kind == kind), default=0)


class ProcessTree:
    """Watches all that is started in a ``with`` block, with its descendants; ``usage`` tells afterwards.

    What runs already is left out. What the block starts itself it has to wait for itself; what it
    leaves running is waited for at the end. One at a time in a process.

    Args:
        interval: seconds between samples of the memory, at least.
        grace: seconds that processes that are left over get to end before they are killed.
    """

    def __init__(self, *, interval: float = 0.1, grace: float = 10) -> None:
        self.usage = Usage(0.0, 0, (), (), 0.0)
        self._interval = interval
        self._grace = grace
        self._seen: dict[tuple[int, int], Process] = {}
        self._peak_pss = 0
        self._never_waited_for: dict[tuple[int, int], float] = {}
        self._sampling_s = 0.0
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample_on, daemon=True)

    def __enter__(self) -> ProcessTree:
        self._others = proc.children(os.getpid())
        self._was_subreaper = _subreaper()
        _be_subreaper(True)
        self._cpu_before = _cpu_of_ended()
        self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._sampler.join()
        outlived = self._wait_for_the_rest()
        _be_subreaper(self._was_subreaper)
        cpu = _cpu_of_ended() - self._cpu_before + sum(self._never_waited_for.values())
        processes = tuple(self._seen.values())
        self.usage = Usage(cpu, self._peak_pss, processes, tuple(outlived), self._sampling_s)

    def _sample_on(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            began = time.thread_time()
            self._sample()
            took = time.thread_time() - began
            self._sampling_s += took
            pause = max(self._interval, took / _SHARE_OF_A_CORE)

    def _sample(self) -> None:
        parents = proc.parents()
        members = _descendants(os.getpid(), parents, self._others)
        pss = 0
        for pid in members:
            try:
                if parents[pid] == os.getpid() and not proc.has_executed(pid):
                    continue
                began = proc.began(pid)
                peak, name = proc.peak_rss(pid)
                pss += proc.pss(pid)
                if proc.ignores_its_children(parents[pid]):
                    self._never_waited_for[pid, began] = proc.cpu_s(pid)
            except (OSError, LookupError):
                # It has ended: a zombie has no memory.
                continue
            known = self._seen.get((pid, began))
            ours = known.kind == "driver" if known else parents[pid] == os.getpid()
            kind: Kind = "JVM" if name == "java" else "driver" if ours else "worker"
            # The last peak and not the largest: a program that is replaced by another one starts at zero.
            self._seen[pid, began] = Process(name, kind, peak)
        self._peak_pss = max(self._peak_pss, pss)

    def _wait_for_the_rest(self) -> list[str]:
        """Wait for what came to this process; the names of what had to be killed."""
        killed: dict[int, str] = {}
        deadline = time.monotonic() + self._grace
        while rest := proc.children(os.getpid()) - self._others:
            for pid in rest:
                ended, _ = os.waitpid(pid, os.WNOHANG)
                if not ended and time.monotonic() > deadline and pid not in killed:
                    killed[pid] = proc.name(pid)
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        return sorted(killed.values())


def _cpu_of_ended() -> float:
    """Seconds of all children of this process that were waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _descendants(root: int, parents: dict[int, int], without: Iterable[int]) -> set[int]:
    """All that come from ``root``, but for some of its children and theirs."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    left_out, found, todo = set(without), set(), [root]
    while todo:
        new = set(children.get(todo.pop(), ())) - left_out
        found |= new
        todo += new
    return found


_libc = ctypes.CDLL(None, use_errno=True)


def _subreaper() -> bool:
    flag = ctypes.c_int()
    _libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return bool(flag.value)


def _be_subreaper(wanted: bool) -> None:
    """Whether orphans among this process's descendants become its children."""
    if _libc.prctl(_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
