"""Reads options' values from files: lists, numbers, sizes, topic names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import regex
from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from kafka_ferry.config.types.name_filter import checked_patterns, split_list

KIB: Final = 1024
MIB: Final = 1024 * KIB
NUMBER_PATTERN: Final = r"^\s*-?[0-9]+\s*$"
"""The form of a whole number as text, for editors."""
BYTES_PATTERN: Final = r"^\s*[0-9]+(\s*([Bb]|[KkMmGg][Ii][Bb]))?\s*$"
"""The form of a number of bytes as text, for editors and forms: no blank can be of two parts, which would take the
square of their number, in Airflow's API server too."""
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""``INTERNAL_TOPICS`` of Kafka 4.3's class ``org.apache.kafka.common.internals.Topic``."""
KAFKAS_OWN: Final = frozenset({*INTERNAL_TOPICS, "__cluster_metadata"})
"""Topics of Kafka itself, to which brokers allow no client to write."""
OWN_TOPICS: Final = regex.compile(r"ferry-(ledger|dead-letter|certificates)\..*\.internal")
"""The names of topics that flows make for themselves."""
_NUMBER: Final = regex.compile(r"\s*-?[0-9]{1,19}\s*")
_TOPIC: Final = "[A-Za-z0-9._-]{1,249}"
_EXPRESSION: Final = regex.compile(r"[\\*+?()\[\]{}^$|]")
# YAML 1.1's words, and what people write else.
_TRUTHS: Final = {"true": ("yes", "on", "1", "t", "y"), "false": ("no", "off", "0", "f", "n")}
_UNITS: Final = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": 1024 * MIB}


def _as_list(value: Any) -> Any:
    return split_list(value) if isinstance(value, str) else value


def read_number(value: object) -> int:
    """A whole number, or the text of one in decimal digits: the form in YAML and in properties files.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def whole_number(value: object, *, least: int, most: int) -> int | None:
    """A whole number within bounds, as ``read_number`` reads it; None for anything else."""
    try:
        number = read_number(value)
    except ValueError:
        return None
    return number if least <= number <= most else None


def read_truth(value: object) -> bool:
    """True or false, or one of these words, as Kafka's ``ConfigDef.parseType`` reads it.

    Raises:
        ValueError: it is neither.
    """
    text = str(value).strip().lower()
    if text in ("true", "false"):
        return text == "true"
    meant = next((word for word, others in _TRUTHS.items() if text in others), "")
    advice = f". Write '{meant}'." if meant else ""
    raise ValueError(f"must be true or false, and not '{value!s:.80}'{advice}")


def read_bytes(text: str) -> int:
    """The number of bytes in a text such as ``64MiB``.

    Raises:
        ValueError: it is not such a text.
    """
    # Not with the blanks at its end, which two parts would share.
    size = regex.fullmatch(r"([0-9]{1,19})\s*([A-Za-z]*)", text.strip())
    if size is None or size[2].upper() not in _UNITS:
        reason = "must be a number of bytes, or a size such as 64KiB, 64MiB or 1GiB"
        near = regex.match(r"\s*([0-9]{1,19})\s*([KMG])i?b?\b", text, regex.IGNORECASE)
        meant = f". Did you mean '{near[1]}{near[2].upper()}iB'?" if near else ""
        raise ValueError(f"{reason}, and not '{text.strip():.80}'{meant}")
    return int(size[1]) * _UNITS[size[2].upper()]


def _as_bytes(value: Any) -> Any:
    return read_bytes(value) if isinstance(value, str) else read_number(value)


@dataclass(frozen=True)
class AlsoText:
    """Marks a type for the editors' schema: a file may also have text of this form."""

    pattern: str = ""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        text = {"type": "string"} | ({"pattern": self.pattern} if self.pattern else {})
        return {"anyOf": [handler(schema), text]}


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list), AlsoText()]
TopicPatterns = Annotated[Names, AfterValidator(checked_patterns)]
TextPatterns = Annotated[Names, AfterValidator(partial(checked_patterns, any_text=True))]
"""Patterns of names that may hold any character, as those of groups and subjects may."""
Truth = Annotated[bool, BeforeValidator(read_truth)]
Number = Annotated[int, BeforeValidator(read_number), AlsoText(NUMBER_PATTERN)]
Bytes = Annotated[
    int,
    BeforeValidator(_as_bytes),
    AlsoText(BYTES_PATTERN),
]


def is_topic_name(name: str) -> bool:
    """Whether a topic may have the name (``org.apache.kafka.common.internals.Topic.validate``)."""
    return bool(regex.fullmatch(_TOPIC, name)) and name not in (".", "..")


def topic_name(name: str) -> str:
    """Checks that a topic may have the name, as ``is_topic_name`` does.

    Raises:
        ValueError: it may not.
    """
    if not is_topic_name(name):
        raise ValueError("must be a topic's name: up to 249 letters, digits, dots, _ or -")
    return name


class TopicNames(Mapping[str, str]):
    """Other names for topics; immutable, and passed between processes.

    A file has a mapping, or text such as ``name:other, name:other``.
    """

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._names = dict(names)

    def __getitem__(self, name: str) -> str:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __hash__(self) -> int:
        return hash(frozenset(self._names.items()))

    def __repr__(self) -> str:
        return repr(self._names)

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._read, serialization=core_schema.plain_serializer_function_ser_schema(dict)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        topic = {"type": "string", "pattern": f"^{_TOPIC}$"}
        names = {"type": "object", "propertyNames": topic, "additionalProperties": topic}
        return {"anyOf": [names, {"type": "string"}]}

    @classmethod
    def _read(cls, value: object) -> TopicNames:
        if isinstance(value, str):
            pairs = [item.partition(":") for item in split_list(value)]
            value = cls._unique((name.strip(), other.strip()) for name, _, other in pairs)
        if not isinstance(value, Mapping):
            raise ValueError("must be a mapping of topics to their other names")
        sources: dict[str, str] = {}
        for name, other in value.items():
            for text in (name, other):
                if not isinstance(text, str):
                    raise ValueError(f"{text!r} must be a topic's name (in YAML: put it in quotes)")
                if _EXPRESSION.search(text):
                    raise ValueError(
                        f"'{text}' is an expression, and topics get other names one by one: name each of them, as in "
                        "{orders: sales-orders}"
                    )
                try:
                    topic_name(text)
                except ValueError as error:
                    raise ValueError(f"{text!r} {error}") from None
            if (first := sources.setdefault(other, name)) != name:
                raise ValueError(f"gives {first!r} and {name!r} the same name {other!r}")
        return cls(value)

    @staticmethod
    def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        names: dict[str, str] = {}
        for name, other in pairs:
            if name in names:
                raise ValueError(f"names {name!r} twice")
            names[name] = other
        return names
