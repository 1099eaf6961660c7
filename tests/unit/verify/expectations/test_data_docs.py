import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from kafka_ferry.local_files import LinkRefused
from kafka_ferry.verify import Terms, judge
from kafka_ferry.verify.checks import WARNINGS
from kafka_ferry.verify.expectations.data_docs import (
    Publication,
    add_pages,
    forget,
    publish,
)
from kafka_ferry.verify.expectations.offline_page import content_of, page
from kafka_ferry.verify.expectations.tables import Rows
from tests.support.runs.reports import PARTITION, RANGE, changed

AT = datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC)

# What a browser would load or a click would open, wherever it stands in a file.
OUTSIDE = re.compile(
    r"""(?:href|src|srcset|data|action|poster)\s*=\s*["']?\s*(?:https?:)?//
      | url\(\s*["']?\s*(?:https?:)?//
      | @import
      | http-equiv\s*=\s*["']?refresh""",
    re.IGNORECASE | re.VERBOSE,
)
ACTIVE = re.compile(r"<(?:script|link|img|iframe|object|embed|form|base)\b|\son\w+\s*=", re.I)


def publication(n: int = 0, **changes: object) -> Publication:
    made = Publication("eu->us", f"run {n}", AT + timedelta(hours=n), True, 1, 90)
    return replace(made, **changes)


def built_pages(folder: Path) -> Path:
    """A site as Great Expectations lays it out."""
    results = folder / "validations" / "ranges" / "run" / "20261121T010203Z"
    results.mkdir(parents=True)
    (results / "reconciliation-ranges.html").write_text(GX_PAGE)
    (folder / "expectations").mkdir()
    (folder / "expectations" / "ranges.html").write_text(GX_PAGE)
    return folder


GX_PAGE = """<!DOCTYPE html><html><head><title>Data documentation</title>
<link rel="stylesheet" href="https://unpkg.com/bootstrap-table@1.19.1/dist/bootstrap-table.min.css">
<style>@import "https://example.org/a.css"; p { background: url(https://example.org/b.png) }</style>
<script src="https://code.jquery.com/jquery-3.7.1.min.js"></script></head><body>
<nav><a href="../../../../index.html"><img src="https://example.org/logo.png?d=20261121"></a></nav>
<div class="row"><div class="col-lg-2 col-md-2"><div>sidebar</div><script>x()</script></div>
<div class="col-md-10" onclick="go()" style="background:url(//example.org/c.png)">
<script>leftover()</script>Suite: <a href="../../../../expectations/ranges.html">ranges</a>
<a href="#more">more</a> <a href="https://greatexpectations.io">home</a>
<a href="javascript:go()">go</a><br>
<table id="t"><tr><td colspan=2>orders-3 [100, 200) &lt;b&gt; &amp; 1</td></tr></table>
<div id=more class="collapse">the rest</div></div></div>
<footer><p>Subscribe</p></footer></body></html>"""


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name == "href"]


def files(docs: Path) -> list[Path]:
    return sorted(path for path in docs.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data Docs as the verification writes them, of a complete copy and of one that is not."""
    folder = tmp_path_factory.mktemp("docs")
    judge({"ranges": [RANGE], "partitions": [PARTITION]}, Terms("eu->us", "good <run>", folder))
    bad = changed(RANGE, foreign=2, digest_read="d2", aborted=7, expired=1)
    gap = changed(PARTITION, gap_offsets=4)
    rows: Rows = {"ranges": [bad], "partitions": [gap]}
    assert not judge(rows, Terms("eu->us", "bad/../run", folder)).success
    return folder


def test_what_great_expectations_builds_does_load_from_the_internet() -> None:
    assert OUTSIDE.search(GX_PAGE)
    assert ACTIVE.search(GX_PAGE)


def test_no_file_loads_anything_from_anywhere(docs: Path) -> None:
    written = files(docs)
    assert len([path for path in written if path.suffix == ".html"]) == 13
    for path in written:
        text = path.read_text()
        assert not OUTSIDE.search(text), path
        assert not ACTIVE.search(text), path


def test_every_link_leads_to_a_file_or_a_place_that_is_there(docs: Path) -> None:
    for path in docs.rglob("*.html"):
        links = Links()
        links.feed(path.read_text())
        for link in links.found:
            if link.startswith("#"):
                assert re.search(rf'id="{re.escape(link[1:])}"', path.read_text()), (path, link)
            else:
                assert (path.parent / unquote(link)).is_file(), (path, link)


def test_the_index_lists_the_runs_with_the_newest_first(docs: Path) -> None:
    index = (docs / "index.html").read_text()
    assert index.index("bad/../run") < index.index("good &lt;run&gt;")
    assert index.index("not complete") < index.index("complete</td><td>1</td><td>90")


def test_a_page_says_what_was_expected_and_where_it_is_not_so(docs: Path) -> None:
    (found,) = docs.glob("runs/*-bad*/ranges.html")
    text = found.read_text()
    assert "nothing lies between our records that the ledger does not have" in text
    assert "orders-3 [100, 200)" in text
    assert "Subscribe" not in text


def test_every_warning_is_on_the_page_of_its_suite_and_on_a_runs_own(docs: Path) -> None:
    (found,) = docs.glob("runs/*-bad*/warnings.html")
    for path in (docs / "expectations" / "warnings.html", found):
        text = unescape(path.read_text())
        assert all(check.name in text for check in WARNINGS.checks), path


def test_a_run_stays_inside_the_folder_whatever_it_is_called(docs: Path) -> None:
    assert all(path.resolve().is_relative_to(docs.resolve()) for path in files(docs))
    assert len(list((docs / "runs").iterdir())) == 2


def test_old_runs_are_forgotten_by_their_number_or_their_age(tmp_path: Path) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "docs"
    for n in range(6):
        publish(site, docs, publication(n))

    assert forget(docs, before=None, keep=None) == 0
    assert forget(docs, before=None, keep=4) == 2
    assert forget(docs, before=AT + timedelta(hours=3), keep=4) == 1

    kept = sorted(path.name for path in (docs / "runs").iterdir())
    assert [name[:15] for name in kept] == ["20261121T040203", "20261121T050203", "20261121T060203"]
    index = (docs / "index.html").read_text()
    assert "run 3<" in index
    assert "run 2<" not in index


def test_the_newest_run_is_kept_however_old_it_is(tmp_path: Path) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "docs"
    assert forget(docs, before=AT, keep=0) == 0
    publish(site, docs, publication(0))
    publish(site, docs, publication(1))
    assert forget(docs, before=AT + timedelta(days=1), keep=0) == 1
    assert "run 1<" in (docs / "index.html").read_text()


def test_folders_that_are_not_a_runs_are_left_alone(tmp_path: Path) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "docs"
    mine = docs / "runs" / "notes"
    mine.mkdir(parents=True)
    publish(site, docs, publication(0))
    publish(site, docs, publication(1))
    forget(docs, before=None, keep=1)
    assert mine.is_dir()
    assert len(list((docs / "runs").iterdir())) == 2


def test_what_is_judged_later_lies_beside_the_newest_pages_of_its_run(tmp_path: Path) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "docs"
    publish(site, docs, publication(0))
    publish(site, docs, publication(0, at=AT + timedelta(minutes=1)))
    publish(site, docs, publication(1))
    later = built_pages(tmp_path / "later")
    (later / "validations" / "ranges").rename(later / "validations" / "groups")
    (later / "expectations" / "ranges.html").rename(later / "expectations" / "groups.html")

    add_pages(later, docs, publication(0, at=AT + timedelta(days=1), success=False))

    pages = {
        path.name[:15]: sorted(page.stem for page in path.glob("*.html"))
        for path in (docs / "runs").iterdir()
    }
    assert pages == {
        "20261121T010203": ["ranges"],
        "20261121T010303": ["groups", "ranges"],
        "20261121T020203": ["ranges"],
    }
    index = (docs / "index.html").read_text()
    assert "not complete" in index
    assert 'href="expectations/groups.html"' in index


def test_what_is_judged_later_stands_alone_where_its_run_has_no_pages(tmp_path: Path) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "docs"
    add_pages(site, docs, publication(0))
    assert len(list((docs / "runs").iterdir())) == 1


def test_a_page_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "docs"
    publish(site, docs, publication(0))
    before = files(docs)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(
        "kafka_ferry.verify.expectations.data_docs._PUBLICATION",
        type("Full", (), {"dump_json": full}),
    )
    with pytest.raises(OSError, match="no space"):
        publish(site, docs, publication(1))
    assert files(docs) == before


@pytest.mark.parametrize("place", ["", "runs", "expectations", "index.html"])
def test_no_link_that_somebody_has_put_there_is_followed(tmp_path: Path, place: str) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "state" / "data_docs"
    outside = tmp_path / "outside"
    outside.mkdir()
    docs.parent.mkdir()
    link = docs / place if place else docs
    link.parent.mkdir(exist_ok=True)
    target = outside / "index.html" if place.endswith("html") else outside
    link.symlink_to(target)
    with suppress(LinkRefused):
        publish(site, docs, publication(0))
    assert list(outside.iterdir()) == []
    with suppress(LinkRefused):
        forget(docs, before=AT + timedelta(days=9), keep=1)


def test_no_link_among_the_runs_is_read_or_followed(tmp_path: Path) -> None:
    site, docs = built_pages(tmp_path / "site"), tmp_path / "data_docs"
    publish(site, docs, publication(0))
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "run.json").write_text("{}")
    (docs / "runs" / "20200101T000000000000Z-run").symlink_to(secret)
    publish(site, docs, publication(1))
    forget(docs, before=AT + timedelta(days=9), keep=1)
    assert (secret / "run.json").exists()


class TestAnOfflinePage:
    content = content_of(GX_PAGE, expectations="../../expectations/")

    def test_keeps_text_and_tables(self) -> None:
        assert '<td colspan="2">orders-3 [100, 200) &lt;b&gt; &amp; 1</td>' in self.content

    def test_keeps_links_within_itself_and_to_the_suites(self) -> None:
        links = Links()
        links.feed(self.content)
        assert links.found == ["../../expectations/ranges.html", "#more"]

    def test_drops_the_sites_own_navigation(self) -> None:
        assert "sidebar" not in self.content
        assert "Subscribe" not in self.content

    def test_drops_whatever_loads_or_runs(self) -> None:
        assert not OUTSIDE.search(self.content)
        assert not ACTIVE.search(self.content)
        assert "javascript" not in self.content
        assert "leftover" not in self.content
        assert "style" not in self.content

    def test_forbids_the_browser_to_load_anything(self) -> None:
        assert "default-src 'none'" in page("title", "", home=None)

    def test_escapes_its_title(self) -> None:
        assert "<x>" not in page("<x>", "", home=None)
