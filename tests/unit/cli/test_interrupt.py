"""Ctrl-C while a command waits for a cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

from kafka_sandbox.network.proxied import ProxyAddress
from tests.support.runs.command_line import ferry_in_terminal
from tests.support.runs.flows import write_flow


class Silent:
    """A broker that takes a connection and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("localhost", 0))
        self.bootstrap = f"localhost:{self._socket.getsockname()[1]}"

    def wait_for_a_client(self) -> None:
        self._socket.settimeout(60)
        self._socket.accept()

    def close(self) -> None:
        self._socket.close()


def test_a_command_that_is_interrupted_says_so_and_exits_as_a_shell_expects(tmp_path: Path) -> None:
    broker = Silent()
    file = write_flow(
        tmp_path, ProxyAddress(broker.bootstrap), ProxyAddress("localhost:1"), ["orders"]
    )
    run = ferry_in_terminal(
        "plan", "--config", file, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    broker.wait_for_a_client()
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    broker.close()

    assert (run.returncode, out) == (130, b"")
    assert err.decode().strip() == (
        "Interrupted. What was committed stays, and nothing is lost: run it again to continue."
    )
