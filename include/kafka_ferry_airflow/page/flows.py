"""The flows of this Airflow, read from their files whenever those change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from kafka_ferry.config import Flow, flow_files, load_flows
from kafka_ferry.errors import FerryError
from kafka_ferry_airflow.project import Project


@dataclass(frozen=True)
class Loaded:
    """What a file holds.

    Attributes:
        stamp: its time and size when it was read.
        flows: its enabled flows.
        problem: why it could not be read, "" where it could.
    """

    stamp: tuple[int, int]
    flows: tuple[Flow, ...] = ()
    problem: str = ""


class FlowFiles:
    """The files in the project's folder of flows.

    Args:
        project: where that folder is.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._loaded: dict[Path, Loaded] = {}
        self._lock = Lock()

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._project.configs

    def flows(self) -> Mapping[str, Flow]:
        """The enabled flows by slug; of two files with the same flow, the first one's."""
        found: dict[str, Flow] = {}
        for file in self._read():
            for flow in file.flows:
                found.setdefault(flow.slug, flow)
        return found

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the other files, a sentence each."""
        return tuple(file.problem for file in self._read() if file.problem)

    def _read(self) -> tuple[Loaded, ...]:
        try:
            files = flow_files(self.folder)
        except FerryError as error:
            return (Loaded((0, 0), problem=str(error)),)
        with self._lock:
            self._loaded = {file: self._file(file) for file in files}
            return tuple(self._loaded.values())

    def _file(self, file: Path) -> Loaded:
        try:
            status = file.stat()
        except OSError:
            # Deleted since the folder was listed.
            return Loaded((0, 0))
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._loaded.get(file)
        if known and known.stamp == stamp:
            return known
        try:
            flows = tuple(flow for flow in load_flows(file) if flow.enabled)
        except FerryError as error:
            return Loaded(stamp, problem=str(error))
        return Loaded(stamp, flows)
