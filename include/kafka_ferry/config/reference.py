"""The reference page of a flow's options, made from the models: ``make docs`` writes it."""

from __future__ import annotations

from typing import Any

from pydantic.fields import FieldInfo

from kafka_ferry.config.flow import OPTIONS, Flow

_HEAD = """\
# Options of a flow

Generated from `kafka_ferry.config.flow`; do not edit. Sizes are bytes, or texts such as `64MiB`.

| Option | Default | Meaning |
| --- | --- | --- |
"""


def options_page() -> str:
    """The page as Markdown: each option with its default and its explanation."""
    fields = {field.alias or name: field for name, field in Flow.model_fields.items()}
    rows = (f"| `{name}` | {_default(fields[name])} | {_cell(fields[name])} |" for name in OPTIONS)
    return _HEAD + "\n".join(rows) + "\n"


def _default(field: FieldInfo) -> str:
    default: Any = field.get_default()
    if isinstance(default, tuple):
        default = ", ".join(default)
    return f"`{default}`".replace("|", r"\|")


def _cell(field: FieldInfo) -> str:
    return (field.description or "").replace("|", r"\|")


if __name__ == "__main__":
    print(options_page(), end="")
