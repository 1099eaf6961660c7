"""Ports that no other process is given."""

from __future__ import annotations

import subprocess
import sys

from kafka_sandbox.broker import free_port


def test_another_process_is_not_given_a_port_as_long_as_this_one_lives() -> None:
    port, free = free_port(), 19_500  # Above what free_port gives.
    program = (
        "from kafka_sandbox import broker;"
        f"broker._candidates = iter([{port}, {free}]); print(broker.free_port())"
    )
    given = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert int(given.stdout) == free
