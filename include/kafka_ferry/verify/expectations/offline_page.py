"""Converts a Great Expectations page into one that loads nothing. Pure."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from typing import Final

from kafka_ferry.printable import one_line, printable

_KEPT: Final = frozenset(
    {"a", "b", "br", "code", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol"}
) | frozenset({"p", "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"})
_EMPTY: Final = frozenset({"br", "hr"})
# Removed with their content: what loads, what runs, and the site's own navigation.
_DROPPED: Final = frozenset(
    {
        "script",
        "style",
        "head",
        "nav",
        "footer",
        "form",
        "svg",
        "object",
        "iframe",
        "video",
        "audio",
    }
)
_KEPT_ATTRIBUTES: Final = frozenset({"id", "class", "hidden", "colspan", "rowspan"})
_SIDEBAR: Final = "col-lg-2"
_SUITE_PAGE: Final = re.compile(r"(?:\.\./)+expectations/([\w-]+\.html)")

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c2330; --dim: #5b6472; --page: #fbfbfa; --line: #d9dce1;
  --head: #f0f1f3; --link: #1d5fa8; --ok: #23683b; --bad: #a3261f; --warn: #7a5200; }
@media (prefers-color-scheme: dark) { :root { --text: #dde1e7; --dim: #98a1ae; --page: #15181d;
  --line: #343a44; --head: #1e232a; --link: #7db4f0; --ok: #7cc896; --bad: #f08d84;
  --warn: #dcb35c; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.25rem; color: var(--text);
  background: var(--page); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; }
h2, h3, h4, h5, h6 { font-size: 1rem; margin: 1rem 0 .3rem; }
a { color: var(--link); }
.table, .table-responsive { overflow-x: auto; }
table { border-collapse: collapse; margin: .4rem 0; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top; }
th { background: var(--head); font-weight: 600; }
[hidden] { display: none; }
code, pre { font: .85em/1.4 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
hr { border: 0; border-top: 1px solid var(--line); }
.collapse { display: none; }
.collapse:target { display: block; color: var(--dim); }
li:has(> hr) { list-style: none; }
.fas { font-style: normal; white-space: nowrap; }
.h6 + .fas { display: none; }
.fa-check-circle::before { content: "true"; }
.fa-times::before { content: "not true"; }
.fa-exclamation-triangle::before { content: "could not be evaluated"; }
.fa-comment::before { content: "what to look at"; }
.ok, .text-success { color: var(--ok); }
.bad, .text-danger { color: var(--bad); }
.text-warning { color: var(--warn); }
"""


def page(title: str, content: str, *, home: str | None) -> str:
    """A page around ``content``, which must be HTML already.

    Args:
        title: the title, as text.
        content: the body's HTML.
        home: the relative address of the index, None on the index itself.
    """
    shown = escape(one_line(title))
    back = f'<p><a href="{escape(home)}">All runs</a></p>' if home else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{shown}</title><style>{_STYLE}</style></head>\n"
        f"<body>{back}<h1>{shown}</h1>\n{content}\n</body></html>\n"
    )


def content_of(html: str, *, expectations: str) -> str:
    """The readable part of a Great Expectations page: text, tables, links within the page.

    Args:
        html: the page.
        expectations: the relative address, with a slash at its end, of the suites' pages.
    """
    reader = _Content(expectations)
    reader.feed(html)
    reader.close()
    return re.sub(r"\s*\n\s*", "\n", "".join(reader.parts)).strip()


class _Content(HTMLParser):
    """Copies the allowed elements and attributes, and no others."""

    def __init__(self, expectations: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._expectations = expectations
        self._dropping = ""
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropping:
            self._depth += tag == self._dropping
            return
        if tag in _DROPPED or _SIDEBAR in (dict(attrs).get("class") or "").split():
            self._dropping, self._depth = tag, 1
        elif tag in _KEPT:
            self.parts.append(f"<{tag}{''.join(self._attribute(*pair) for pair in attrs)}>")

    def handle_endtag(self, tag: str) -> None:
        if self._dropping:
            self._depth -= tag == self._dropping
            if not self._depth:
                self._dropping = ""
        elif tag in _KEPT and tag not in _EMPTY:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._dropping:
            self.parts.append(escape(printable(data)))

    def _attribute(self, name: str, value: str | None) -> str:
        if name == "href":
            suite = _SUITE_PAGE.fullmatch(value or "")
            value = self._expectations + suite[1] if suite else value
            if not suite and not (value or "").startswith("#"):
                return ""
        elif name not in _KEPT_ATTRIBUTES:
            return ""
        return f' {name}="{escape(one_line(value or ""))}"'
