"""A command whose help says of each option what a person types, and nothing in Python's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperCommand, TyperOption

from kafka_ferry.cli.terminal import is_plain

# Of pydantic, in whose words typer tells of a wrong value.
_WORDS: Final = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "must be a whole number",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
}


class Command(TyperCommand):
    """A command of ``ferry``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters: a switch takes no value, and an option that may be repeated takes one at a time."""
        params = super().get_params(ctx)
        for param in params:
            if isinstance(param, TyperOption) and param.metavar is None:
                shown = param.bare_type()
                if param.is_flag:
                    param.metavar = ""
                elif shown.startswith("list["):
                    param.metavar = f"<{shown[5:-1]}>"
        return list(params)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help; without any style where NO_COLOR asks for none."""
        if is_plain():
            # Most commands show no help.
            from typer import rich_utils

            rich_utils.COLOR_SYSTEM = None
        super().format_help(ctx, formatter)


def with_value(error: Any, arguments: Sequence[str]) -> str:
    """The message of a wrong value with the value as it was typed, which typer leaves out of most.

    Args:
        error: typer's ``BadParameter``.
        arguments: those of the command line.
    """
    message = str(error.message)
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    names = getattr(getattr(error, "param", None), "opts", ())
    given = [
        value if joined else after
        for argument, after in zip(arguments, [*arguments[1:], ""], strict=True)
        for name, joined, value in [argument.partition("=")]
        if name in names
    ]
    if not given or given[-1] in message:
        return message
    return f"{message.rstrip('.')}, and not {given[-1]!r}"
