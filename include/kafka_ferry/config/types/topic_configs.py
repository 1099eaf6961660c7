"""Configs of remote topics, as files say them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import regex

from kafka_ferry.config.types.durations import is_span, read_span
from kafka_ferry.config.types.values import read_bytes

# With its own codec the target would recompress every batch, and with LogAppendTime it would replace the
# records' timestamps.
NEVER: Final = frozenset({"compression.type", "message.timestamp.type"})
_NAME: Final = regex.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
_MUST: Final = (
    "must be topic configs with values, such as {retention.ms: 30d, cleanup.policy: delete}"
)

SCHEMA: Final = {
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        {"type": "string", "pattern": "="},
    ]
}
"""The JSON Schema of a value, for editors."""


def topic_configs_text(value: Any) -> str:
    """The text of a file's value: ``name=value``, several after each other with ``;``.

    Times (``30d``, ``2 weeks``) and sizes (``1GiB``) become the numbers that Kafka knows.

    Raises:
        ValueError: it is neither a mapping nor such a text, or has a config that a copy cannot have.
    """
    if isinstance(value, str):
        value = dict(part.partition("=")[::2] for part in value.split(";") if part.strip())
    if not isinstance(value, Mapping) or not value:
        raise ValueError(_MUST)
    configs = sorted(_config(name, text) for name, text in value.items())
    return ";".join(f"{name}={text}" for name, text in configs)


@lru_cache(maxsize=256)
def read_topic_configs(text: str) -> Mapping[str, str]:
    """The configs of a text by ``topic_configs_text``; none for ""."""
    return dict(part.partition("=")[::2] for part in text.split(";") if part)


def _config(name: Any, value: Any) -> tuple[str, str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name.strip()):
        raise ValueError(_MUST)
    name = name.strip()
    if name in NEVER:
        raise ValueError(
            f"must not have {name}: the target's brokers would change every batch or its timestamps"
        )
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    if value is None or not text or ";" in text:
        raise ValueError(_MUST)
    return name, _number(name, text)


def _number(name: str, text: str) -> str:
    if regex.fullmatch(r"-?[0-9]+", text):
        return text
    if name.endswith(".ms") and is_span(text):
        return str(read_span(text))
    if name.endswith(".bytes"):
        return str(read_bytes(text))
    return text
