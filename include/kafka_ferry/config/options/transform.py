"""How records change on the way: which are left out, and what of them is set or dropped, by Spark SQL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

import regex
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from kafka_ferry.config.options.base import CodePath, Options
from kafka_ferry.config.types.name_filter import compile_patterns
from kafka_ferry.config.types.problems import Problem, did_you_mean, problems_error
from kafka_ferry.config.types.record_path import Part, RecordPath, read_path
from kafka_ferry.config.types.values import Names, TopicPatterns

TRANSFORM_SECRETS: Final = "transform.secrets"
"""The option whose values are references of config providers."""

SECRETS_COLUMN: Final = "secret()"
"""The column of secrets by name, as Spark knows it: only expressions with ``secret('name')`` see it."""

PARTS: Final[tuple[Literal["key", "value"], ...]] = ("key", "value")
"""The parts of a record that have a format."""

RegistryFormat = Literal["avro", "protobuf"]
Format = Literal["bytes", "string", "json", "avro", "protobuf"]
REGISTRY_FORMATS: Final[tuple[RegistryFormat, ...]] = get_args(RegistryFormat)
"""The formats whose schemas a registry has."""
_WITH_FIELDS: Final = ("json", *REGISTRY_FORMATS)
ErrorPolicy = Literal["fail", "dead-letter", "pass"]

_FUNCTION: Final = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"
_SECRET: Final = regex.compile(r"""\bsecret\(\s*(['"])([^'"]+)\1\s*\)""", regex.IGNORECASE)
# Where it names one, and everywhere it uses any.
_HEADER: Final = regex.compile(r"""\bheaders\s*\[\s*(['"])([^'"\\]*)\1\s*\]""", regex.IGNORECASE)
_HEADERS: Final = regex.compile(r"\bheader(s|_list)\b", regex.IGNORECASE)
_DECIMAL: Final = regex.compile(r"\b(decimal|dec|numeric)\b", regex.IGNORECASE)
_FINGERPRINT_DIGITS: Final = 16


def _pairs(value: Any) -> Any:
    """A mapping as pairs, which are hashable, and text that YAML took for something else as text."""
    if isinstance(value, str):
        raise ValueError("must be a mapping, such as {value: ...}")
    if not isinstance(value, Mapping):
        return value
    return tuple((str(key), "null" if item is None else str(item)) for key, item in value.items())


_TEXTS: Final = {"type": ["string", "number", "boolean", "null"]}
_FORMATS: Final = {"enum": [*get_args(Format)]}
Pairs = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_pairs),
    WithJsonSchema({"type": "object", "additionalProperties": _TEXTS}),
]
Formats = Annotated[
    tuple[tuple[Literal["key", "value"], Format], ...],
    BeforeValidator(_pairs),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"key": _FORMATS, "value": _FORMATS},
            "additionalProperties": False,
        }
    ),
]


def _keys_of(names: Iterable[str]) -> str:
    return f"A rule's keys are {', '.join(names)}."


class TransformRule(BaseModel):
    """What becomes of the records of some topics.

    Expressions are Spark SQL over the columns ``topic``, ``partition``, ``offset``, ``timestamp``,
    ``key``, ``value``, ``headers`` (by name, as text; the last one of a name) and ``header_list``.

    Attributes:
        topics: names or Java regular expressions; the first rule that matches a topic counts.
        where: which records are copied; None for all.
        format: how ``key`` and ``value`` are read; ``bytes`` where it does not say.
        types: the types of JSON fields that expressions name, by path; text where it does not say.
        set: an expression for each path.
        drop: the paths that are left out.
        function: a Python function that does all of it instead, by its file's and its own name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    topics: TopicPatterns = Field(min_length=1)
    where: str | None = None
    format: Formats = ()
    types: Pairs = ()
    set: Pairs = ()
    drop: Names = ()
    function: str | None = Field(default=None, pattern=_FUNCTION)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                near = did_you_mean(str(key), cls.model_fields)
                raise ValueError(f"has no {key!r}. {near or _keys_of(cls.model_fields)}")
        return data

    @model_validator(mode="after")
    def _fits_together(self) -> TransformRule:
        if self.function:
            if self.where or self.set or self.drop or self.format or self.types:
                raise ValueError("has a function: it must have nothing else than topics")
            return self
        if not (self.where or self.set or self.drop):
            raise ValueError("must have where, set, drop or function")
        changed = [read_path(text) for text in (*(key for key, _ in self.set), *self.drop)]
        places = {*changed}
        if len(places) < len(changed):
            raise ValueError("sets or drops the same thing twice")
        for path in (*changed, *(read_path(key) for key, _ in self.types)):
            if (
                path.part != "headers"
                and path.names
                and self.format_of(path.part) not in _WITH_FIELDS
            ):
                raise ValueError(
                    f"{path} is a field: it needs format: {{{path.part}: json}}, "
                    f"or {' or '.join(REGISTRY_FORMATS)}"
                )
        for path in changed:
            whole = RecordPath(path.part)
            if path != whole and path.part != "headers" and whole in places:
                raise ValueError(f"sets {whole} and {path}, which is a part of it")
        for text in self.drop:
            if not read_path(text).names:
                raise ValueError(f"cannot drop all of {text}: set it to null instead")
        for key, _ in self.types:
            if not read_path(key).names or self.format_of(read_path(key).part) != "json":
                raise ValueError(f"cannot give {key} a type: only fields of JSON have one")
        return self

    @property
    def is_to_change(self) -> bool:
        """Whether it does more than leaving records out, as far as is known of a function."""
        return bool(self.set or self.drop or self.function)

    def format_of(self, part: Part) -> Format:
        """How a record's key or value is read."""
        return next((form for of, form in self.format if of == part), "bytes")

    def decimals(self, part: Part) -> list[str]:
        """The names of the JSON fields of a part that are decimals by ``types``, or have some in them."""
        paths = (read_path(text) for text, type_ in self.types if _DECIMAL.search(type_))
        return [path.names[-1] for path in paths if path.part == part]

    @property
    def registry_formats(self) -> tuple[RegistryFormat, ...]:
        """The formats of its keys and values for which a registry has the schemas."""
        return tuple(form for form in REGISTRY_FORMATS if form in dict(self.format).values())

    @property
    def expressions(self) -> Iterator[tuple[str, str]]:
        """All its expressions, each with what it is for."""
        if self.where:
            yield "where", self.where
        yield from ((f"set {path}", text) for path, text in self.set)

    @property
    def words(self) -> frozenset[str]:
        """The words of its expressions: each field that one of them names is among them."""
        return frozenset(
            word for _, text in self.expressions for word in regex.findall(r"\w+", text)
        )

    @property
    def field_names(self) -> frozenset[str]:
        """The words of its expressions, and the names in the paths that it changes."""
        changed = (read_path(text) for text in (*dict(self.set), *self.drop))
        return self.words | {name for path in changed for name in path.names}

    @property
    def named_headers(self) -> frozenset[str] | None:
        """The only headers that its expressions use, each as ``headers['name']``; None where they may use any."""
        texts = [text for _, text in self.expressions]
        names = [match[2] for text in texts for match in _HEADER.finditer(text)]
        uses = sum(len(_HEADERS.findall(text)) for text in texts)
        return frozenset(names) if len(names) == uses else None

    @property
    def steps(self) -> tuple[str, ...]:
        """What is done with a record, in this order, and may fail for it."""
        reads = (
            f"reading the {part} as {self.format_of(part)}"
            for part in PARTS
            if self.format_of(part) != "bytes"
        )
        return (*reads, *(what for what, _ in self.expressions))

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets that its expressions use."""
        return frozenset(
            match[2] for _, text in self.expressions for match in _SECRET.finditer(text)
        )

    def fingerprint(self, code: bytes = b"") -> str:
        """16 hexadecimal digits that change with what the rule does to a record.

        Args:
            code: that of the function's file.
        """
        does = self.model_dump(mode="json", exclude={"topics"}, exclude_none=True)
        text = json.dumps(does, sort_keys=True)
        return hashlib.sha256(text.encode() + code).hexdigest()[:_FINGERPRINT_DIGITS]

    def applies_to(self, topic: str) -> bool:
        """Whether one of its patterns matches a topic of the source."""
        return compile_patterns(self.topics).fullmatch(topic) is not None


def with_secrets(expression: str) -> str:
    """An expression with its secrets as values of ``SECRETS_COLUMN``: a plan that is shown holds none."""
    return str(_SECRET.sub(lambda found: f"`{SECRETS_COLUMN}`['{found[2]}']", expression))


class TransformOptions(Options):
    """The options of a flow about records that change on the way."""

    transform: tuple[TransformRule, ...] = Field(
        default=(),
        description="Rules that leave records out, set fields or drop them, by Spark SQL: a list, of which "
        "the first rule that matches a topic counts (docs/transforms.md).",
    )
    transform_secrets: Pairs = Field(
        default=(),
        description="The secrets that the rules' expressions use as secret('name'): config providers' "
        "references by name, such as {salt: '${env:FERRY_SALT}'}.",
    )
    transform_functions: CodePath = Field(
        default="include/transforms",
        min_length=1,
        description="The folder with the files of the Python functions that rules name. Relative as state.dir "
        "is.",
    )
    on_transform_error: ErrorPolicy = Field(
        default="fail",
        description="When a rule's expression or function fails for a record: fail stops the partition before "
        "it and fails the run; dead-letter copies the record as it is into the dead letter topic instead, with "
        "the error in its headers; pass copies it as it is.",
    )

    @field_validator("transform_secrets")
    @classmethod
    def _are_references(cls, secrets: Pairs) -> Pairs:
        for name, value in secrets:
            if not (value.startswith("${") and value.endswith("}")):
                raise ValueError(f"{name} must be a config provider's reference: ${{env:NAME}}")
        return secrets

    @model_validator(mode="after")
    def _knows_the_secrets(self) -> TransformOptions:
        known = dict(self.transform_secrets)
        problems = [
            Problem(
                f"transform.{place}",
                f"uses secret('{name}'), which transform.secrets does not have",
            )
            for place, rule in enumerate(self.transform)
            for name in sorted(rule.secrets - known.keys())
        ]
        if problems:
            raise problems_error(problems)
        return self

    def transform_of(self, topic: str) -> TransformRule | None:
        """The rule for a topic of the source, None where its records stay as they are."""
        return next((rule for rule in self.transform if rule.applies_to(topic)), None)

    def rule_name(self, topic: str) -> str:
        """The rule for a topic of the source in sentences, such as ``rule 1 (orders.*)``; "" for none."""
        rule = self.transform_of(topic)
        return f"rule {self.transform.index(rule) + 1} ({', '.join(rule.topics)})" if rule else ""
