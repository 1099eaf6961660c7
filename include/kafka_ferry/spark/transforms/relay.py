"""Spark SQL as a function of a running task: rows out, results back, in order.

A task that copies by rules is one Spark task with two Python workers::

    feed      emits the rows that it gets through a socket          (mapInArrow)
    SQL       the rules' expressions, in the executor's JVM
    copy      reads, lets rows be evaluated, writes                 (mapInArrow)
              rows -> socket -> feed -> SQL -> its own input -> results

So batches never enter the JVM, only the columns that expressions use; and the copier starts over after a
broker's failure as it always does, because what it reads does not come through Spark.

Spark's pipes hold back what does not fill a buffer or an Arrow batch. Rows without a rule, which nothing
comes of, follow each lot and push it through.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from kafka_ferry.spark.security.private_sockets import is_own_process, is_private, short_folder
from kafka_ferry.spark.transforms.arrow_rows import evaluation, fillers, record_batches, schema_of
from kafka_ferry.transform import (
    Columns,
    Decimals,
    Evaluated,
    Reads,
    RecordRows,
    TransformFailed,
)

_OUTCOMES: Final = pa.schema([("outcomes", pa.binary())])
_CONNECT_S: Final = 120.0
_SIZE: Final = 8


def feed(
    items: Sequence[Any], name: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What emits a task's rows, once it has handed over what the task is to do.

    Args:
        items: what each task is to do, by Spark's partition numbers.
        name: of the job; no other user can guess it.
    """

    def emit(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with _connect(_address(name, context.taskAttemptId())) as connection:
            item = pickle.dumps(items[context.partitionId()])
            connection.sendall(len(item).to_bytes(_SIZE) + item)
            with connection.makefile("rb") as stream, pa.ipc.open_stream(stream) as rows:
                yield from rows

    return emit


class Relay:
    """Evaluates rows in the task that it runs in; an ``Evaluator``.

    Args:
        results: the task's input, which the expressions' results come from.
        name: of the job, as ``feed`` has it.
        columns: the columns that the rules' expressions use.
        decimals: the fields that are decimals in rows.
        reads: what they read by name.
        secrets: their secrets, by name.

    Attributes:
        item: what the task is to do.
    """

    def __init__(
        self,
        results: Iterator[pa.RecordBatch],
        name: str,
        columns: Columns,
        decimals: Decimals,
        reads: Reads,
        secrets: Mapping[str, str],
    ) -> None:
        self.columns, self.decimals, self.reads = columns, decimals, reads
        self._schema = schema_of(columns)
        self._fillers = fillers(self._schema)
        self._secrets = list(secrets.items())
        self._waiting: deque[_Ticket] = deque()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._resources = contextlib.ExitStack()
        # Spark starts the worker that feeds this one when it is asked for input.
        self._puller = threading.Thread(target=self._pull, args=(results,), daemon=True)
        with contextlib.ExitStack() as opening:
            opening.push(self._resources)
            connection = self._accept(name)
            self.item: Any = pickle.loads(_receive(connection))
            self._stream = self._resources.enter_context(connection.makefile("wb", 1 << 20))
            self._rows = self._resources.enter_context(
                pa.ipc.new_stream(self._stream, self._schema)
            )
            opening.pop_all()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the input, so that Spark ends the task."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._resources.close()
        self._puller.join(_CONNECT_S)

    def evaluate(self, rows: RecordRows) -> Future[Evaluated]:
        """See ``Evaluator``."""
        ticket = _Ticket(len(rows))
        if not len(rows):
            ticket.future.set_result(Evaluated())
            return ticket.future
        with self._lock:
            if self._error:
                raise _failure(self._error)
            self._waiting.append(ticket)
        try:
            for part in record_batches(rows, self._schema, self._secrets):
                self._rows.write_batch(part)
            for filler in self._fillers:
                self._rows.write_batch(filler)
            self._stream.flush()
        except (OSError, pa.ArrowException) as error:
            raise _failure(self._error or error) from error
        return ticket.future

    def _accept(self, name: str) -> socket.socket:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        address = _address(name, context.taskAttemptId())
        server = self._resources.enter_context(socket.socket(socket.AF_UNIX))
        folder = Path(address).parent
        folder.mkdir(mode=0o700)
        try:
            server.bind(address)
            server.listen(1)
            server.settimeout(_CONNECT_S)
            self._puller.start()
            connection = self._resources.enter_context(server.accept()[0])
            if not is_own_process(connection):
                raise PermissionError(f"another user has connected to {address}")
        finally:
            Path(address).unlink(missing_ok=True)
            folder.rmdir()
        connection.settimeout(None)
        return connection

    def _pull(self, results: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in results:
                self._give(evaluation(batch))
            self._fail(EOFError("Spark ended the results"))
        except BaseException as error:
            self._fail(error)

    def _give(self, evaluated: Evaluated) -> None:
        """Give the results to those that wait for them, in order."""
        begin = 0
        while begin < len(evaluated):
            ticket = self._waiting[0]
            end = min(len(evaluated), begin + ticket.count - len(ticket.found))
            ticket.found.add(evaluated.part(begin, end))
            begin = end
            if len(ticket.found) == ticket.count:
                with self._lock:
                    self._waiting.popleft()
                ticket.future.set_result(ticket.found)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._error = error
            waiting = list(self._waiting)
            self._waiting.clear()
        for ticket in waiting:
            ticket.future.set_exception(_failure(error))


class _Ticket:
    """Rows that are being evaluated."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.found = Evaluated()
        self.future: Future[Evaluated] = Future()


def outcomes_batch(outcomes: object) -> pa.RecordBatch:
    """The single row that a task answers with."""
    return pa.record_batch([pa.array([pickle.dumps(outcomes)], pa.binary())], schema=_OUTCOMES)


def _failure(error: BaseException) -> TransformFailed:
    return TransformFailed(
        f"Spark does not evaluate the transform rules any more: {error}.",
        advice="The Spark task's own error says why.",
    )


def _address(name: str, attempt: int) -> str:
    """Where the workers of a task meet: the address of one task does not give away that of the next."""
    digest = hashlib.sha256(f"{name}-{attempt}".encode()).hexdigest()[:32]
    return f"{short_folder()}/ferry-{digest}/rows"


@contextlib.contextmanager
def _connect(address: str) -> Iterator[socket.socket]:
    until = time.monotonic() + _CONNECT_S
    with socket.socket(socket.AF_UNIX) as connection:
        while True:
            try:
                if not is_private(Path(address).parent):
                    raise PermissionError(f"{address} is in a folder of another user")
                connection.connect(address)
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                break
        if not is_own_process(connection):
            raise PermissionError(f"{address} is the socket of another user")
        yield connection


def _receive(connection: socket.socket) -> bytes:
    with connection.makefile("rb", buffering=0) as stream:
        size = int.from_bytes(_exactly(stream, _SIZE))
        return _exactly(stream, size)


def _exactly(stream: Any, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("the worker that feeds this one has ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
