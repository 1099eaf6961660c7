"""A process that dies between two of its requests to the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafka_ferry.wire.connections.connection import Connection

CHANGES = frozenset(
    {
        "InitProducerIdRequest",
        "AddPartitionsToTxnRequest",
        "AddOffsetsToTxnRequest",
        "TxnOffsetCommitRequest",
        "EndTxnRequest",
        "ProduceRequest",
        "WriteTxnMarkersRequest",
        "DeleteRecordsRequest",
    }
)
"""All that a writer sends which changes anything; a crash between others is one before the next of these."""


class Killed(BaseException):
    """No code catches it, so that nothing more is sent."""


@dataclass
class Fate:
    """When the process dies.

    Attributes:
        at: before the request of this number, counted from 0; -1 for never.
        answered: whether that request still reaches the broker, its answer being lost.
        after: or before the first request after one of this name; "" for none.
        times: how many of that name there must have been.
        sent: the changing requests so far, by name.
    """

    at: int = -1
    answered: bool = False
    after: str = ""
    times: int = 1
    sent: list[str] = field(default_factory=list)


@contextmanager
def fated(monkeypatch: pytest.MonkeyPatch, fate: Fate) -> Iterator[None]:
    """Within, the process dies as ``fate`` says."""
    send, receive = Connection.send, Connection.receive
    dead = False

    def dying_send(self: Connection, request: Any, **more: Any) -> None:
        nonlocal dead
        if dead:
            raise Killed
        if request.name in CHANGES:
            number = len(fate.sent)
            is_after = bool(fate.after) and fate.sent.count(fate.after) >= fate.times
            fate.sent.append(request.name)
            if number == fate.at or is_after:
                dead = True
                if fate.answered:
                    send(self, request, **more)
                raise Killed
        send(self, request, **more)

    def dying_receive(self: Connection) -> Any:
        if dead:
            raise Killed
        return receive(self)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", dying_send)
        patch.setattr(Connection, "receive", dying_receive)
        yield
