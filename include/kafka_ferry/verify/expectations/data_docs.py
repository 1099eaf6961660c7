"""Great Expectations' pages, converted for reading without the internet.

The original pages load style sheets, scripts and a logo from the internet, and the logo's address
reveals when and by whom. ``publish`` keeps their text and tables, drops everything else, and writes
them to a folder of this layout::

    index.html                     the runs, newest first
    expectations/<suite>.html      what is checked
    runs/<time>-<run>/<suite>.html what a run found
    runs/<time>-<run>/run.json     ``Publication``

A reader never sees a page that is half written or still loads something, and no symbolic link is followed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from kafka_ferry.as_json import read_checked, reader_of
from kafka_ferry.errors import FerryError
from kafka_ferry.printable import one_line
from kafka_ferry.state import StateFolder, folder_name
from kafka_ferry.verify.counts import and_heartbeats
from kafka_ferry.verify.expectations.offline_page import content_of, page

log = logging.getLogger(__name__)

_COLUMNS: Final = ("Verified at", "Flow", "Run", "Result", "Ranges", "Records", "Pages")
_RUN_FOLDER: Final = re.compile(r"\d{8}T\d{12}Z-.+")


@dataclass(frozen=True, slots=True)
class Publication:
    """A run in the index.

    Attributes:
        flow: the flow's name.
        run: the run that verified.
        at: when.
        success: whether the copy was proved complete.
        ranges: ranges checked.
        records: records found in them.
        heartbeats: how many of these are in topics of heartbeats.
    """

    flow: str
    run: str
    at: datetime
    success: bool
    ranges: int
    records: int
    heartbeats: int = 0


_PUBLICATION: Final = reader_of(Publication)


def publish(pages: Path, docs: Path, publication: Publication) -> Path:
    """Move the pages that Great Expectations built to the Data Docs.

    Args:
        pages: the site as Great Expectations built it.
        docs: the folder of the Data Docs; created where it is missing.
        publication: the run.

    Returns:
        The index page.

    Raises:
        FerryError: if a file cannot be written, or a part of its path is a symbolic link.
    """
    files = _files(docs)
    folder = f"runs/{_time(publication.at)}-{folder_name(publication.run)}"
    _write_suites(pages, files)
    try:
        _write_run(pages, files.folder(folder), publication)
    except BaseException:
        with suppress(OSError, FerryError):
            files.delete_folder(folder)
        raise
    return _write_index(docs)


def _files(docs: Path) -> StateFolder:
    """The files of the Data Docs: no link in their folder, nor it itself, is followed."""
    return StateFolder(str(docs.parent)).folder(docs.name)


def add_pages(pages: Path, docs: Path, publication: Publication) -> Path:
    """Add what was judged later to the newest pages of the same run, like ``publish``."""
    name = folder_name(publication.run)
    files = _files(docs)
    of_run = [folder for folder in _folders(files) if folder.partition("-")[2] == name]
    if not of_run:
        return publish(pages, docs, publication)
    _write_suites(pages, files)
    _write_run(pages, files.folder(f"runs/{of_run[-1]}"), publication)
    return _write_index(docs)


def forget(docs: Path, *, before: datetime | None, keep: int | None) -> int:
    """Delete the pages of old runs; those of the newest one stay.

    Args:
        docs: the folder of the Data Docs; there may be none.
        before: delete pages made before this time; None to keep them.
        keep: how many of the newest stay; None for all.

    Returns:
        How many runs' pages were deleted.

    Raises:
        OSError, FerryError: if something cannot be deleted.
    """
    files = _files(docs)
    folders = _folders(files)
    line = "" if before is None else _time(before)
    many = len(folders) if keep is None else max(1, keep)
    old = [
        folder
        for at, folder in enumerate(folders[:-1])
        if folder < line or at < len(folders) - many
    ]
    for folder in old:
        files.delete_folder(f"runs/{folder}")
    if old:
        _write_index(docs)
    return len(old)


def _folders(files: StateFolder) -> list[str]:
    """The runs' folders, oldest first."""
    return [name for name in files.folder("runs").folders() if _RUN_FOLDER.fullmatch(name)]


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")


def _write_suites(pages: Path, files: StateFolder) -> None:
    suites = files.folder("expectations")
    for built in sorted((pages / "expectations").glob("*.html")):
        suites.write(built.name, _offline(built, f"Expectations: {built.stem}", up="../"))


def _write_run(pages: Path, folder: StateFolder, publication: Publication) -> None:
    for built in sorted((pages / "validations").rglob("*.html")):
        suite = built.relative_to(pages / "validations").parts[0]
        title = f"{publication.flow}, {publication.run}: {suite}"
        folder.write(f"{suite}.html", _offline(built, title, up="../../"))
    # The last one: the index lists no run without it.
    folder.write("run.json", _PUBLICATION.dump_json(publication).decode())


def _write_index(docs: Path) -> Path:
    files = _files(docs)
    files.write("index.html", page("Data Docs", _index(files), home=None))
    return docs / "index.html"


def _offline(built: Path, title: str, *, up: str) -> str:
    content = content_of(built.read_text(encoding="utf-8"), expectations=f"{up}expectations/")
    return page(title, content, home=f"{up}index.html")


def _index(files: StateFolder) -> str:
    suites = [page.removesuffix(".html") for page in files.folder("expectations").names(".html")]
    checked = " ".join(f'<a href="expectations/{name}.html">{name}</a>' for name in suites)
    heads = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(_index_rows(files))
    return (
        f"<p>What is checked: {checked}</p>"
        f"<div class='table'><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _index_rows(files: StateFolder) -> Iterator[str]:
    for name in reversed(_folders(files)):
        folder = files.folder(f"runs/{name}")
        try:
            run = read_checked(_PUBLICATION, folder.read("run.json") or b"")
        except (FerryError, OSError, ValueError) as error:
            log.warning("%s is not listed in the Data Docs: %s", folder.location, error)
            continue
        links = " ".join(
            f'<a href="runs/{escape(name)}/{escape(page)}">{escape(page.removesuffix(".html"))}</a>'
            for page in folder.names(".html")
        )
        state, words = ("ok", "complete") if run.success else ("bad", "not complete")
        yield (
            f"<tr><td>{run.at:%Y-%m-%d %H:%M:%S} UTC</td><td>{escape(one_line(run.flow))}</td>"
            f"<td>{escape(one_line(run.run))}</td><td class='{state}'>{words}</td><td>{run.ranges:,}</td>"
            f"<td>{run.records - run.heartbeats:,}{and_heartbeats(run.heartbeats)}</td><td>{links}</td></tr>"
        )
