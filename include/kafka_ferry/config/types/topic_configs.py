"""Configs of topics: those that Kafka knows, the form of their values, and how files say them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import regex

from kafka_ferry.config.types.durations import is_span, read_span
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.config.types.values import read_bytes, whole_number

# With its own codec the target would recompress every batch, and with LogAppendTime it would replace the
# records' timestamps.
NEVER: Final = frozenset({"compression.type", "message.timestamp.type"})
_NAME: Final = regex.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*")
_MUST: Final = (
    "must be topic configs with values, such as {retention.ms: 30d, cleanup.policy: delete}"
)
# A name this near to one that Kafka knows is a misspelt one; others may be those of a newer Kafka, or a vendor's.
_MISSPELT: Final = 0.9
_INTEGER: Final = regex.compile("-?[0-9]+")
_TIME_UNIT: Final = regex.compile(r"\.(seconds|minutes|hours|days|weeks)$")
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1

SCHEMA: Final = {
    "anyOf": [
        {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean", "array"]},
        },
        {"type": "string", "pattern": "="},
    ]
}
"""The JSON Schema of a value, for editors."""


def topic_configs_text(value: Any) -> str:
    """The text of a file's value: ``name=value``, several after each other with ``;``.

    Times (``30d``, ``2 weeks``) and sizes (``1GiB``) become the numbers that Kafka knows.

    Raises:
        ValueError: it is neither a mapping nor such a text, or has a config that a copy or a topic cannot have.
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


def canonical(name: str, value: str) -> str:
    """A broker's value in the form in which equal values are equal texts; as it is where Kafka knows no such config.

    ``compact,delete`` and ``delete,compact`` are one policy, ``1e-5`` and Java's ``1.0E-5`` one number.
    """
    read = _FORMS.get(name)
    try:
        return read(name, value) if read else value
    except ValueError:
        return value


def _config(name: Any, value: Any) -> tuple[str, str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name.strip()):
        raise ValueError(_MUST)
    name = name.strip()
    if name in NEVER:
        raise ValueError(
            f"must not have {name}: the target's brokers would change every batch or its timestamps"
        )
    if meant := _in_other_words(name, value):
        raise ValueError(f"must not have {name}, which is no config of a topic. Write {meant}")
    if advice := did_you_mean(name, _FORMS, cutoff=_MISSPELT if "." in name else 0.7):
        if name not in _FORMS:
            raise ValueError(f"must not have {name}, which is no config of a topic. {advice}")
    elif "." not in name:
        raise ValueError(_MUST)
    text = _text(value)
    if not text or ";" in text:
        raise ValueError(_MUST)
    try:
        return name, _FORMS.get(name, _unknown)(name, text)
    except ValueError as error:
        raise ValueError(f"gives {name} {text!r}: {error}") from None


def _in_other_words(name: str, value: Any) -> str:
    """A topic's config for one that is a broker's, or in another unit, such as ``retention.hours``; "" elsewhere."""
    bare = name.removeprefix("log.")
    unit = _TIME_UNIT.search(bare)
    config = f"{bare[: unit.start()]}.ms" if unit else bare
    if config == name or config not in _FORMS:
        return ""
    return f"{config}: {_text(value)}{unit[1][0] if unit else ''}"


def topic_config_text(name: object, value: object) -> str:
    """A config and its value as a file has them, by the name that Kafka knows; "" where it knows none."""
    if not isinstance(name, str):
        return ""
    return f"{name}: {_text(value)}" if name in _FORMS else _in_other_words(name, value)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ",".join(map(_text, value))
        case str() | int() | float():
            return str(value).strip()
        case _:
            return ""


def _unknown(name: str, text: str) -> str:
    """The value of a config that only the target may know."""
    if name.endswith(".ms") and is_span(text):
        return str(read_span(text))
    if name.endswith(".bytes") and not _INTEGER.fullmatch(text):
        return str(read_bytes(text))
    return text


def _number(most: int) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        number = whole_number(_unknown(name, text), least=-most - 1, most=most)
        if number is None:
            raise ValueError(f"must be a whole number of at most {most}{_or_unit(name)}")
        return str(number)

    return read


def _or_unit(name: str) -> str:
    if name.endswith(".ms"):
        return ", or a time such as 30d"
    return ", or a size such as 1GiB" if name.endswith(".bytes") else ""


def _fraction(_: str, text: str) -> str:
    if not regex.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):
        raise ValueError("must be a number")
    return repr(float(text))


def _truth(_: str, text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower()


def _policies(_: str, text: str) -> str:
    policies = sorted({policy.strip() for policy in text.split(",")} - {""})
    if not {"compact", "delete"}.issuperset(policies):
        raise ValueError("must be compact, delete, or both")
    return ",".join(policies)


def _as_it_is(_: str, text: str) -> str:
    return text


_KINDS: Final = {
    _number(_INT): """
        compression.gzip.level compression.lz4.level compression.zstd.level index.interval.bytes
        max.message.bytes min.insync.replicas segment.bytes segment.index.bytes
    """,
    _number(_LONG): """
        delete.retention.ms file.delete.delay.ms flush.messages flush.ms local.retention.bytes
        local.retention.ms max.compaction.lag.ms message.timestamp.after.max.ms
        message.timestamp.before.max.ms message.timestamp.difference.max.ms min.compaction.lag.ms
        retention.bytes retention.ms segment.jitter.ms segment.ms
    """,
    _fraction: "min.cleanable.dirty.ratio",
    _truth: """
        message.downconversion.enable preallocate remote.log.copy.disable
        remote.log.delete.on.disable remote.storage.enable unclean.leader.election.enable
    """,
    _policies: "cleanup.policy",
    _as_it_is: """
        compression.type follower.replication.throttled.replicas
        leader.replication.throttled.replicas message.format.version message.timestamp.type
    """,
}
_FORMS: Final = {name: read for read, names in _KINDS.items() for name in names.split()}
"""The configs of topics of Kafka 0.11 to 4.3 (``LogConfig``, ``TopicConfig``), each with what reads its value."""


def is_topic_config(name: str) -> bool:
    """Whether topics of any of these versions have a config of this name."""
    return name in _FORMS
