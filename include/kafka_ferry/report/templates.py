"""The templates of pages: each is one HTML file that loads nothing, in which everything is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from kafka_ferry.clock import duration_text, moment_text
from kafka_ferry.printable import printable
from kafka_ferry.verify.counts import count

_BYTE_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")


@cache
def template(name: str) -> Template:
    """The template in a file of this folder."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, count_of=count)
    environment.filters.update(when=moment_text, duration=duration_text, size=_size)
    return environment.get_template(name)


def _clean(value: object) -> object:
    """A text without secrets and control characters; it is escaped after that. Markup of our own stays as it is."""
    return value if hasattr(value, "__html__") else printable(str(value))


def _number(value: int) -> str:
    return f"{value:,}"


def _size(size: float) -> str:
    """Decimal units, three digits: 987 bytes, 1.23 GB."""
    for unit in _BYTE_UNITS:
        if size < 999.5 or unit == _BYTE_UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 99.5 else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes every size")
