"""A flow on its way to Spark's tasks.

It is sent within the pickled code of a job, as the tasks' own data, and never in an option, property,
file or argument, which Spark shows or leaves on disk. So executors need neither the flow's file, nor its
stores, providers and connections. Spark broadcasts code larger than a mebibyte through a file on the
driver's disk: so each store is in it once, and a flow that is still too large is refused unless Spark
encrypts its files.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.errors import ConfigError
from kafka_ferry.secret_values import remember
from kafka_ferry.transform.secrets import look_up_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow

# Strings of a store's size; shorter ones are not worth it.
_LONG: Final = 500
# What a job's code is besides the flow.
_CODE_BYTES: Final = 32 * 1024
ENCRYPTION: Final = "spark.io.encryption.enabled"


def carried(spark: SparkSession, flow: Flow, *, beside: int = 0) -> bytes:
    """The flow as packed by ``packed``, in a form that Spark never writes to a disk in plain text.

    Args:
        spark: the session that carries it.
        flow: the flow.
        beside: how many bytes the job's code has besides it.

    Raises:
        ConfigError: as ``packed``; or if the flow's stores are too large for that.
    """
    pack, context = packed(flow), spark.sparkContext
    jvm: Any = context._jvm
    limit = int(jvm.PythonUtils.getBroadcastThreshold(context._jsc)) - _CODE_BYTES - beside
    is_encrypted = str(context.getConf().get(ENCRYPTION, "false")).lower() == "true"
    if len(pack) > limit and not is_encrypted:
        raise ConfigError(
            flow.file,
            "ssl.truststore",
            f"the stores of {flow.source.alias} and {flow.target.alias} take {len(pack):,} bytes, and "
            f"Spark would write them to a file, with all passwords, from {limit:,} on.",
            advice="Trust only the authorities that have signed the brokers' certificates, or let Spark "
            f"encrypt its files: {ENCRYPTION}=true.",
        )
    return pack


def packed(flow: Flow) -> bytes:
    """The flow with all that its clusters' clients and its rules need; it holds secrets.

    Raises:
        ConfigError: a store or a connection of one of its clusters cannot be read.
    """
    looked_up = {
        "source": flow.source.resolved(),
        "target": flow.target.resolved(),
        "transform_secrets": tuple(
            (name, look_up_secret(flow, name)) for name, _ in flow.transform_secrets
        ),
    }
    pack = io.BytesIO()
    _Packer(pack).dump(flow.model_copy(update=looked_up))
    return pack.getvalue()


def unpacked(flow: bytes) -> Flow:
    """Unpacks what ``packed`` packed. The imports for a flow take a while, and are not done while planning."""
    found: Flow = _Unpacker(io.BytesIO(flow)).load()
    remember(secret for _, secret in found.transform_secrets)
    return found


class _Packer(pickle.Pickler):
    """Writes equal long strings only once: a store is in each client's properties."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._known: dict[str, str] = {}

    def persistent_id(self, obj: Any) -> str | None:
        # The returned object is pickled too, and a second time only referred to.
        return self._known.setdefault(obj, obj) if type(obj) is str and len(obj) > _LONG else None


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return pid
