"""The command line: in this process, or in one of its own where a test is about that."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import IO

import pytest

from kafka_ferry.cli import main


@dataclass(frozen=True)
class Called:
    """What a call has come to."""

    returncode: int
    stdout: str
    stderr: str


def ferry(*arguments: object) -> Called:
    """Calls ``ferry`` with these arguments, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["ferry", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Called(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def ferry_process(*arguments: object, environment: Mapping[str, str] | None = None) -> Called:
    """Calls ``ferry`` with these arguments, in a process of its own; ``environment`` is beside this one's."""
    command = [sys.executable, "-m", "kafka_ferry", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | (environment or {})
    )
    return Called(done.returncode, done.stdout, done.stderr)


def ferry_in_terminal(
    *arguments: object, stdout: int | IO[bytes], stderr: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """Starts ``ferry`` as a terminal does: in a process group of its own, which Ctrl-C reaches.

    A shell's background jobs ignore SIGINT, and so does what they start, such as these tests.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "kafka_ferry", *map(str, arguments)],
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (it takes no lock)
    )
