"""What an option's value reaches beyond the flow itself; ``config.permissions`` decides whether it may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

Thing = Literal["secret-file", "data-file", "code", "endpoint", "connection", "pattern"]


@dataclass(frozen=True)
class Reach:
    """Marks an option's type.

    Attributes:
        thing: ``secret-file``: a file whose content is sent to, or proves something to, somebody else; ``data-file``:
            a file of which an error may quote something; ``code``: a file, folder or module whose code is run;
            ``endpoint``: an address that something is sent to;
            ``connection``: connections of Airflow; ``pattern``: regular expressions.
    """

    thing: Thing


SecretFile = Annotated[str, Reach("secret-file")]
CodePath = Annotated[str, Reach("code")]
Endpoint = Annotated[str, Reach("endpoint")]
