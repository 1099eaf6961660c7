from __future__ import annotations

import io

from kafka_ferry.cli.terminal import _Terminal


def test_a_name_from_a_cluster_cannot_rewrite_the_terminal() -> None:
    written = io.StringIO()
    terminal = _Terminal(file=written, soft_wrap=True)
    terminal.print("group \x1b[2J\x1b[1;1Hverified", markup=False)
    assert written.getvalue() == "group \\x1b[2J\\x1b[1;1Hverified\n"
