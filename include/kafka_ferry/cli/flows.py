"""The flows that a command is about; a failing flow does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import typer

from kafka_ferry.cli.options import FLOW_FILE
from kafka_ferry.cli.terminal import show_error, show_json
from kafka_ferry.config import Flow, load_flow, load_flows
from kafka_ferry.config.files.load import no_flow
from kafka_ferry.errors import ConfigError, FerryError, FlowsFailed

_Result = TypeVar("_Result")

# A person waits.
_PATIENCE_MS: Final = 15_000


def one_flow(config: Path, name: str | None) -> Flow:
    """The file's flow of that name, or its only one.

    Raises:
        ConfigError: as ``load_flow``.
    """
    return load_flow(_file(config), name)


def one_flow_within(seconds: int | None, config: Path, name: str | None) -> Flow:
    """``one_flow`` for a command that a person waits for, ``with_timeout``."""
    return with_timeout(one_flow(config, name), seconds)


def flows_of(config: Path, name: str | None, clusters: Iterable[str] | None) -> tuple[Flow, ...]:
    """The flow of that name; else all flows of the file, or those into ``clusters``.

    Raises:
        ConfigError: as ``load_flows``; or there is no such flow.
    """
    if name:
        if clusters:
            raise typer.BadParameter("Give either --flow or --clusters.")
        return (one_flow(config, name),)
    targets = tuple(alias.strip() for value in clusters or () for alias in value.split(","))
    flows = load_flows(_file(config), targets)
    if not flows:
        raise no_flow(config, targets)
    return flows


def flows_within(
    seconds: int | None, config: Path, name: str | None, clusters: Iterable[str] | None
) -> list[Flow]:
    """``flows_of`` for a command that a person waits for, ``with_timeout``."""
    return [with_timeout(flow, seconds) for flow in flows_of(config, name, clusters)]


def _file(config: Path) -> Path:
    """The whole path of a flow's file.

    Raises:
        ConfigError: the file that is taken where none is named is not there.
    """
    if config == FLOW_FILE and not config.exists():
        advice = "Name another file with --config, or write a first one with `ferry init`."
        raise ConfigError(str(config), "file", "is not in this folder", advice=advice)
    return config.absolute()


def with_timeout(flow: Flow, seconds: int | None) -> Flow:
    """The flow of a command that a person waits for, with the time for clusters that do not answer."""
    limit_ms = min(_PATIENCE_MS, flow.admin_timeout_ms) if seconds is None else seconds * 1000
    return flow.model_copy(update={"admin_timeout_ms": limit_ms, "is_waited_for": True})


@dataclass(frozen=True)
class Attempts(Generic[_Result]):
    """The outcome of each flow.

    Attributes:
        results: of those that did not fail.
        failures: of the others, by the flow's name.
    """

    results: list[_Result]
    failures: dict[str, FerryError]

    def raise_failures(self) -> None:
        """Does nothing if there are none.

        Raises:
            FerryError: the only flow's failure as it is.
            FlowsFailed: of several flows some failed.
        """
        if not self.failures:
            return
        if not self.results and len(self.failures) == 1:
            raise next(iter(self.failures.values()))
        raise FlowsFailed(self.failures, of=len(self.results) + len(self.failures))


def for_each(flows: Sequence[Flow], act: Callable[[Flow], _Result]) -> Attempts[_Result]:
    """Do ``act`` to one flow after the other; a flow's failure does not stop the others.

    With several flows, each failure is shown at once, with the flow's name.
    """
    attempts = Attempts[_Result]([], {})
    for flow in flows:
        try:
            attempts.results.append(act(flow))
        except FerryError as error:
            attempts.failures[flow.name] = error
            if len(flows) > 1:
                show_error(f"{flow.name}: {error}")
    return attempts


def answer_each(flows: Sequence[Flow], answer: Callable[[Flow], _Result], *, as_json: bool) -> None:
    """Get the answer for one flow after the other, and print all of them as JSON if that is asked for.

    Raises:
        FerryError: as ``Attempts.raise_failures``.
    """
    attempts = for_each(flows, answer)
    if as_json:
        show_json(attempts.results, several=len(flows) > 1)
    attempts.raise_failures()


def ignored_keys(flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """The file's keys that have no effect here, each once, and why."""
    return [*dict.fromkeys(entry for flow in flows for entry in flow.ignored)]
