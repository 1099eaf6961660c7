"""Requests that do not wait for each other's answers: over a long link they take one round trip together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafka_ferry.wire.connections.connection import Connection

_T = TypeVar("_T")
_R = TypeVar("_R")
_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Question(Generic[_T]):
    """A request and what its answer says.

    Attributes:
        connection: the connection to the broker that is asked, with no answer pending.
        request: the message.
        read: what the answer says; may raise ``FerryError``.
        newest: as in ``Connection.call``.
    """

    connection: Connection
    request: Any
    read: Callable[[Any], _T]
    newest: int | None = None

    def then(self, read: Callable[[_T], _R]) -> Question[_R]:
        """The same question, where ``read`` makes something else of what its answer says."""
        return Question(
            self.connection, self.request, lambda answer: read(self.read(answer)), self.newest
        )

    def ask(self) -> _T:
        """Ask it alone.

        Raises:
            FerryError: as ``Connection.call`` and ``read``.
        """
        return self.read(self.connection.call(self.request, newest=self.newest))


def ask_together(questions: Mapping[_K, Question[Any]]) -> dict[_K, Any]:
    """Ask all questions before waiting for the first answer.

    A broker handles the requests of one connection in their order.

    Raises:
        FerryError: as ``Question.ask``; connections whose answers are still pending are closed.
    """
    all_questions = questions.values()
    try:
        for question in all_questions:
            question.connection.send(question.request, newest=question.newest)
        answers = [question.connection.receive() for question in all_questions]
    except BaseException:
        for question in all_questions:
            if not question.connection.is_idle:
                question.connection.close()
        raise
    return {
        key: question.read(answer)
        for (key, question), answer in zip(questions.items(), answers, strict=True)
    }
