"""An option that may have another value for each topic: one value, or patterns with values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from pydantic import GetPydanticSchema
from pydantic_core import core_schema

from kafka_ferry.config.types.name_filter import checked_patterns, compile_patterns, split_list

_T = TypeVar("_T")
EVERY: Final = ".*"
"""The pattern of every topic: that of an option with one value."""


@dataclass(frozen=True)
class PerTopic(Generic[_T]):
    """The values of an option by topic.

    Attributes:
        default: the value of a topic that no rule names.
        rules: patterns, each with its value: a topic's name or a Java regular expression, as in
            ``topics``; the first that matches the whole name counts. Where a file gives one value
            for all topics, it is that of ``.*``.
    """

    default: _T
    rules: tuple[tuple[str, _T], ...] = ()

    def of(self, topic: str) -> _T:
        """The topic's value."""
        explicit = self.explicit_value(topic)
        return self.default if explicit is None else explicit

    def explicit_value(self, topic: str) -> _T | None:
        """The topic's value, None where the file does not say any."""
        for pattern, value in self.rules:
            if _compile(pattern).fullmatch(topic):
                return value
        return None

    def as_mapping(self) -> dict[str, _T]:
        """The rules as a file's mapping."""
        return dict(self.rules)

    def __str__(self) -> str:
        return "" if self.default is None else str(self.default)


def per_topic(
    default: _T, read: Callable[[object], _T], values: Mapping[str, Any]
) -> GetPydanticSchema:
    """Reads a ``PerTopic`` from a file's value: a value, or patterns with values.

    YAML has the latter as a mapping; text is ``pattern:value, pattern:value``, split at the last
    colon of each, so that a pattern may hold colons and no commas, and a value commas and no colons.

    Args:
        default: the value of a topic that no pattern names.
        read: makes a value of what stands in the file, or raises ``ValueError`` with what it must be.
        values: the JSON Schema of a value, for editors.
    """

    def validate(value: object) -> PerTopic[_T]:
        if isinstance(value, PerTopic):
            return value
        if isinstance(value, Mapping):
            return PerTopic(default, tuple(_rules(value.items(), read)))
        if isinstance(value, str) and ":" in value and not _reads(read, value):
            return PerTopic(default, tuple(_rules(_pairs(value), read)))
        return PerTopic(default, ((EVERY, read(value)),))

    schema = core_schema.no_info_plain_validator_function(
        validate,
        serialization=core_schema.plain_serializer_function_ser_schema(PerTopic.as_mapping),
    )
    rules = {"type": "object", "additionalProperties": values}
    text = {"type": "string", "pattern": ":"}
    return GetPydanticSchema(lambda *_: schema, lambda *_: {"anyOf": [values, rules, text]})


def per_topic_choice(default: _T, choices: tuple[_T, ...]) -> GetPydanticSchema:
    """``per_topic`` of an option with a few values."""

    def read(value: object) -> _T:
        for choice in choices:
            if value == choice:
                return choice
        raise ValueError(f"must be one of {', '.join(map(str, choices))}")

    return per_topic(default, read, {"enum": [*choices]})


def _pairs(text: str) -> list[tuple[str, str]]:
    """A list's patterns and values; an item without a colon continues the value before it."""
    pairs: list[tuple[str, str]] = []
    for item in split_list(text):
        pattern, colon, value = (part.strip() for part in item.rpartition(":"))
        if pairs and not colon:
            pattern, before = pairs.pop()
            value = f"{before},{value}"
        pairs.append((pattern, value))
    return pairs


def _rules(
    pairs: Iterable[tuple[object, object]], read: Callable[[object], _T]
) -> Iterable[tuple[str, _T]]:
    for pattern, value in pairs:
        if not isinstance(pattern, str) or not pattern:
            shown = value if pattern == "" else pattern
            raise ValueError(f"{shown!r} must be a pattern of topics and a value: pattern:value")
        checked_patterns((pattern,))
        try:
            yield pattern, read(value)
        except ValueError as error:
            demand = str(error)
            if demand.startswith("must be") and "and not" not in demand:
                demand += f", and not {value!r}"
            raise ValueError(f"{pattern!r} {demand}") from None


def _reads(read: Callable[[object], object], text: str) -> bool:
    """Whether a text is a value, such as a time, and no list of patterns with values."""
    try:
        read(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Any:
    return compile_patterns([pattern])
