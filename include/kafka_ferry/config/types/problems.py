"""What is wrong with a flow's file: collected first, then reported in one error."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import regex
from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from kafka_ferry.errors import ConfigError
from kafka_ferry.printable import one_line

CLIENT_PROPERTIES: Final = "client_properties"
"""The type of a pydantic error that carries several problems of one cluster."""

WHOLE_FILE: Final = "file"
"""The key of an error about the file as a whole."""


_NO_TEXT: Final = regex.compile(r"[\x00\uD800-\uDFFF]")


class Problem(NamedTuple):
    """One problem: the key as in the file, the reason, and what to do."""

    key: str
    reason: str
    advice: str = ""


def no_text(key: str, value: str) -> Problem | None:
    """What is wrong with a value that neither a file's name nor a program's argument can hold."""
    if _NO_TEXT.search(value) is None:
        return None
    return Problem(key, "has a character that no text can have (NUL or half of a surrogate pair)")


def config_error(file: str, *problems: Problem) -> ConfigError:
    """One error that lists all the problems; its ``key`` is the first one's."""
    first, *others = dict.fromkeys(problems)
    if not others:
        return ConfigError(file, first.key, _clause(first), advice=first.advice)
    lines = [_sentence(first), *(f"{file}: {other.key}: {_sentence(other)}" for other in others)]
    return ConfigError(file, first.key, "\n".join(map(one_line, lines)))


def _clause(problem: Problem) -> str:
    return f"{problem.reason}." if problem.advice else problem.reason


def _sentence(problem: Problem) -> str:
    return f"{_clause(problem)} {problem.advice}".rstrip()


def did_you_mean(name: str, valid: Iterable[str], *, cutoff: float = 0.7) -> str:
    """A suggestion for a misspelt name, or nothing where none is near (``difflib``'s ratio from ``cutoff`` on)."""
    near = difflib.get_close_matches(name, list(valid), n=1, cutoff=cutoff)
    return f"Did you mean {near[0]!r}?" if near else ""


def unknown_target(targets: Iterable[str], aliases: Sequence[str]) -> Problem | None:
    """The problem if flows into a cluster are requested that the file does not know."""
    for target in targets:
        if target not in aliases:
            advice = did_you_mean(target, aliases) or f"It has {', '.join(aliases)}."
            return Problem("clusters", f"{target!r} is not a cluster of this file", advice)
    return None


def cluster_error(problems: Sequence[Problem]) -> PydanticCustomError:
    """The error that a validator of a cluster's properties raises; keys are property names."""
    message = "; ".join(f"{key}: {reason}" for key, reason, _ in problems)
    return PydanticCustomError(
        CLIENT_PROPERTIES, "{message}", {"message": message, "problems": problems}
    )


def problems_of(error: ValidationError, key_of: Callable[[Sequence[str]], str]) -> list[Problem]:
    """Pydantic's errors as problems, never with the value that was refused.

    Args:
        error: what validating a flow raised.
        key_of: the key in the file for a path such as ``("source", "bootstrap.servers")``.
    """
    found: list[Problem] = []
    for detail in error.errors(include_url=False, include_input=False):
        path = [str(step) for step in detail["loc"]]
        if detail["type"] == CLIENT_PROPERTIES:
            for name, reason, advice in detail["ctx"]["problems"]:
                found.append(Problem(key_of([*path[:-1], name]), reason, advice))
        else:
            found.append(Problem(key_of(path), _reason(detail)))
    return found


def _reason(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "missing":
            return "is required"
        case "value_error":
            return str(detail["ctx"]["error"])
        case "string_type":
            return "must be text (in YAML: put it in quotes)"
        case "model_type":
            return "must be a mapping"
        case "tuple_type":
            return "must be a list, or text with commas"
        case _:
            return detail["msg"][:1].lower() + detail["msg"][1:]
