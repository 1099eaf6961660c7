"""Dataclasses that are stored as JSON text and read back checked, and JSON texts of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter, ValidationError

from kafka_ferry.errors import FerryError


class AsJson:
    """Gives a dataclass ``to_json`` and ``from_json``.

    Attributes:
        WHAT: what an object is, with its article, for the error about text that is not one.
    """

    __slots__ = ()
    WHAT: ClassVar[str]

    def to_json(self) -> str:
        """The object as JSON text."""
        return _adapter(type(self)).dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Reads what ``to_json`` wrote.

        Raises:
            FerryError: if the text is anything else.
        """
        try:
            read: Self = _adapter(cls).validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise FerryError(f"Not {cls.WHAT}: {first['msg']}.") from error
        return read


def read_json(text: bytes | str) -> Any:
    """The content of a JSON text from outside.

    Raises:
        ValueError: it is none, by RFC 8259, or is nested deeper than Python can follow.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


# Building one takes longer than using it.
_adapter: Callable[[type], TypeAdapter[Any]] = cache(TypeAdapter)
