"""Where a flow's file says what is wrong with it: the line of each key, and what stands there."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import javaproperties
import regex
import yaml

from kafka_ferry.config.client.cluster import is_secret
from kafka_ferry.config.files.yaml_document import NoDocument, compose, read_document
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.java_properties import entries
from kafka_ferry.config.types.name_filter import split_list
from kafka_ferry.config.types.problems import Problem, config_error, did_you_mean
from kafka_ferry.errors import ConfigError

# Longer ones say nothing to a person, and one with a user's name may have the password too.
_SHOWN: Final = regex.compile(r"[^@]{0,80}")
# What a reason begins with that says what a value has to be.
_DEMAND: Final = regex.compile(r"(must|should) ")
_NEVER_SHOWN: Final = regex.compile(r"(.*->.*\.)?(transform\.secrets|certificates|notify)(\..*)?")
_IN_QUOTES: Final = regex.compile(r"'([^']+)'")
_TRAILING_COMMENT: Final = regex.compile(r"\s+[#!].*", regex.DOTALL)
_IN_TWO_QUOTES: Final = regex.compile(r"""(["'])(.*)\1""")


class KeyPlace(NamedTuple):
    """Where a key stands.

    Attributes:
        line: from 1 on.
        value: in a few words.
        mistake: what a properties file takes for a part of the value, and a person does not; "" where there is nothing.
        meant: the value without it.
    """

    line: int
    value: str
    mistake: str = ""
    meant: str = ""


KeyPlaces = Mapping[str, KeyPlace]


@contextmanager
def locate_problems(file: str, places: Callable[[], KeyPlaces]) -> Iterator[None]:
    """Adds to the problems of a file the line of each, and the value that is wrong, as it is written there.

    Args:
        file: as in the problems.
        places: the file's keys; asked only if there is a problem.

    Raises:
        ConfigError: the same one, with its lines.
    """
    try:
        yield
    except ConfigError as error:
        if error.file != file:
            raise
        problems = error.problems or ((error.key, error.reason, error.advice),)
        key_places = places()
        placed = [_locate(Problem(*problem), key_places) for problem in problems]
        raise config_error(file, *sorted(placed, key=lambda it: it.line or sys.maxsize)) from None


def in_file(problem: Problem, flow: Flow, places: KeyPlaces) -> Problem:
    """A problem of a flow with the line and the name that its key has in the flow's file."""
    key = next((name for name in _names_of(problem.key, flow) if name in places), problem.key)
    return _locate(problem._replace(key=key), places)


def _names_of(key: str, flow: Flow) -> Iterator[str]:
    """The names that a key of a flow may have in its file; the one that counts comes first."""
    side, _, rest = key.partition(".")
    aliases = {"source": flow.source.alias, "target": flow.target.alias}
    yield f"{flow.name}.{key}"
    yield f"{aliases.get(side, side)}.{rest}"
    yield key


def yaml_places(content: bytes) -> KeyPlaces:
    """The places of a YAML file, with dots between the keys of a path; none where it cannot be read."""
    try:
        read_document(content)
    except NoDocument:
        return {}
    node = compose(content)
    return dict(_below(node, "")) if node else {}


def properties_places(content: bytes) -> KeyPlaces:
    """The places of a properties file; of equal keys the last, which counts. None where it cannot be read."""
    return dict(_entries(content))


def _entries(content: bytes) -> Iterator[tuple[str, KeyPlace]]:
    try:
        lines = [*entries(content.removeprefix(BOM_UTF8).decode("latin-1"))]
    except javaproperties.InvalidUEscapeError:
        return
    for key, text, line in lines:
        value = text.strip()
        yield key, KeyPlace(line, _quote(value), *_mistake(value))


def _mistake(value: str) -> tuple[str, str]:
    """As the attributes of ``KeyPlace``."""
    bare = _TRAILING_COMMENT.sub("", value)
    if bare != value:
        return "A comment needs a line of its own in a properties file", bare
    if quoted := _IN_TWO_QUOTES.fullmatch(value):
        return "Values in a properties file have no quotes", quoted[2]
    return "", ""


def properties_twins(content: bytes) -> list[tuple[str, str]]:
    """Each key of a properties file that a later line gives again, with its line, and why it has no effect."""
    places_by_key: dict[str, list[KeyPlace]] = {}
    for key, place in _entries(content):
        places_by_key.setdefault(key, []).append(place)
    return [
        (f"{key} in line {first.line}", f"line {last.line} gives it again{_as(key, last)}")
        for key, (*earlier, last) in places_by_key.items()
        for first in earlier
    ]


def _as(key: str, place: KeyPlace) -> str:
    return f", as {place.value}" if place.value and _may_show(key) else ""


def _below(node: yaml.Node, path: str) -> Iterator[tuple[str, KeyPlace]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            below = f"{path}.{name}".lstrip(".")
            yield below, KeyPlace(key.start_mark.line + 1, _value(value))
            yield from _below(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            below = f"{path}.{at}"
            yield below, KeyPlace(item.start_mark.line + 1, _value(item))
            yield from _below(item, below)


def _value(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return _quote(node.value)
    if isinstance(node, yaml.SequenceNode):
        return "a list" if node.value else "an empty list"
    names = [repr(key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    return f"a mapping with {', '.join(names[:3])}" if names else "a mapping"


def _quote(text: str) -> str:
    if not text:
        return "empty"
    return f"'{text}'" if _SHOWN.fullmatch(text) else ""


def _locate(problem: Problem, places: KeyPlaces) -> Problem:
    place, is_own = places.get(problem.key), True
    above = problem.key
    while place is None and "." in above:
        above, is_own = above.rpartition(".")[0], False
        place = places.get(above)
    if place is None or problem.line:
        return problem
    reason = problem.reason
    if is_own and place.mistake and "comment" not in reason:
        meant = f": write {place.meant}" if _may_show(problem.key) else ""
        problem = problem._replace(advice=f"{place.mistake}{meant}")
    if is_own and _DEMAND.match(reason) and _may_show(problem.key) and place.value:
        reason += "" if place.value in reason else f", and not {place.value}"
        value = place.value.strip("'")
        near = did_you_mean(
            value, [allowed for allowed in _listed_values(problem.reason) if allowed != value]
        )
        if near and "Did you mean" not in reason:
            return problem._replace(reason=reason, advice=problem.advice or near, line=place.line)
    return problem._replace(reason=reason, line=place.line)


def _listed_values(reason: str) -> list[str]:
    """The values that a reason lists: in quotes, or after "one of"."""
    _, _, listed = reason.partition("must be one of ")
    return [*_IN_QUOTES.findall(reason), *split_list(listed.partition(", or ")[0])]


def _may_show(key: str) -> bool:
    return not is_secret(key) and not _NEVER_SHOWN.fullmatch(key)
