"""Functions of transform rules on their way to tasks: with their code, so that executors need no files."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.transform import TransformFunction


def packed_functions(flow: Flow) -> bytes:
    """The functions that the flow's rules name, with the code of their files; empty if they name none.

    Raises:
        ConfigError: as ``load_functions``.
    """
    if not any(rule.function for rule in flow.transform):
        return b""
    from pyspark import cloudpickle

    from kafka_ferry.transform import load_functions

    functions, pickler = load_functions(flow), cast("Any", cloudpickle)
    for function in functions.values():
        pickler.register_pickle_by_value(sys.modules[function.__module__])
    return bytes(pickler.dumps(functions))


def unpacked_functions(packed: bytes) -> Mapping[str, TransformFunction]:
    """Unpacks what ``packed_functions`` packed."""
    return pickle.loads(packed) if packed else {}
