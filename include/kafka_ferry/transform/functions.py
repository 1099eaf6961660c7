"""A user's Python function as a transform rule, for what Spark SQL cannot say.

The driver loads the functions from their files, and tasks get their code with the job: executors need no files.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import (
    OPENED_AT_ONCE,
    ConvertedBatch,
    Record,
    TooLarge,
    TopicLimits,
    records_of,
)
from kafka_ferry.batches.record_format.content import Content, read_content
from kafka_ferry.batches.rule_counts import CHANGED, FAILED
from kafka_ferry.config.permissions import check_code
from kafka_ferry.errors import ConfigError
from kafka_ferry.secret_values import without
from kafka_ferry.transform.apply import TransformedBatch, rebuilt
from kafka_ferry.transform.record_limits import too_many_headers
from kafka_ferry.transform.secrets import look_up_secret

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model import TopicPartition

_MODULES: Final = "ferry_transforms"
_MOST_TEXT: Final = 200
# In memory, one takes some 700 bytes, and as few as 7 in a batch.
_MOST_RECORDS: Final = 50_000


@dataclass(frozen=True, slots=True)
class TransformRecord:
    """A record as a function gets it.

    Attributes:
        topic: its topic on the source.
        partition: its partition.
        offset: its offset on the source.
        timestamp: milliseconds since 1970.
        key: its key.
        value: its value; None for a tombstone.
        headers: its headers in their order; names may repeat.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


TransformFunction = Callable[[TransformRecord, Mapping[str, str]], TransformRecord | None]
"""Gives the record with another key, value or headers, or None to leave it out; gets the flow's
``transform.secrets`` too. It must give the same for the same record every time."""


def load_functions(flow: Flow) -> dict[str, TransformFunction]:
    """The functions that a flow's rules name, by name, from their files.

    Raises:
        ConfigError: naming the rule: there is no such file, it cannot be imported, or has no such function.
    """
    functions: dict[str, TransformFunction] = {}
    modules: dict[str, ModuleType] = {}
    for number, rule in enumerate(flow.transform, 1):
        if not rule.function or rule.function in functions:
            continue
        place, _, name = rule.function.rpartition(".")
        key = f"transform, rule {number} ({', '.join(rule.topics)}), function"
        try:
            if place not in modules:
                modules[place] = _module(flow, place, rule.function)
            function = getattr(modules[place], name)
        except FileNotFoundError as error:
            raise ConfigError(
                flow.file, key, f"needs {error.filename}, which does not exist"
            ) from None
        except ConfigError:
            raise
        except AttributeError:
            file = flow.function_file(rule.function)
            raise ConfigError(flow.file, key, f"{file} has no function {name!r}") from None
        except KeyboardInterrupt:
            raise
        # Also sys.exit, which would end this process without a word.
        except BaseException as error:
            file = flow.function_file(rule.function)
            message = f"{file} cannot be imported: {_error_text(error, _find_secrets(flow))}"
            raise ConfigError(flow.file, key, message) from None
        if not callable(function):
            raise ConfigError(flow.file, key, f"{rule.function} is not a function")
        functions[rule.function] = function
    return functions


def module_of(function: str) -> ModuleType:
    """The module of a function's file, which ``load_functions`` has loaded, by its name in the flow's file."""
    return sys.modules[f"{_MODULES}.{function.rpartition('.')[0]}"]


def _module(flow: Flow, place: str, function: str) -> ModuleType:
    file = flow.function_file(function)
    # Without it, a missing file would look like one that has no loader.
    file.stat()
    check_code(flow.file, "transform.functions", file)
    name = f"{_MODULES}.{place}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Classes of the file look up their own module.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """What a function does to records.

    Attributes:
        name: its name in the flow's file.
        function: the function.
        secrets: the flow's secrets for rules.
    """

    name: str
    function: TransformFunction
    secrets: Mapping[str, str]

    def apply(
        self, converted: ConvertedBatch, partition: TopicPartition, topic_limits: TopicLimits
    ) -> TransformedBatch:
        """What the function leaves of a converted batch; a record for which it fails is left unchanged.

        Args:
            converted: the converted batch.
            partition: the source partition.
            topic_limits: what the target topic takes.

        Raises:
            MalformedBatch: if the content of a record cannot be read; ``TooLarge`` for more than ``OPENED_AT_ONCE``,
                or too many records.
        """
        if sum(count for _, count in converted.runs) > _MOST_RECORDS:
            raise TooLarge(f"more than {_MOST_RECORDS:,} records")
        kept: list[Record] = []
        filtered: list[Record] = []
        errors: dict[int, str] = {}
        changed = 0
        for record in records_of(converted, OPENED_AT_ONCE):
            if why := too_many_headers(record):
                errors[record[0]] = why
                kept.append(record)
                continue
            argument = _argument(record, partition)
            try:
                became = _same_place(argument, self.function(argument, self.secrets))
                content = None if became is None else _encode(became)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                shown = _error_text(error, self.secrets.values())
                errors[record[0]] = f"{self.name} failed: {shown}"
                kept.append(record)
                continue
            if content is None:
                filtered.append(record)
                continue
            changed += content != record[3]
            kept.append((*record[:3], content))
        rule_counts = {CHANGED: changed} | ({FAILED: len(errors)} if errors else {})
        if not filtered and not changed:
            same = replace(converted, rule_counts=rule_counts) if errors else converted
            return TransformedBatch((same,), errors)
        pieces = rebuilt(converted, kept, filtered, topic_limits, rule_counts)
        return TransformedBatch(tuple(pieces), errors)


def _error_text(error: BaseException, secrets: Iterable[str]) -> str:
    """An exception's text, without secrets; its kind alone if it has none, or cannot be printed."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as unprintable:
        text = f"it cannot be printed: {type(unprintable).__name__}"
    error_text = without(f"{type(error).__name__}: {text}", secrets)[:_MOST_TEXT].removesuffix(": ")
    # It goes into headers and files.
    return error_text.encode(errors="backslashreplace").decode()


def _find_secrets(flow: Flow) -> Iterator[str]:
    """The secrets of a flow's rules, as far as they can be looked up."""
    for name, _ in flow.transform_secrets:
        with suppress(ConfigError):
            yield look_up_secret(flow, name)


def _argument(record: Record, partition: TopicPartition) -> TransformRecord:
    content = read_content(record[3])
    headers = tuple(
        (name.decode(errors="surrogateescape"), value) for name, value in content.headers
    )
    place = (partition.topic, partition.partition, record[0], record[1])
    return TransformRecord(*place, content.key, content.value, headers)


def _same_place(argument: TransformRecord, became: object) -> TransformRecord | None:
    if became is None:
        return None
    if not isinstance(became, TransformRecord):
        raise TypeError(f"it gave {type(became).__name__}, and not a TransformRecord or None")
    if (
        replace(became, key=argument.key, value=argument.value, headers=argument.headers)
        != argument
    ):
        raise ValueError("it changed something else than key, value and headers")
    return became


def _encode(record: TransformRecord) -> bytes:
    headers = tuple(
        (name.encode(errors="surrogateescape"), value) for name, value in record.headers
    )
    return Content(record.key, record.value, headers).encode()
