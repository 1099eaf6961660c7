"""Where Spark shows a step's application: its own UI while it runs, the history server afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote, urlsplit

import regex

from kafka_ferry.as_json import AsJson
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_ferry.config import Flow

_ADDRESS: Final = regex.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,255}(/[A-Za-z0-9._~/-]{0,200})?")
HISTORY_URL: Final = "spark.ferry.history.url"
"""The property with the history server's address; Spark itself has none for it."""


@dataclass(frozen=True)
class SparkApplication(AsJson):
    """The Spark application of a step, running or ended.

    Attributes:
        id: Spark's id of it.
        ui: the address of its own page, "" where it has none.
        history: the address of the history server, "" where none is configured.
    """

    WHAT: ClassVar = "the record of a Spark application"

    id: str
    ui: str = ""
    history: str = ""

    def url(self, *, ended: bool) -> str:
        """The page to look at, "" where there is none."""
        history, ui = _web_address(self.history), _web_address(self.ui)
        kept = f"{history.rstrip('/')}/history/{quote(self.id, safe='')}/" if history else ""
        return kept if ended else ui or kept


def note_application(flow: Flow, run: str, part: StepPart, session: SparkSession) -> None:
    """Store which application runs a step, for links to it."""
    context = session.sparkContext
    history = str(session.conf.get(HISTORY_URL, "") or "")
    application = SparkApplication(str(context.applicationId), context.uiWebUrl or "", history)
    _folder(flow, run).files.write(_file(part), application.to_json())


def application_url(flow: Flow, run: str, part: StepPart) -> str:
    """The page of the application that runs a step or shard, or ran it last; "" where there is none.

    Raises:
        FerryError: a file in the state folder is not valid.
    """
    folder = _folder(flow, run)
    stored = folder.files.read(_file(part))
    if stored is None:
        return ""
    ended = folder.step_record(part.step, part.shard) is not None
    return SparkApplication.from_json(stored).url(ended=ended)


def _web_address(stored: str) -> str:
    """An address as Spark or an administrator writes it; "" for any other text.

    It opens from a button that users trust: no scheme that runs a script, no login, nothing that hides the host.
    """
    if not _ADDRESS.fullmatch(stored):
        return ""
    try:
        split = urlsplit(stored)
        _ = split.port
    except ValueError:
        return ""
    return stored if split.hostname else ""


def _folder(flow: Flow, run: str) -> RunFolder:
    return RunFolder(flow_state(flow).folder("runs"), run)


def _file(part: StepPart) -> str:
    return f"spark-{part}.json"
