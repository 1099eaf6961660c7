"""What all options of a flow have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def _dotted(name: str) -> str:
    return name.replace("_", ".")


class Options(BaseModel):
    """Options of one subject: ``fetch_max_bytes`` is ``fetch.max.bytes`` in files."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=_dotted,
        hide_input_in_errors=True,
    )
