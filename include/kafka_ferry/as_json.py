"""Dataclasses that are stored as JSON text and read back checked."""

from __future__ import annotations

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


# Building one takes longer than using it.
_adapter: Callable[[type], TypeAdapter[Any]] = cache(TypeAdapter)
