"""Makes the imports of a short process quicker: they take longer than most of what it does."""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from importlib.abc import MetaPathFinder


def prepare_imports() -> None:
    """Prepare this process; call it before large imports, and before there is another thread."""
    _collect_seldom()
    _forgo_pandas()


def _collect_seldom() -> None:
    """Collect garbage after 50,000 new objects instead of 700: imports create a million that stay.

    At the end, Python would look through all of them for half a second, before the system frees them anyway.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def _forgo_pandas() -> None:
    """Let PyArrow do without pandas until it is to convert to it.

    The first Python value that it converts makes PyArrow import pandas, in case it is one of its own.
    That takes a third of a second and 40 MB, in Spark's Python daemon too. A conversion to pandas still imports it.
    """
    if "pandas" in sys.modules:
        return
    # An entry of None in sys.modules would do for Python code, but not for PyArrow's, which is compiled.
    sys.meta_path.insert(0, no_pandas := _NoPandas())
    try:
        importlib.import_module("pyarrow").scalar(0)
    finally:
        sys.meta_path.remove(no_pandas)


class _NoPandas(MetaPathFinder):
    """Finds that pandas is not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
