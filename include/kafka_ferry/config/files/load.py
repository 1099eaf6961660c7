"""Reads flows from a file, or from a folder of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_ferry.config.doubts import file_doubts
from kafka_ferry.config.file_content import content_of
from kafka_ferry.config.files import mm2_properties, yaml_file
from kafka_ferry.config.files.places import (
    in_file,
    locate_problems,
    properties_places,
    yaml_places,
)
from kafka_ferry.config.flow import Flow, names_of
from kafka_ferry.config.flow_permissions import check_flow
from kafka_ferry.config.types.name_filter import patterns_of_file
from kafka_ferry.config.types.problems import (
    WHOLE_FILE,
    Problem,
    config_error,
    did_you_mean,
    unknown_target,
)
from kafka_ferry.errors import ConfigError, FerryError

SUFFIXES: Final = (".properties", ".yaml", ".yml")


def load_flows(path: str | Path, clusters: Sequence[str] = ()) -> tuple[Flow, ...]:
    """The flows of a file: a YAML file's one flow, or a properties file's enabled ones.

    Args:
        path: the file.
        clusters: aliases of clusters: only the flows into these are read, as with MirrorMaker 2's
            ``--clusters``. Without any, all are.

    Raises:
        ConfigError: the file cannot be read, does not know one of ``clusters``, or something in it
            is wrong. Several problems are listed in one error.
    """
    return _parse(path, clusters=clusters)


def cluster_aliases(path: str | Path) -> tuple[str, ...]:
    """The clusters that a file names, whether there is a flow between them or not.

    Raises:
        ConfigError: the file cannot be read, or names none.
    """
    file, content, suffix = _content(path)
    parse = mm2_properties.parse_aliases if suffix == ".properties" else yaml_file.parse_aliases
    with _for_itself(file):
        return parse(content, file)


def _parse(
    path: str | Path, *, clusters: Sequence[str] = (), name: str | None = None
) -> tuple[Flow, ...]:
    file, content, suffix = _content(path)
    places = properties_places if suffix == ".properties" else yaml_places
    with _for_itself(file), patterns_of_file(), locate_problems(file, lambda: places(content)):
        if suffix == ".properties":
            return _require_permission(mm2_properties.parse_flows(content, file, clusters, name))
        if clusters:
            source, target = yaml_file.parse_aliases(content, file)
            if unknown := unknown_target(clusters, (source, target)):
                raise config_error(file, unknown)
            if target not in clusters:
                return ()
        return _require_permission((yaml_file.parse_flow(content, file),))


def no_flow(path: str | Path, clusters: Sequence[str] = ()) -> ConfigError:
    """The error about a file that enables no flow, or none into ``clusters``.

    Raises:
        ConfigError: the file cannot be read any more.
    """
    file, content, suffix = _content(path)
    into = f" into {', '.join(clusters)}" if clusters else ""
    is_yaml = suffix != ".properties"
    advice = "" if is_yaml else mm2_properties.enabling_line(content, file, clusters)
    if clusters and (enabled := [flow.name for flow in load_flows(path)]):
        advice = f"It enables {', '.join(enabled)}; what counts is the cluster after the arrow."
    return config_error(file, Problem(WHOLE_FILE, f"enables no flow{into}", advice))


def refuse(path: str | Path, flow: Flow, problems: Iterable[Problem]) -> None:
    """Refuse a flow for what is wrong with its file, with the lines; does nothing where nothing is.

    Raises:
        ConfigError: there are problems.
    """
    if placed := _place(path, flow, problems):
        raise config_error(str(path), *placed)


def doubt_texts(path: str | Path, flow: Flow) -> list[str]:
    """What of a flow's file is valid and hardly meant, in a sentence each, with the line.

    Raises:
        ConfigError: the file cannot be read any more.
    """
    doubtful = _place(path, flow, file_doubts(flow))
    return [str(config_error(str(path), doubt)) for doubt in doubtful]


def line_of(flow: Flow, key: str) -> int | None:
    """The line of a key in a flow's file, such as ``transform.0.where``; None where it is not known."""
    try:
        (placed,) = _place(flow.file, flow, [Problem(key, "")])
    except ConfigError:
        return None
    return placed.line


def flow_error(flow: Flow, key: str, reason: str, advice: str) -> ConfigError:
    """The error about a value of a flow's file that is wrong for its clusters, with the line of its key."""
    return config_error(flow.file, Problem(key, reason, advice, line_of(flow, key)))


def _place(path: str | Path, flow: Flow, problems: Iterable[Problem]) -> list[Problem]:
    _, content, suffix = _content(path)
    places = (properties_places if suffix == ".properties" else yaml_places)(content)
    return [in_file(problem, flow, places) for problem in problems]


def _require_permission(flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    for flow in flows:
        check_flow(flow)
    return flows


@contextmanager
def _for_itself(file: str) -> Iterator[None]:
    """Turns any failure to read a file into its own error, so that other files' flows are still read."""
    try:
        yield
    except FerryError:
        raise
    except Exception as error:
        # The error's text may contain part of a password.
        reason = f"cannot be read ({type(error).__name__})"
        raise config_error(file, Problem(WHOLE_FILE, reason)) from error


def _content(path: str | Path) -> tuple[str, bytes, str]:
    """The path for errors, the file's content, and its suffix, which decides the format."""
    file, suffix = str(path), Path(path).suffix
    if Path(path).is_dir():
        raise config_error(file, Problem(WHOLE_FILE, "is a folder: name a file in it"))
    if suffix not in SUFFIXES:
        raise config_error(file, Problem(WHOLE_FILE, f"must end in {', '.join(SUFFIXES)}"))
    try:
        return file, content_of(Path(path)), suffix
    except OSError as error:
        beside = _names_beside(Path(path))
        same = [name for name in beside if Path(name).stem == Path(path).stem]
        near = did_you_mean(Path(path).name, same or beside, cutoff=0.0 if same else 0.75)
        problem = Problem(WHOLE_FILE, f"cannot be read: {error.strerror}", near)
        raise config_error(file, problem) from None


def _names_beside(path: Path) -> list[str]:
    """The files that may hold flows in the folder of one that cannot be read."""
    try:
        return [
            file.name for file in path.parent.iterdir() if file.suffix in SUFFIXES and file != path
        ]
    except OSError:
        return []


def load_flow(path: str | Path, name: str | None = None) -> Flow:
    """One flow of a file, by its name (``primary->backup``) or slug where there are several.

    Problems of the file's other flows alone are ignored then.

    Raises:
        ConfigError: as ``load_flows``; or the file has no such flow, none, or several.
    """
    flows = _parse(path, name=name)
    if not flows:
        raise no_flow(path)
    names = [flow.name for flow in flows]
    if name is None:
        if len(flows) > 1:
            reason = f"holds several flows: {', '.join(names)}"
            raise config_error(str(path), Problem(WHOLE_FILE, reason, "Name one of them."))
        return flows[0]
    for flow in flows:
        if name in (flow.name, flow.slug):
            return flow
    advice = did_you_mean(name, names) or f"It holds {', '.join(names)}."
    if cut := next((whole for whole in names if whole.startswith(f"{name}>")), ""):
        advice = f"A shell takes > for a redirection: write '{cut}' with quotes."
    raise config_error(str(path), Problem(name, "is not an enabled flow of this file", advice))


def load_opposite(path: str | Path, flow: Flow) -> Flow | None:
    """The flow from the target of a file's flow to its source; None where the file enables none.

    Raises:
        ConfigError: it is invalid, or the file cannot be read any more.
    """
    file, content, suffix = _content(path)
    name = names_of(flow.target.alias, flow.source.alias)[0]
    # A YAML file has one flow.
    if suffix != ".properties" or name not in mm2_properties.flow_names(content, file):
        return None
    return load_flow(path, name)


def flow_files(directory: str | Path) -> list[Path]:
    """The files of a folder that hold flows, sorted by name; hidden files do not count.

    Raises:
        ConfigError: there is no such folder.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise config_error(str(directory), Problem(WHOLE_FILE, "is not a folder"))
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix in SUFFIXES and not file.name.startswith(".") and file.is_file()
    )
