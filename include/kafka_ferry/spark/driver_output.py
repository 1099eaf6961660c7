"""What the driver's JVM writes to stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka_ferry.printable import printable

# Spark's launcher adds the module to every JVM, and no option keeps the JVM from saying so.
_NOISE: Final = b"WARNING: Using incubator modules"
_LAST_WORDS_S: Final = 2.0


@contextmanager
def driver_stderr() -> Iterator[int]:
    """A descriptor for a JVM's stderr: lines go on to this process's own, but for what says nothing,
    and without secrets: a task of Spark's may print what a library says of them.

    The JVM holds it after the body, and the lines go on as long as both processes run. Where the JVM does not start,
    the body's error comes after its last lines.
    """
    reading, writing = os.pipe()
    reader = threading.Thread(target=_pass_on, args=[reading], name="jvm-stderr", daemon=True)
    reader.start()
    try:
        yield writing
    except BaseException:
        os.close(writing)
        reader.join(_LAST_WORDS_S)
        raise
    os.close(writing)


def _pass_on(descriptor: int) -> None:
    with os.fdopen(descriptor, "rb") as lines:
        for line in lines:
            if not line.startswith(_NOISE):
                sys.stderr.write(printable(line.decode(errors="replace")))
                sys.stderr.flush()
