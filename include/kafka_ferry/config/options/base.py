"""What all options of a flow have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict


def _dotted_name(name: str) -> str:
    return name.replace("_", ".")


class Options(BaseModel):
    """Options of one subject: ``fetch_max_bytes`` is ``fetch.max.bytes`` in files."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=_dotted_name,
        hide_input_in_errors=True,
    )


Thing = Literal["secret-file", "data-file", "code", "endpoint", "store", "connection"]


@dataclass(frozen=True)
class OptionReach:
    """Marks an option's type: what its value reaches beyond the flow itself, which ``config.permissions`` decides on.

    Attributes:
        thing: ``secret-file``: a file whose content is sent to, or proves something to, another party; ``data-file``:
            a file of which an error may quote something; ``code``: a file, folder or module whose code is run;
            ``endpoint``: an address that something is sent to; ``store``: a folder or object store that is read and
            written with the machine's own login; ``connection``: connections of Airflow.
    """

    thing: Thing


SecretFile = Annotated[str | None, OptionReach("secret-file")]
CodePath = Annotated[str, OptionReach("code")]
Endpoint = Annotated[str | None, OptionReach("endpoint")]
StateStore = Annotated[str, OptionReach("store")]
ConnectionId = Annotated[str, OptionReach("connection")]
