"""What every server process of the sandbox needs: an end with its parent, and a log to quote."""

from __future__ import annotations

import subprocess
from pathlib import Path


class OrphanGuard:
    """Kills processes when this process ends, however it ends.

    Args:
        target: as for ``kill``: a process id, or the negative id of a process group.
    """

    def __init__(self, target: int) -> None:
        # The pipe's other end closes with this process, whatever ends it.
        self._watcher = subprocess.Popen(
            ["sh", "-c", 'read -r _; kill -KILL "$0" 2>/dev/null', str(target)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def release(self) -> None:
        """Watch no more, and kill nothing."""
        self._watcher.kill()
        self._watcher.wait()
        if self._watcher.stdin:
            self._watcher.stdin.close()


def end(child: subprocess.Popen[bytes] | None, guard: OrphanGuard | None) -> None:
    """Kill a process and wait until it is gone, and let its guard go; either may be None."""
    if guard:
        guard.release()
    if child:
        child.kill()
        child.wait()


def last_lines(log: Path, lines: int = 20) -> str:
    """The end of a log file, with a line before it that names the file."""
    try:
        end = log.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return f"It left no {log}."
    return "\n".join([f"The last lines of {log}:", *end])
