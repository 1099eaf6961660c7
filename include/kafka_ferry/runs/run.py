"""One run of a flow, step by step: plan, sync topics, mirror, verify, publish.

The command line, the DAG's tasks and the tests call these steps and nothing below them. Each step
may be repeated at any time: what is on the target decides what is left to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:

    pass
