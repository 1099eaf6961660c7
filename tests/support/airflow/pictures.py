"""Brings the pictures that the docs show up to date: ``python -m tests.support.airflow.pictures``.

The tests in a browser leave theirs in ``.screenshots``; those that a page of the docs shows are copied to
``docs/images``.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from tests import PROJECT
from tests.support.airflow.browser import SCREENSHOTS

DOCS = PROJECT / "docs"
IMAGES = DOCS / "images"
_SHOWN = re.compile(r"!\[[^\]]+\]\((?:docs/|\.\./)?images/([\w-]+\.png)\)")


def shown() -> set[str]:
    """The names of all pictures that a page of the docs, or the README, shows."""
    pages = [*DOCS.rglob("*.md"), PROJECT / "README.md"]
    return {name for page in pages for name in _SHOWN.findall(page.read_text())}


def refresh(taken: Path = SCREENSHOTS, images: Path = IMAGES) -> list[str]:
    """Copies what was taken of them; gives the names of those that were not."""
    images.mkdir(exist_ok=True)
    missing = []
    for name in sorted(shown()):
        if (taken / name).is_file():
            shutil.copyfile(taken / name, images / name)
        else:
            missing.append(name)
    return missing


if __name__ == "__main__":
    if not_taken := refresh():
        sys.exit(f"No test has taken {', '.join(not_taken)}.")
