"""A command whose help says of each option what a person types, and nothing in Python's words."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperOption

from kafka_ferry.cli.terminal import is_plain


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
