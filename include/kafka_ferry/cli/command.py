"""A command whose help says of each option what a person types, and nothing in Python's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperCommand, TyperOption

from kafka_ferry.cli.terminal import is_plain
from kafka_ferry.config.files.load import SUFFIXES

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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer, and of an argument too many it says which option was meant."""
        arguments = list(args)
        ctx.allow_extra_args = True
        left: list[str] = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            ctx.fail(_one_too_many(ctx, arguments))
        return left

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help; without any style where NO_COLOR asks for none."""
        if is_plain():
            # Most commands show no help.
            from typer import rich_utils

            rich_utils.COLOR_SYSTEM = None
        super().format_help(ctx, formatter)


def _one_too_many(ctx: Any, arguments: Sequence[str]) -> str:
    """The error about the first argument that a command does not take, and the option that may be meant."""
    extra, options = ctx.args[0], {name for param in ctx.command.params for name in param.opts}
    before = next(
        (
            argument
            for argument in arguments[: arguments.index(extra)][-2:-1]
            if argument in options
        ),
        "",
    )
    meant = ""
    if extra.endswith(SUFFIXES) and "--config" in options:
        meant = f"--config {extra}"
    elif "->" in extra and "--flow" in options:
        meant = f"--flow '{extra}'"
    elif before:
        meant = f"{before} {arguments[arguments.index(before) + 1].rstrip(',')},{extra}"
    elif "--topics" in options:
        meant = f"--topics {extra}"
    return f"{extra!r} belongs to no option." + (f" Did you mean {meant}?" if meant else "")


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
    values = [
        value if joined else after
        for argument, after in zip(arguments, [*arguments[1:], ""], strict=True)
        for name, joined, value in [argument.partition("=")]
        if name in names
    ]
    if not values or values[-1] in message:
        return message
    return f"{message.rstrip('.')}, and not {values[-1]!r}"
