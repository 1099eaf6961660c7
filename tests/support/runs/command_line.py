"""The command line: in this process, or in one of its own where a test is about that or Spark is started."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

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
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | (environment or {}),
    )
    return Called(done.returncode, done.stdout, done.stderr)
