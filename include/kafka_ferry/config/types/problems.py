"""What is wrong with a flow's file: collected first, then reported in one error."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import regex
from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from kafka_ferry.errors import ConfigError, place_text
from kafka_ferry.printable import one_line

CLIENT_PROPERTIES: Final = "client_properties"
"""The type of a pydantic error that carries several problems of one cluster."""

WHOLE_FILE: Final = "file"
"""The key of an error about the file as a whole."""


NAME_PATTERN: Final = r"^[A-Za-z0-9._-]+$"
"""The form of what becomes a part of topics' names."""

# What is wrong may be of any length, and an Airflow stores it, and shows it, each time that it reads the file.
_LONGEST_TEXT: Final = 2_000
_MOST_SHOWN: Final = 200
_NO_TEXT: Final = regex.compile(r"[\x00\uD800-\uDFFF]")


class Problem(NamedTuple):
    """One problem: the key as in the file, the reason, what to do, and the line where that is known, from 1 on."""

    key: str
    reason: str
    advice: str = ""
    line: int | None = None


def no_text(key: str, value: str) -> Problem | None:
    """What is wrong with a value that neither a file's name nor a program's argument can hold."""
    if _NO_TEXT.search(value) is None:
        return None
    return Problem(key, "has a character that no text can have (NUL or half of a surrogate pair)")


def config_error(file: str, *problems: Problem) -> ConfigError:
    """One error that lists the problems, as many as a person reads; its ``key`` is the first one's."""
    listed = tuple(dict.fromkeys(problems))
    first, *rest = map(_shown, listed[:_MOST_SHOWN])
    if not rest:
        clause = _clause(first)
        return ConfigError(
            file, first.key, clause, advice=first.advice, line=first.line, problems=listed
        )
    lines = [
        _sentence(first),
        *(
            f"{place_text(file, problem.line)}: {problem.key}: {_sentence(problem)}"
            for problem in rest
        ),
        *([f"And {more:,} more."] if (more := len(listed) - _MOST_SHOWN) > 0 else ()),
    ]
    reason = "\n".join(map(one_line, lines))
    return ConfigError(file, first.key, reason, line=first.line, problems=listed)


def _shown(problem: Problem) -> Problem:
    """A problem with no more of its texts than a person reads."""
    key, reason, advice = (
        text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..." for text in problem[:3]
    )
    return problem._replace(key=key, reason=reason, advice=advice)


def _clause(problem: Problem) -> str:
    return f"{problem.reason}." if problem.advice else problem.reason


def _sentence(problem: Problem) -> str:
    return f"{_clause(problem)} {problem.advice}".rstrip()


def did_you_mean(name: str, valid: Iterable[str], *, cutoff: float = 0.7) -> str:
    """A suggestion for a misspelt name, or nothing where none is near (``difflib``'s ratio from ``cutoff`` on)."""
    return did_you_mean_each([name], valid, cutoff=cutoff)


def did_you_mean_each(names: Iterable[str], valid: Iterable[str], *, cutoff: float = 0.7) -> str:
    """``did_you_mean`` for several misspelt names, in one sentence."""
    known = list(valid)
    near = dict.fromkeys(nearest(name, known, cutoff=cutoff) for name in names)
    meant = [repr(name) for name in near if name]
    return f"Did you mean {', '.join(meant)}?" if meant else ""


def nearest(name: str, valid: Iterable[str], *, cutoff: float = 0.7) -> str:
    """The valid name that a misspelt one is most like, "" where none is near.

    One with the same beginning goes before others. Where none is alike, the name may have too much before it, as the
    source's alias before a topic.
    """
    known = list(valid)
    near = difflib.get_close_matches(name, known, n=max(1, len(known)), cutoff=cutoff)
    near = [one for one in near if one.startswith(name) or name.startswith(one)] or near
    return next(iter(near or [one for one in known if name.endswith(f".{one}")]), "")


def unknown_target(targets: Iterable[str], aliases: Sequence[str]) -> Problem | None:
    """The problem if flows into a cluster are requested that the file does not know."""
    for target in targets:
        if target not in aliases:
            advice = did_you_mean(target, aliases) or f"It has {', '.join(aliases)}."
            return Problem("clusters", f"{target!r} is not a cluster of this file", advice)
    return None


def problems_error(problems: Sequence[Problem]) -> PydanticCustomError:
    """The error that a validator raises for some keys, below the one that it validates or its ``properties``."""
    message = "; ".join(f"{key}: {reason}" for key, reason, *_ in problems)
    return PydanticCustomError(
        CLIENT_PROPERTIES, "{message}", {"message": message, "problems": problems}
    )


def problems_of(error: ValidationError, key_of: Callable[[Sequence[str]], str]) -> list[Problem]:
    """Pydantic's errors as problems, never with the value that was refused.

    Args:
        error: what validating a flow raised.
        key_of: the key in the file for a path such as ``("source", "bootstrap.servers")``.
    """
    problems: list[Problem] = []
    for detail in error.errors(include_url=False, include_input=False):
        path = [str(step) for step in detail["loc"]]
        if detail["type"] == CLIENT_PROPERTIES:
            above = path[:-1] if path[-1:] == ["properties"] else path
            for name, reason, advice, _ in detail["ctx"]["problems"]:
                problems.append(Problem(key_of([*above, name]), reason, advice))
        else:
            problems.append(Problem(key_of(path), _reason(detail)))
    return problems


# By pydantic's type of error, with the names of its context.
_REASONS: Final = {
    "missing": "is required",
    "value_error": "{error}",
    "string_type": "must be text (in YAML: put it in quotes)",
    "model_type": "must be a mapping",
    "tuple_type": "must be a list, or text with commas",
    "dict_type": "must be a mapping",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_too_short": "must not be empty",
    "extra_forbidden": "is not an option here",
}


def _reason(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if context.get("pattern") == NAME_PATTERN:
        return "must consist of letters, digits, '.', '_' and '-', as topics' names do"
    if known := _REASONS.get(detail["type"]):
        return known.format_map(context)
    return detail["msg"][:1].lower() + detail["msg"][1:]
