"""Great Expectations' pages, converted for reading without the internet.

The original pages load style sheets, scripts and a logo from the internet, and the logo's address
reveals when and by whom. ``publish`` keeps their text and tables, drops everything else, and writes
them to a folder of this layout::

    index.html                     the runs, newest first
    expectations/<suite>.html      what is checked
    runs/<time>-<run>/<suite>.html what a run found
    runs/<time>-<run>/run.json     ``Publication``

A reader never sees a page that is half written or still loads something.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from pydantic import TypeAdapter, ValidationError

from kafka_ferry.printable import one_line
from kafka_ferry.state import folder_name
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
    """

    flow: str
    run: str
    at: datetime
    success: bool
    ranges: int
    records: int


_PUBLICATION: Final = TypeAdapter(Publication)


def publish(pages: Path, docs: Path, publication: Publication) -> Path:
    """Move the pages that Great Expectations built to the Data Docs.

    Args:
        pages: the site as Great Expectations built it.
        docs: the folder of the Data Docs; created where it is missing.
        publication: the run.

    Returns:
        The index page.

    Raises:
        OSError: if a file cannot be written.
    """
    runs = docs / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    _write_suites(pages, docs)
    unfinished = Path(mkdtemp(prefix=".unfinished-", dir=runs))
    try:
        _write_run(pages, unfinished, publication)
        unfinished.chmod(0o755)
        unfinished.rename(runs / f"{_time(publication.at)}-{folder_name(publication.run)}")
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return _write_index(docs)


def add_pages(pages: Path, docs: Path, publication: Publication) -> Path:
    """Add what was judged later to the newest pages of the same run, like ``publish``."""
    name = folder_name(publication.run)
    of_run = [folder for folder in _folders(docs) if folder.name.partition("-")[2] == name]
    if not of_run:
        return publish(pages, docs, publication)
    _write_suites(pages, docs)
    _write_run(pages, of_run[-1], publication)
    return _write_index(docs)


def forget(docs: Path, *, before: datetime | None, keep: int | None) -> int:
    """Delete the pages of old runs; those of the newest one stay.

    Args:
        docs: the folder of the Data Docs; there may be none.
        before: delete pages made before this time; None to keep them.
        keep: delete all but so many; None to keep them.

    Returns:
        How many runs' pages were deleted.

    Raises:
        OSError: if something cannot be deleted.
    """
    folders = _folders(docs)
    line = "" if before is None else _time(before)
    many = len(folders) if keep is None else max(1, keep)
    old = [
        folder
        for at, folder in enumerate(folders[:-1])
        if folder.name < line or at < len(folders) - many
    ]
    for folder in old:
        shutil.rmtree(folder)
    if old:
        _write_index(docs)
    return len(old)


def _folders(docs: Path) -> list[Path]:
    """The runs' folders, oldest first."""
    runs = docs / "runs"
    found = runs.iterdir() if runs.is_dir() else ()
    return sorted(entry for entry in found if _RUN_FOLDER.fullmatch(entry.name))


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")


def _write_suites(pages: Path, docs: Path) -> None:
    suites = docs / "expectations"
    suites.mkdir(exist_ok=True)
    for built in sorted((pages / "expectations").glob("*.html")):
        _write(suites / built.name, _offline(built, f"Expectations: {built.stem}", up="../"))


def _write_run(pages: Path, folder: Path, publication: Publication) -> None:
    for built in sorted((pages / "validations").rglob("*.html")):
        suite = built.relative_to(pages / "validations").parts[0]
        title = f"{publication.flow}, {publication.run}: {suite}"
        _write(folder / f"{suite}.html", _offline(built, title, up="../../"))
    _write(folder / "run.json", _PUBLICATION.dump_json(publication).decode())


def _write_index(docs: Path) -> Path:
    index = docs / "index.html"
    _write(index, page("Data Docs", _index(docs), home=None))
    return index


def _offline(built: Path, title: str, *, up: str) -> str:
    content = content_of(built.read_text(encoding="utf-8"), expectations=f"{up}expectations/")
    return page(title, content, home=f"{up}index.html")


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _index(docs: Path) -> str:
    suites = sorted(path.stem for path in (docs / "expectations").glob("*.html"))
    checked = " ".join(f'<a href="expectations/{name}.html">{name}</a>' for name in suites)
    heads = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(_index_rows(docs))
    return (
        f"<p>What is checked: {checked}</p>"
        f"<div class='table'><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _index_rows(docs: Path) -> Iterator[str]:
    for folder in sorted((docs / "runs").iterdir(), reverse=True):
        try:
            run = _PUBLICATION.validate_json((folder / "run.json").read_bytes())
        except (OSError, ValidationError) as error:
            log.warning("%s is not listed in the Data Docs: %s", folder, error)
            continue
        links = " ".join(
            f'<a href="runs/{escape(folder.name)}/{path.name}">{path.stem}</a>'
            for path in sorted(folder.glob("*.html"))
        )
        state, words = ("ok", "complete") if run.success else ("bad", "not complete")
        yield (
            f"<tr><td>{run.at:%Y-%m-%d %H:%M:%S} UTC</td><td>{escape(one_line(run.flow))}</td>"
            f"<td>{escape(one_line(run.run))}</td><td class='{state}'>{words}</td><td>{run.ranges:,}</td>"
            f"<td>{run.records:,}</td><td>{links}</td></tr>"
        )
