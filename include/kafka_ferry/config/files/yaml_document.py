"""Text in YAML as plain values; every problem names its place.

A file is read in three steps, so that no file can crash its reader: its events show how deep it nests and how many
values it has, its nodes how many and how long these are with aliases expanded, and only then its values are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import regex
import yaml

from kafka_ferry.config.types.problems import WHOLE_FILE, Problem, no_text

_DEEPEST: Final = 50
_MOST_VALUES: Final = 200_000
# Each value is looked at with the keys above it: of all together.
_MOST_CHARACTERS: Final = 64 * 1024 * 1024
# PyYAML's own reader, in Python, takes a second for 100 KB.
_MOST_READ_AGAIN: Final = 200_000
_MOST_DIGITS: Final = 20
_TAG: Final = "tag:yaml.org,2002:"
_MEANT: Final = {"timestamp": "date", "int": "number", "float": "number", "bool": "true or false"}
_INTEGER: Final = regex.compile(r"(0|-?[1-9][0-9]*)\Z")
# By tag, what a plain scalar of it looks like, and how it may begin.
_IMPLICIT: Final = {
    "null": (regex.compile(r"(~|null|Null|NULL|)\Z"), ("~", "n", "N", "")),
    "bool": (regex.compile(r"(true|True|TRUE|false|False|FALSE)\Z"), tuple("tTfF")),
    "int": (_INTEGER, tuple("-0123456789")),
    "merge": (regex.compile(r"<<\Z"), ("<",)),
}


def _loader(base: Any) -> Any:
    """A loader of YAML 1.2's core schema whose only numbers are those that are printed as they were written.

    For PyYAML's own, which reads YAML 1.1, ``010`` is 8, ``1:30`` is 90, ``no`` is false and a day is a date. Here
    all of these are text, and options read it as they read that of a properties file.
    """
    kind: Any = type(f"Core{base.__name__}", (base,), {"yaml_implicit_resolvers": {}})
    for tag, (form, beginnings) in _IMPLICIT.items():
        kind.add_implicit_resolver(_TAG + tag, form, list(beginnings))
    kind.add_constructor(f"{_TAG}int", _whole_number)
    return kind


def _whole_number(_: Any, node: yaml.ScalarNode) -> int:
    if not _INTEGER.match(node.value):  # where a file has the tag itself: !!int 0x10
        raise ValueError(node.value)
    # Many larger ones may have one hash: a mapping with such keys takes for ever.
    if len(node.value) > _MOST_DIGITS:
        raise ValueError("has too many digits")
    return int(node.value)


# What PyYAML was at, and how that begins.
_OPENED: Final = {
    "while parsing a flow sequence": "bracket '['",
    "while parsing a flow mapping": "bracket '{'",
    "while parsing a flow node": "bracket",
    "while scanning a quoted scalar": "quote",
}
# Keys whose values are patterns, and no secrets.
FILTERS: Final = ("topics", "topics.exclude", "groups", "groups.exclude", "include", "exclude")
# Each of a node's tags has a prefix of any length, and PyYAML compares each prefix with all before it.
_PREFIX: Final = regex.compile(r"(?:^|[\r\n\x85\u2028\u2029])\ufeff?%TAG")
_KEY: Final = regex.compile(r"(?:^|[{,\s])([\w.-]+)\s*:(?=\s)")
_ITEM: Final = regex.compile(r"\*[^\s,\]}]*")
_PURE: Final = _loader(yaml.SafeLoader)
# A fifth of the time, which matters where Airflow reads 200 flows repeatedly.
_IN_C: Final = _loader(yaml.CSafeLoader) if yaml.__with_libyaml__ else None


class NoDocument(Exception):
    """A text that is not a YAML document.

    Attributes:
        problem: what is wrong with it, without any text that may be part of a password.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


def read_document(content: bytes) -> Any:
    """What a text holds: mappings, lists, text, whole numbers, true, false and null; each key once in a mapping.

    Raises:
        NoDocument: it is not YAML, nests too deep, contains itself, or has an impossible value, such
            as a day that is in no calendar.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = Problem(WHOLE_FILE, f"is not UTF-8 (byte {error.start})")
        raise NoDocument(problem) from None
    try:
        return _read(text)
    except yaml.YAMLError as error:
        raise NoDocument(_alias_problem(error, text) or _syntax_problem(error)) from None


def compose(content: bytes) -> yaml.Node | None:
    """The nodes of a text that ``read_document`` has read, which know their lines; None where it holds nothing."""
    return yaml.compose(content.decode("utf-8-sig"), Loader=_IN_C or _PURE)


def _read(text: str) -> Any:
    if prefix := _PREFIX.search(text):
        line = len(text[: prefix.end()].splitlines())
        raise NoDocument(
            Problem(f"line {line}", "has a prefix of tags (%TAG), which no flow needs")
        )
    if _IN_C is None:
        return _read_with(_PURE, text)
    try:
        return _read_with(_IN_C, text)
    except yaml.YAMLError:
        if len(text) > _MOST_READ_AGAIN:
            raise
        # The other one says better where.
        return _read_with(_PURE, text)


def _read_with(kind: Any, text: str) -> Any:
    _refuse_sizes(kind, text)
    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _size_of(node, {})
        for path, scalar in _scalars(node, ""):
            if problem := no_text(path or WHOLE_FILE, scalar.value):
                raise NoDocument(problem)
        try:
            return loader.construct_document(node)
        except yaml.YAMLError:
            raise
        except Exception:  # value, key, attribute and overflow errors, by the kind of value
            raise NoDocument(_impossible(kind, node)) from None
    finally:
        loader.dispose()


def _refuse_sizes(kind: Any, text: str) -> None:
    """Composing nodes is recursive, and in C only limited by the process's stack; and each takes half a kilobyte."""
    depth = count = 0
    for event in yaml.parse(text, Loader=kind):
        count += isinstance(event, yaml.NodeEvent)
        if count > _MOST_VALUES:
            raise NoDocument(Problem(WHOLE_FILE, f"has more than {_MOST_VALUES:,} values"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise NoDocument(Problem(f"line {line}", f"nests more than {_DEEPEST} levels deep"))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Size(NamedTuple):
    """How large what a node holds is, with aliases expanded.

    Attributes:
        values: how many.
        characters: of all, each with the keys on the way to it.
    """

    values: int
    characters: int


def _size_of(node: yaml.Node, known: dict[int, _Size | None]) -> _Size:
    """The size of a node; refuses one that is too large, duplicate keys and recursion."""
    if isinstance(node, yaml.ScalarNode):
        return _Size(1, len(node.value))
    if id(node) in known:
        if (known_size := known[id(node)]) is None:
            problem = Problem(f"line {node.start_mark.line + 1}", "contains itself, by an alias")
            raise NoDocument(problem)
        return known_size
    known[id(node)] = None
    values, characters = 1, 0
    if isinstance(node, yaml.MappingNode):
        _refuse_twins(node)
        for key, value in node.value:
            of_key, of_value = _size_of(key, known), _size_of(value, known)
            values += of_key.values + of_value.values
            characters += of_key.characters * (1 + of_value.values) + of_value.characters
    else:
        for item in node.value:
            of_item = _size_of(item, known)
            values += of_item.values
            characters += of_item.characters
    for count, most, what in (
        (values, _MOST_VALUES, "values, with aliases followed"),
        (characters, _MOST_CHARACTERS, "characters, with aliases and the keys above each value"),
    ):
        if count > most:
            reason = f"comes to more than {most:,} {what}"
            raise NoDocument(Problem(f"line {node.start_mark.line + 1}", reason))
    size = known[id(node)] = _Size(values, characters)
    return size


def _refuse_twins(node: yaml.MappingNode) -> None:
    lines_by_key: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            if key.value in lines_by_key:
                reason = f"is given twice, in line {lines_by_key[key.value]} too"
                line = key.start_mark.line + 1
                raise NoDocument(Problem(key.value, reason, "Keep the right one.", line))
            lines_by_key[key.value] = key.start_mark.line + 1


def _impossible(kind: Any, root: yaml.Node) -> Problem:
    """The error about an invalid value, which is not shown: it may be part of a password."""
    for path, node in _scalars(root, ""):
        loader = kind("")
        try:
            loader.construct_document(node)
        except Exception:
            meant = node.tag.removeprefix(_TAG)
            reason = f"is no {_MEANT.get(meant, meant)} (line {node.start_mark.line + 1})."
            return Problem(
                path or WHOLE_FILE, reason.rstrip("."), "If it is text, put it in quotes."
            )
        finally:
            loader.dispose()
    return Problem(WHOLE_FILE, "has a value that cannot be read")


def _scalars(node: yaml.Node, path: str) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """The single values below a node, each with its key."""
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            below = f"{path}.{name}".lstrip(".")
            yield from _scalars(key, below)
            yield from _scalars(value, below)
    else:
        for at, item in enumerate(node.value):
            yield from _scalars(item, f"{path}.{at}".lstrip("."))


def _alias_problem(error: yaml.YAMLError, text: str) -> Problem | None:
    """The problem with a value that begins with ``*``, if that is the error: so YAML writes an alias."""
    mark = getattr(error, "problem_mark", None)
    undefined = "found undefined alias" in (getattr(error, "problem", None) or "")
    if mark is None or not (
        undefined or getattr(error, "context", "") == "while scanning an alias"
    ):
        return None
    lines = text.splitlines()
    key = _KEY.findall("\n".join([*lines[: mark.line], lines[mark.line][: mark.column + 1]]))
    item = _ITEM.search(lines[mark.line], mark.column if undefined else 0)
    is_filter = item is not None and key and key[-1] in FILTERS
    shown = item[0] if item and is_filter else ""
    pattern = "." + shown.replace("*.", r"*\.") if shown else ".*"
    reason = f"{shown or 'a value'} begins with '*', which YAML takes for an alias"
    advice = "Put it in quotes."
    if is_filter:
        advice = f"Put it in quotes, and write any text as '.*': '{pattern}'."
    return Problem(f"line {mark.line + 1}", reason, advice)


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}" if mark else WHOLE_FILE
    # PyYAML's quotation may be part of a password.
    reason = regex.sub(r"'.*'", "'...'", getattr(error, "problem", None) or "unreadable text")
    # So PyYAML says of a tab, in two ways.
    is_tab = "'\\t'" in (getattr(error, "problem", None) or "")
    if is_tab:
        return Problem(where, "is not valid YAML: it is indented by a tab", "Indent with spaces.")
    is_in_line = reason.startswith("mapping values are not allowed")
    keys = "Does a second key stand in the line? Write KEY: {NAME: VALUE}." if is_in_line else ""
    return Problem(where, f"is not valid YAML: {reason}", keys or _what_is_open(error))


def _what_is_open(error: yaml.YAMLError) -> str:
    """What may not be closed, and where it begins: the error is where the next thing is, perhaps lines below."""
    what, mark = _OPENED.get(getattr(error, "context", "")), getattr(error, "context_mark", None)
    if not what or not mark:
        return ""
    return f"Is the {what} of line {mark.line + 1} closed? A pattern with brackets or braces needs quotes."
