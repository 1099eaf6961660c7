"""Great Expectations, imported when it is needed, and without what our expectations never touch.

With all that it imports if it finds it, the import takes four seconds of a processor; so it takes one.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

# It looks whether these are installed, and goes without them otherwise.
_OPTIONAL: Final = (
    "pyspark.ml",
    "pyspark.ml.feature",
    "pyspark.sql.connect.dataframe",
    "sqlalchemy",
)
# It has these at hand for a few of its own expectations, which a user may ask for.
_SELDOM: Final = ("altair", "scipy.stats")
_lock = threading.Lock()


def great_expectations() -> Any:
    """The module ``great_expectations``, with its ``expectations`` imported."""
    with _lock:
        if "great_expectations" not in sys.modules:
            _defer(_SELDOM)
            with _hidden(_OPTIONAL):
                importlib.import_module("great_expectations.expectations")
    return sys.modules["great_expectations"]


def import_in_background() -> None:
    """Begin to import it, while this process waits for others."""
    threading.Thread(target=great_expectations, name="great-expectations", daemon=True).start()


class _Deferred(ModuleType):
    """Stands for a module until something asks for what is in it."""

    def __getattr__(self, name: str) -> Any:
        # What the import system asks each module for is asked of those that were imported, too.
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _defer(modules: tuple[str, ...]) -> None:
    for name in modules:
        sys.modules.setdefault(name, _Deferred(name))


@contextmanager
def _hidden(modules: tuple[str, ...]) -> Iterator[None]:
    """Within it, those of the modules that were not imported before cannot be."""
    hidden = [name for name in modules if name not in sys.modules]
    known: dict[str, Any] = sys.modules
    known.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            known.pop(name, None)
