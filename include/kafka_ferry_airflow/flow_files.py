"""The flows of this Airflow, and problems with their files, for both the DAGs and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Final

from kafka_ferry.config import Flow, cluster_aliases, flow_files, load_flows
from kafka_ferry.config.permissions import restrict
from kafka_ferry.config.reverse_flow import load_reverse_flow
from kafka_ferry.errors import ConfigError
from kafka_ferry_airflow.monitoring.channels import check_providers
from kafka_ferry_airflow.project import CLUSTERS, Project

_Stamp = tuple[int, int]
_GONE: Final = (0, 0)
_MOST_NAMED: Final = 3


@dataclass(frozen=True)
class FlowFile:
    """A file's content.

    Attributes:
        path: the file.
        stamp: its time and size when it was read.
        aliases: of its clusters, where it can be read.
        flows: its enabled flows.
        problems: why it could not be read, or what prevents its flows' DAGs.
    """

    path: Path
    stamp: _Stamp
    aliases: tuple[str, ...] = ()
    flows: tuple[Flow, ...] = ()
    problems: tuple[ConfigError, ...] = ()


@dataclass(frozen=True)
class FlowsFound:
    """The flows of a folder.

    Attributes:
        flows: the enabled flows by slug, without those that two files hold.
        problems: what is wrong with the files, each with file, key and reason.
    """

    flows: Mapping[str, Flow]
    problems: tuple[ConfigError, ...]


def check_flow(flow: Flow) -> None:
    """Does nothing where Airflow can make all DAGs of a flow that could be read.

    Raises:
        ConfigError: the opposite flow in its file is invalid, or the provider of one of its channels is
            not installed.
    """
    load_reverse_flow(flow.file, flow)
    check_providers(flow)


class FlowFiles:
    """The files in the project's folder of flows, each read again when it changes.

    From then on, this process's flows reach only what Airflow's may (``config.permissions``).

    Attributes:
        project: where that folder is.

    Args:
        project: as the attribute.
        check: a further check of each flow; a ``ConfigError`` that it raises is a problem.
    """

    def __init__(self, project: Project, check: Callable[[Flow], object] = lambda _: None) -> None:
        restrict()
        self.project = project
        self._check = check
        self._known: dict[Path, FlowFile] = {}
        self._lock = Lock()

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.project.configs

    def read(self) -> FlowsFound:
        """The flows and the problems of all files; a bad file does not affect the others."""
        try:
            files = flow_files(self.folder)
        except ConfigError as error:
            return FlowsFound({}, (error,))
        with self._lock:
            self._known = {file: self._file(file) for file in files}
            read = tuple(self._known.values())
        problems = [problem for file in read for problem in file.problems]
        problems += self._unknown_clusters(read)
        by_slug: dict[str, list[Flow]] = defaultdict(list)
        for file in read:
            for flow in file.flows:
                by_slug[flow.slug].append(flow)
        problems += chain.from_iterable(map(_twins, by_slug.values()))
        flows = {slug: alike[0] for slug, alike in by_slug.items() if len(alike) == 1}
        return FlowsFound(flows, tuple(problems))

    def _file(self, file: Path) -> FlowFile:
        try:
            status = file.stat()
        except OSError:
            return FlowFile(file, _GONE)  # since the folder was listed
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._known.get(file)
        if known and known.stamp == stamp:
            return known
        clusters = self.project.clusters
        aliases: tuple[str, ...] = ()
        try:
            aliases = cluster_aliases(file) if clusters else ()
            here = [alias for alias in clusters if alias in aliases]
            flows = load_flows(file, here) if here or not clusters else ()
        except ConfigError as error:
            return FlowFile(file, stamp, aliases, problems=(error,))
        enabled = tuple(flow for flow in flows if flow.enabled)
        return FlowFile(file, stamp, aliases, enabled, tuple(self._wrong(enabled)))

    def _wrong(self, flows: Iterable[Flow]) -> Iterator[ConfigError]:
        for flow in flows:
            try:
                self._check(flow)
            except ConfigError as error:
                yield error

    def _unknown_clusters(self, files: Iterable[FlowFile]) -> Iterator[ConfigError]:
        known = {alias for file in files for alias in file.aliases}
        for alias in sorted({*self.project.clusters} - known):
            yield ConfigError(CLUSTERS, alias, "is not a cluster of any file that can be read")


def _twins(flows: Sequence[Flow]) -> Iterator[ConfigError]:
    """A problem of each file that has the same flow as another one.

    None of them is run: a copy of a file may lack its approval, or have other topics.
    """
    if len(flows) < 2:
        return
    # Each names some of the others: with all of them, a thousand links to a file would come to gigabytes of text.
    some, more = flows[: _MOST_NAMED + 1], len(flows) - 1 - _MOST_NAMED
    and_more = f" and {more:,} other files" if more > 0 else ""
    for flow in flows:
        others = [str(it.file) for it in some if it is not flow][:_MOST_NAMED]
        yield ConfigError(
            str(flow.file),
            flow.name,
            f"is in {', '.join(others)}{and_more} too, and runs from none of them",
            advice="Delete the file that is not to be, or move it to another folder.",
        )
