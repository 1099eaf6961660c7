"""The key of the envelope in which a flow reaches Spark's tasks: one application has it, and nothing else.

A task's code goes where Spark takes it: into a broadcast, over the network, into a file of more than a mebibyte.
The key goes another way. On the driver's own machine a task finds it in a file in memory, by a name that is no secret
(``/proc/{pid}/fd/{number}``); executors elsewhere have it in their environment, where Spark also puts its own secret.
"""

from __future__ import annotations

import atexit
import os
import secrets
from collections.abc import Mapping, MutableMapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_ferry.memory_file import memory_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark hides the values of names with "secret" on its page and in its event log.
_KEY: Final = "FERRY_FLOW_SECRET"
_KEY_FILE: Final = "FERRY_FLOW_KEY_FILE"
EXECUTOR_KEY: Final = f"spark.executorEnv.{_KEY}"
"""The Spark property that gives executors the key."""


@cache
def driver_key() -> bytes:
    """The key of this driver's applications, of 32 bytes."""
    return secrets.token_bytes(32)


@cache
def _key_file() -> str:
    held = ExitStack()
    atexit.register(held.close)
    return held.enter_context(memory_file(driver_key()))


def key_properties(*, local: bool) -> Mapping[str, str]:
    """The Spark properties of an application that give its executors the key.

    Args:
        local: whether its tasks run on this machine, in processes of this user.
    """
    return {} if local else {EXECUTOR_KEY: driver_key().hex()}


def keep_out_of_code(environment: MutableMapping[str, str], *, local: bool) -> None:
    """Leave in what Spark sends with each task's code only where the key is.

    Args:
        environment: of a context, which PySpark fills with what executors are given.
        local: as for ``key_properties``.
    """
    environment.pop(_KEY, None)
    if local:
        environment[_KEY_FILE] = _key_file()


def without_key(session: SparkSession) -> SparkSession:
    """A new session without the application's property: Spark broadcasts a session's properties with file sources."""
    session.conf.unset(EXECUTOR_KEY)
    return session


@cache
def task_key() -> bytes:
    """The key, as a task finds it.

    Raises:
        OSError: the driver has ended.
    """
    if file := os.environ.get(_KEY_FILE):
        return Path(file).read_bytes()
    return bytes.fromhex(os.environ[_KEY])
