"""A flow on its way to Spark's tasks.

It is sent within the pickled code of a job, in an envelope that only the application's own key opens (``flow_key``),
and never in an option, property, file or argument, which Spark shows or leaves on disk. So executors need neither the
flow's file, nor its stores, providers and connections. Each store is in it once, however many clients have it.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kafka_ferry.secret_values import remember
from kafka_ferry.spark.security.flow_key import driver_key, task_key
from kafka_ferry.transform.secrets import look_up_secret

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

# Strings of a store's size; shorter ones are not worth it.
_LONG: Final = 500
_NONCE_BYTES: Final = 12


def envelope(flow: Flow) -> bytes:
    """The flow as ``packed`` packs it, encrypted for the tasks of this driver's application (AES-256-GCM).

    Raises:
        ConfigError: as ``packed``.
    """
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(driver_key()).encrypt(nonce, pack_flow(flow), None)


def open_envelope(sent: bytes) -> Flow:
    """The flow in an envelope; called in a task.

    Raises:
        InvalidTag: another application has encrypted it.
        OSError: the driver has ended.
    """
    nonce, text = sent[:_NONCE_BYTES], sent[_NONCE_BYTES:]
    return unpack_flow(AESGCM(task_key()).decrypt(nonce, text, None))


def pack_flow(flow: Flow) -> bytes:
    """The flow with all that its clusters' clients and its rules need; it holds secrets.

    Raises:
        ConfigError: a store or a connection of one of its clusters cannot be read.
    """
    looked_up = {
        "source": flow.source.resolve(),
        "target": flow.target.resolve(),
        "transform_secrets": tuple(
            (name, look_up_secret(flow, name)) for name, _ in flow.transform_secrets
        ),
    }
    pack = io.BytesIO()
    _Packer(pack).dump(flow.model_copy(update=looked_up))
    return pack.getvalue()


def unpack_flow(flow: bytes) -> Flow:
    """Unpacks what ``packed`` packed. The imports for a flow take a while, and are not done while planning."""
    unpacked: Flow = _Unpacker(io.BytesIO(flow)).load()
    remember(secret for _, secret in unpacked.transform_secrets)
    return unpacked


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
