"""Which topics a flow copies, and which groups it moves, by MirrorMaker 2's filters.

As ``DefaultTopicFilter`` and ``DefaultGroupFilter`` do it: the patterns of a list are joined with
``|``, compiled as one Java regular expression and matched against the *whole* name. An empty list
matches nothing, and the exclude list wins. A topic's own name is a pattern too; its dots then match
any character, as they do in MirrorMaker 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from typing import Any, Final

import regex

from kafka_ferry.config.types.java_regex import NotTranslated, translate_regex
from kafka_ferry.errors import ConfigError, InputError

_DOT_IS_ALL: Final = "(?s)"
_IN_BRACKETS: Final = regex.compile(r"\[[^\[\]]*\]")
_NAME_ALONE: Final = regex.compile(r"[A-Za-z0-9._-]*+")
_NAMES_ALONE: Final = regex.compile(r"[A-Za-z0-9._|-]*+")
_NAME_WEIGHT: Final = 5
# A second or two of a DAG processor that reads all flows.
_HEAVIEST: Final = 100_000
# What stands for a dot, a dollar sign or a word's end is up to a hundred times as long: of what it is longer, so many
# characters take as long as one of the pattern's.
_TRANSLATED_WEIGHT: Final = 3
# Of all patterns of a file: some seconds.
_HEAVIEST_FILE: Final = 500_000
# What each expression takes, however short it is, in characters.
_EACH_WEIGHT: Final = 10
# How many patterns a reason lists.
_LISTED: Final = 5
_COMMENT: Final = regex.compile(r"[#\s]")
_BLANK: Final = r"\x20 is a blank"
_BLANK_AND_SIGN: Final = r"\x20 is a blank and \x23 is '#'"
_QUOTES: Final = r"\x22 and \x27 are quotes"
_QUOTED: Final = regex.compile(r"""["'].*|.*["']""", regex.DOTALL)
# What can stand for itself in an expression, and in no topic's name.
_IN_NO_TOPIC: Final = "/%\"'@;~&!:=<>"
# Parts of an expression that need not match what they show: a quotation, a set, an escape. One without an end takes no
# longer than one with it.
_NOT_LITERAL: Final = regex.compile(
    rf"\\Q.*?(\\E|$)|\[(?:\\.|[^\]])*+(?:\]|$)|\\[^{_IN_NO_TOPIC}]", regex.DOTALL
)
_IMPOSSIBLE: Final = regex.compile(rf"[{_IN_NO_TOPIC}](?![?*{{])")
# A star after a letter or digit that stands for itself, as in a shell's patterns.
_LETTER_STAR: Final = regex.compile(r"(?<=[A-Za-z0-9_-])\*(?![?+])")


# Of processor time. Most patterns take a few microseconds a name; some a power of its length.
_ONE_NAME_S: Final = 0.5
_EACH_S: Final = 0.0001
_BEYOND_S: Final = 2.0
# Any client of a cluster may choose thousands of groups' ids, each of 32 KB.
_ONE_TEXT_S: Final = 0.01


class PatternError(ValueError):
    """A list of patterns that Java would not compile; the message says which one and why."""


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list, trimmed; empty items are dropped."""
    return tuple(item for item in map(str.strip, text.split(",")) if item)


_left: ContextVar[list[float] | None] = ContextVar("left", default=None)


@contextmanager
def patterns_of_file() -> Iterator[None]:
    """Compile no more in the body than the patterns of one file may come to: there may be any number of lists."""
    token = _left.set([_HEAVIEST_FILE])
    try:
        yield
    finally:
        _left.reset(token)


def _spend(text: str, translated: str) -> None:
    """Raise ``PatternError`` where an expression, or all of a file together, take too long to compile."""
    left = _left.get() or [_HEAVIEST_FILE]
    weight = 1 / _NAME_WEIGHT if _NAMES_ALONE.fullmatch(text) else 1.0
    more = max(0, len(translated) - len(text)) / _TRANSLATED_WEIGHT
    left[0] -= _EACH_WEIGHT + weight * len(text) + more
    if left[0] < 0:
        raise PatternError(
            "the patterns take too long to compile together: shorten them, or divide their file"
        )


class NamePatterns:
    """A compiled expression that takes little time for many names, or says that it does not.

    Args:
        text: the expression, as Java writes it.
    """

    def __init__(self, text: str) -> None:
        translated = translate_regex(text)
        _spend(text, translated)
        # Version 1 has nested sets and intersections.
        self._compile = regex.compile(translated, regex.VERSION1)
        self._text = text
        self._beyond_s = 0.0

    def fullmatch(self, name: str) -> Any:
        """The match of the whole name; None where there is none.

        Raises:
            InputError: the expression takes too long for it, or for all names so far.
        """
        return self._quick(self._compile.fullmatch, name)

    def fullmatch_text(self, text: str) -> Any:
        """As ``fullmatch``, of one among many texts of any length: it takes no time from the others.

        Raises:
            InputError: the expression takes too long for it.
        """
        try:
            return self._compile.fullmatch(text, timeout=_ONE_TEXT_S)
        except TimeoutError:
            raise self._slow(text) from None

    def sub(self, replace: Callable[[Any], str], name: str) -> str:
        """The name with each match in it replaced.

        Raises:
            InputError: as ``fullmatch``.
        """
        return str(self._quick(self._compile.sub, replace, name))

    @property
    def groups(self) -> int:
        """How many groups the expression has."""
        return int(self._compile.groups)

    def _quick(self, work: Callable[..., Any], *arguments: Any) -> Any:
        name, began = arguments[-1], time.thread_time()
        try:
            result = work(*arguments, timeout=_ONE_NAME_S)
        except TimeoutError:
            raise self._slow(name) from None
        took_s = time.thread_time() - began
        self._beyond_s = max(0.0, self._beyond_s + took_s - _EACH_S)
        if self._beyond_s > _BEYOND_S:
            raise self._slow(name)
        return result

    def _slow(self, name: str) -> InputError:
        return InputError(
            f"The pattern {self._text!r:.500} takes too long for names such as {name!r:.300}.",
            advice="Write it without repetitions within repetitions, such as (.*a)+ or (.*){9}.",
        )


def compile_patterns(patterns: Sequence[str]) -> NamePatterns:
    """One compiled expression for the whole list.

    Joining comes before compiling, as in MirrorMaker 2: ``(a, b)`` in a comma-separated list is
    ``(a|b)``, and an inline flag such as ``(?i)`` holds for the patterns after it.

    Raises:
        PatternError: the joined expression is not valid.
    """
    _require_light(patterns)
    joined = "|".join(patterns)
    try:
        return _compile(joined)
    except PatternError:
        raise
    except ValueError:
        culprit, error = _first_invalid(patterns)
        if isinstance(error, NotTranslated):
            reason = f"{culprit!r} has {error}, which Java knows and Kafka Ferry does not"
            raise PatternError(reason) from None
        hint = " ('*' repeats what is before it; any text is '.*')" if culprit[:1] == "*" else ""
        raise PatternError(
            f"{culprit!r} is not a valid regular expression: {error}{hint}"
        ) from None


def _require_light(patterns: Sequence[str]) -> None:
    """Raise ``PatternError`` where patterns take long to compile: a name without an operator takes a fifth."""
    size = sum(len(pattern) + 1 for pattern in patterns)
    if size <= _HEAVIEST:
        return
    names = sum(len(pattern) + 1 for pattern in patterns if _NAME_ALONE.fullmatch(pattern))
    if size - names + names / _NAME_WEIGHT > _HEAVIEST:
        raise PatternError(
            f"the patterns have {size:,} characters together, and take too long to compile: "
            f"shorten them to {_HEAVIEST:,}, or {_NAME_WEIGHT * _HEAVIEST:,} of names alone"
        )


def checked_patterns(patterns: tuple[str, ...], *, any_text: bool = False) -> tuple[str, ...]:
    """Patterns as a flow's file has them.

    A properties file has no comments after values: with ``foo.*, bar.* # old`` the second pattern would be
    ``bar.* # old``, which no topic matches.

    Args:
        patterns: a list of them.
        any_text: whether the names may hold any character, as groups' ids may.

    Raises:
        PatternError: they do not compile, or one holds a blank, a number sign, quotes around it, or a character
            with which it can match no name.
    """
    _require_light(patterns)
    for pattern in patterns:
        if _QUOTED.fullmatch(pattern):
            bare = ", ".join(filter(None, (quoted.strip("\"' ") for quoted in patterns)))
            raise PatternError(
                f"{pattern!r} holds quotes, which are part of the value here: leave them out, {bare!r}"
                f"{_escapes(any_text, _QUOTES)}"
            )
        if not any_text and (reason := _impossible(pattern)):
            raise PatternError(f"{pattern!r} {reason}")
        words = pattern.split()
        if len(words) > 1 and "#" not in pattern:
            raise PatternError(
                f"{pattern!r} holds a blank, as no topic's name does: {_apart(words)}{_escapes(any_text, _BLANK)}"
            )
        if _COMMENT.search(pattern):
            raise PatternError(
                f"{pattern!r} holds a blank or '#', as no topic's name does: a comment needs a line of its own "
                f"in a properties file{_escapes(any_text, _BLANK_AND_SIGN)}"
            )
    listed = ", ".join(patterns)
    if len(patterns) > 1 and _IN_BRACKETS.fullmatch(listed):
        raise PatternError(
            f"{listed!r} is one character of these, as a regular expression: leave the brackets out, "
            f"{listed[1:-1]!r}"
        )
    compile_patterns(patterns)
    return patterns


def _apart(words: Sequence[str]) -> str:
    """How the words of an entry become entries: one with commas is of a list, or a line of Airflow's form."""
    names = [word.strip(",") for word in words]
    if any(word.endswith(",") for word in words):
        return f"each name is an entry of its own, or a line of a form, {', '.join(map(repr, filter(None, names)))}"
    return (
        f"put a comma between names, {', '.join(names)!r}, or each on a line of its own in a form"
    )


def _escapes(any_text: bool, escape: str) -> str:
    return f" (in a group's id, {escape})" if any_text else ""


def star_expression(pattern: str) -> str:
    """The expression that is meant where a pattern seems to be a shell's, such as ``order*``; "" elsewhere."""
    whole = _LETTER_STAR.sub(".*", pattern)
    return "" if whole == pattern or _NOT_LITERAL.search(pattern) else whole


def _impossible(pattern: str) -> str:
    """Why an expression can match no topic's name: a character that it demands; "" where it can."""
    literal = _NOT_LITERAL.sub("", pattern)
    if "|" in literal or "(?" in literal or not (match := _IMPOSSIBLE.search(literal)):
        return ""
    reason = f"holds {match[0]!r}, as no topic's name does"
    if match[0] == "!":
        return f"{reason}: what is to be left out stands in the option's exclude list, {pattern.strip('!')!r}"
    if match[0] == "%":
        return f"{reason}: any text is '.*', {pattern.replace('%', '.*')!r}"
    if match[0] == ";":
        names = [name.strip() for name in pattern.split(";")]
        return f"{reason}: put a comma between names, {', '.join(filter(None, names))!r}"
    if match[0] == "/" and (bare := pattern.strip("/")) and "/" not in bare:
        return f"{reason}: an expression stands without slashes, {bare!r}"
    return reason


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> NamePatterns:
    return NamePatterns(pattern)


def _first_invalid(patterns: Sequence[str]) -> tuple[str, ValueError]:
    for pattern in (*patterns, "|".join(patterns)):
        try:
            _compile(pattern)
        except ValueError as error:
            return pattern, error
    raise AssertionError("all of them are valid")


@dataclass(frozen=True)
class NameFilter:
    """Says for each topic or group whether it is selected, and if not, why.

    Args:
        include: patterns of the selected names; an empty list selects nothing.
        exclude: patterns of the names to leave out; wins over ``include``.
        file: where the patterns were read from, for error messages.
        include_key: the option that holds ``include``.
        exclude_key: the option that holds ``exclude``.
        any_text: whether the names may hold line breaks, as groups' ids may: a dot stands for these too, unlike
            in MirrorMaker 2, where ``.*`` silently leaves such a group out. Such a name is not selected where its
            patterns take too long for it: others would be left out with it, and any client may choose one.

    Raises:
        ConfigError: a pattern is not valid; it names file, key and reason.
    """

    include: Sequence[str]
    exclude: Sequence[str]
    file: InitVar[str] = "filter"
    include_key: InitVar[str] = "topics"
    exclude_key: InitVar[str] = "topics.exclude"
    any_text: bool = False
    _included: NamePatterns | None = field(init=False, repr=False, compare=False)
    _excluded: NamePatterns | None = field(init=False, repr=False, compare=False)

    def __post_init__(self, file: str, include_key: str, exclude_key: str) -> None:
        for name, patterns, compiled, key in (
            ("include", self.include, "_included", include_key),
            ("exclude", self.exclude, "_excluded", exclude_key),
        ):
            listed = split_list(patterns) if isinstance(patterns, str) else tuple(patterns)
            object.__setattr__(self, name, listed)
            try:
                object.__setattr__(self, compiled, self._compile(listed) if listed else None)
            except PatternError as error:
                raise ConfigError(file, key, str(error)) from None

    def _compile(self, patterns: Sequence[str]) -> NamePatterns:
        # First as they are, for an error is to quote what the file says.
        compiled = compile_patterns(patterns)
        if self.any_text:
            return compile_patterns([f"{_DOT_IS_ALL}{patterns[0]}", *patterns[1:]])
        return compiled

    def matches(self, name: str) -> bool:
        """Whether the topic or group is selected."""
        return bool(self._selects(name))

    def is_too_slow(self, name: str) -> bool:
        """Whether the group is not selected because a pattern takes too long for its id."""
        return self._selects(name) is None

    def why_not(self, name: str) -> str | None:
        """The reason why the topic or group is left out; None where it is not."""
        selected = self._selects(name)
        if selected:
            return None
        if selected is None:
            return "a pattern takes too long for its id"
        if self._matches(self._excluded, name):
            return f"excluded by '{self._excluding_pattern(name)}'"
        listed = ", ".join(f"'{pattern}'" for pattern in self.include[:_LISTED]) or "an empty list"
        more = len(self.include) - _LISTED
        return f"matched by no pattern of {listed}{f' and {more} more' if more > 0 else ''}"

    def _selects(self, name: str) -> bool | None:
        """Whether the topic or group is selected; None where that takes too long to tell of a group."""
        try:
            return self._matches(self._included, name) and not self._matches(self._excluded, name)
        except InputError:
            if not self.any_text:
                raise
            return None

    def _matches(self, compiled: NamePatterns | None, name: str) -> bool:
        if compiled is None:
            return False
        match = compiled.fullmatch_text if self.any_text else compiled.fullmatch
        return match(name) is not None

    def _excluding_pattern(self, name: str) -> str:
        for pattern in self.exclude:
            try:
                if self._matches(self._compile([pattern]), name):
                    return pattern
            except (PatternError, InputError):
                continue  # valid, or quick, only together with its neighbours
        return "|".join(self.exclude)
