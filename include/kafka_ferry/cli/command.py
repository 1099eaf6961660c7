"""A command whose help says of each option what a person types, and nothing in Python's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import regex
import typer
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
_TIME: Final = regex.compile(r"\d{2}:\d{2}\S*")
_BROKER: Final = regex.compile(r"[^\s:]+:\d+,?")


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
        require_once(self, ctx, arguments)
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


def require_once(command: TyperCommand, ctx: Any, arguments: Sequence[str]) -> None:
    """Refuse an option that takes one value and is given twice, by one of its names or several.

    Typer takes the last one, and says nothing of the others.

    Raises:
        BadParameter: there is one.
    """
    _, _, given = command.make_parser(ctx).parse_args(list(arguments))
    for option in given:
        takes_one = isinstance(option, TyperOption) and not (option.multiple or option.is_flag)
        if takes_one and given.count(option) > 1:
            names = " or ".join(option.opts)
            raise typer.BadParameter(
                f"{names} is given twice, and only one value can count: call the command once for each."
            )


def _one_too_many(ctx: Any, arguments: Sequence[str]) -> str:
    """The error about the first argument that a command does not take, and what may be meant."""
    extra = ctx.args[0]
    meant = _meant(ctx, extra, arguments[: arguments.index(extra)])
    return f"{extra!r} belongs to no option." + (f" Did you mean {meant}?" if meant else "")


def _meant(ctx: Any, extra: str, before: Sequence[str]) -> str:
    """What may be meant by an argument too many, "" if nothing that is known.

    Args:
        ctx: typer's context.
        extra: the argument.
        before: those before it.
    """
    params = [param for param in ctx.command.params if isinstance(param, TyperOption)]
    options = {name: param for param in params for name in param.opts}
    option, value = ("", "", *before)[-2:]
    if extra.endswith(SUFFIXES) and "--config" in options:
        return f"--config {extra}"
    if "->" in extra and "--flow" in options:
        return f"--flow '{extra}'"
    if option in options and _TIME.fullmatch(extra):
        return f"{option} {value}T{extra}"
    if option in options:
        several = f"{option} {value} {option} {extra}" if options[option].multiple else ""
        return f"{option} {value.rstrip(',')},{extra}" if option == "--topics" else several
    if _BROKER.fullmatch(value) and _BROKER.fullmatch(extra):
        return f"{value.rstrip(',')},{extra}, as brokers of one cluster"
    return f"--topics {extra}" if "--topics" in options else ""


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
