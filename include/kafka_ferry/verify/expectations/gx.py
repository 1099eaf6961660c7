"""Great Expectations, imported when needed, and without optional modules that our expectations never use.

With all optional modules, the import takes four seconds of CPU; without them, one.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Final

# It checks whether these are installed, and works without them.
_OPTIONAL: Final = (
    "pyspark.ml",
    "pyspark.ml.feature",
    "pyspark.sql.connect",
    "sqlalchemy",
)
# It uses these in a few of its own expectations, which a user may use.
_SELDOM: Final = ("altair", "scipy.stats")
# Its import would log, in 200 lines, what its own reference documentation leaves out.
_TALKATIVE: Final = (
    "great_expectations._docs_decorators",
    "great_expectations.expectations.registry",
)
_lock = threading.Lock()


def great_expectations() -> Any:
    """The module ``great_expectations``, with its ``expectations`` imported."""
    with _lock:
        if "great_expectations" not in sys.modules:
            for talkative in _TALKATIVE:
                logging.getLogger(talkative).setLevel(logging.WARNING)
            _defer(_SELDOM)
            with _hide(_OPTIONAL):
                importlib.import_module("great_expectations.expectations")
    return sys.modules["great_expectations"]


def import_in_background() -> None:
    """Import it in the background, while this process waits for others."""
    threading.Thread(target=great_expectations, name="great-expectations", daemon=True).start()


class _Deferred(ModuleType):
    """A placeholder for a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        # The import system reads these attributes of every imported module.
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _defer(modules: tuple[str, ...]) -> None:
    for name in modules:
        sys.modules.setdefault(name, _Deferred(name))


class _Hider(MetaPathFinder):
    """Hides modules from imports on the thread that has made it: PySpark may need them on another meanwhile."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = frozenset(modules)
        self._thread = threading.get_ident()

    def find_spec(self, name: str, *_: object) -> None:
        if name in self._modules and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not imported for Great Expectations", name=name)


@contextmanager
def _hide(modules: tuple[str, ...]) -> Iterator[None]:
    """Within it, this thread cannot import modules that were not imported before."""
    hider = _Hider(modules)
    sys.meta_path.insert(0, hider)
    try:
        yield
    finally:
        sys.meta_path.remove(hider)
