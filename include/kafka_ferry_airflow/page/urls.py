"""Where the page, reports and Data Docs are, below Airflow's base URL. Imports nothing, so that links cost nothing."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

ROUTE: Final = "mirrors"
PREFIX: Final = "/kafka-ferry"


def page_url(slug: str = "", *, run: str | None = None) -> str:
    """The page, or its part for one flow or one of its runs.

    Args:
        slug: the flow's slug, "" for all flows.
        run: the run's id.
    """
    chosen = {"flow": slug, "run": run}
    query = urlencode({name: value for name, value in chosen.items() if value})
    return f"/plugin/{ROUTE}?{query}" if query else f"/plugin/{ROUTE}"


def report_url(slug: str, run: str) -> str:
    """The report of a run, as ``publish`` wrote it."""
    return f"{PREFIX}/api/flows/{quote(slug, safe='')}/runs/{quote(run, safe='')}/report"


def docs_url(slug: str) -> str:
    """The flow's Data Docs."""
    return f"{PREFIX}/api/flows/{quote(slug, safe='')}/data_docs/"
