"""What changes records, on its way to tasks: functions with their code, so that executors need no files."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from kafka_ferry.copy.record_changes import RecordChanges
from kafka_ferry.errors import ConfigError
from kafka_ferry.schemas.ids import FlowSchemas, packed_schemas, unpacked_schemas

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.transform import Evaluator, TransformFunction


@dataclass(frozen=True, slots=True)
class PackedChanges:
    """What all tasks are given besides the flow.

    Attributes:
        schemas: as ``packed_schemas`` packs them.
        functions: as ``packed_functions`` does.
    """

    schemas: bytes
    functions: bytes

    @classmethod
    def of(cls, flow: Flow, schemas: FlowSchemas | None) -> PackedChanges:
        """The changes of a flow, with what it has mirrored of a schema registry.

        Raises:
            ConfigError: as ``load_functions``.
        """
        return cls(packed_schemas(schemas), packed_functions(flow))

    def unpack(self, evaluator: Evaluator | None = None) -> RecordChanges:
        """The changes, with the evaluator of the rules in Spark SQL, if there are any."""
        functions = unpacked_functions(self.functions)
        return RecordChanges(evaluator, functions, unpacked_schemas(self.schemas))


def packed_functions(flow: Flow) -> bytes:
    """The functions that the flow's rules name, with the code of their files; empty if they name none.

    Raises:
        ConfigError: as ``load_functions``, or one uses what does not pickle, such as a lock.
    """
    if not any(rule.function for rule in flow.transform):
        return b""
    from pyspark import cloudpickle

    from kafka_ferry.transform.functions import load_functions, module_of

    functions, pickler = load_functions(flow), cast("Any", cloudpickle)
    for name, function in functions.items():
        pickler.register_pickle_by_value(module_of(name))
        # That of other callables, such as a partial, may be one of Python's own.
        if isinstance(function, FunctionType):
            pickler.register_pickle_by_value(sys.modules[function.__module__])
    try:
        return bytes(pickler.dumps(functions))
    except Exception as error:
        reason = f"cannot be sent to Spark's tasks: {type(error).__name__}: {error}"
        raise ConfigError(
            flow.file,
            "transform.functions",
            reason,
            advice="Make what does not pickle when it is used.",
        ) from None


def unpacked_functions(packed: bytes) -> Mapping[str, TransformFunction]:
    """Unpacks what ``packed_functions`` packed."""
    return pickle.loads(packed) if packed else {}
