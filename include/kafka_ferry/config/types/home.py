"""Where the relative paths of a flow's file begin."""

from __future__ import annotations

import os
from pathlib import Path


def at_home(path: str) -> Path:
    """A path of a flow's file as an absolute one: a relative path starts at ``FERRY_HOME``, or else here."""
    home = Path(os.environ.get("FERRY_HOME") or Path.cwd())
    return (home / Path(path).expanduser()).absolute()
