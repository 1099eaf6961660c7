"""Where the relative paths of a flow's file begin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

HOME: Final = "FERRY_HOME"
"""The variable with the folder at which relative paths start."""
_CONFIGS: Final = ("include", "configs")
# PATH_MAX of Linux: no file has a longer path.
_LONGEST: Final = 4_096


def at_home(path: str, file: str = "") -> Path:
    """A path of a flow's file as an absolute one.

    A relative path starts at ``FERRY_HOME``. Without that, it starts at the folder of the file, or at the folder that
    has ``include`` if the file lies in ``include/configs``: never where a command happens to be called.

    Args:
        path: absolute or relative, ``~`` too.
        file: the flow's file; "" for none, whose relative paths start in the current folder.
    """
    home = os.environ.get(HOME)
    return (Path(home) if home else _folder_of(file)).joinpath(Path(path).expanduser()).absolute()


def follow_links(path: Path) -> Path:
    """What a path is with its links followed; the root for one that is longer than any file's.

    No folder that is allowed is above the root, and to follow such a path takes the square of its length.
    """
    return path.resolve() if len(str(path)) <= _LONGEST else Path(path.anchor)


def _folder_of(file: str) -> Path:
    if not file:
        return Path.cwd()
    folder = Path(file).absolute().parent
    for parent in (folder, *folder.parents):
        if parent.parts[-2:] == _CONFIGS:
            return parent.parents[1]
    return folder
