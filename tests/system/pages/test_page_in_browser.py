"""The page Mirrors in a real browser, as people use it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from kafka_sandbox.airflow_api import AirflowApi
from tests.support.airflow.browser import PHONE, People, screenshot
from tests.support.runs.shown_flows import NAMES, Past, add_shown_flow
from tests.system.conftest import VIEWER

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

FLOW = "primary_to_backup"
PAGE = f"/plugin/mirrors?flow={FLOW}"
DRIFT = "orders: retention.ms on primary.orders is 3600000, the flow would set 604800000."


@pytest.fixture(scope="module")
def runs(api: AirflowApi, configs, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ids of the runs of ``primary->backup``, the newest first; there are other flows too."""
    pasts = {
        "primary": Past(failed=(17, 18, 64), lost=(64,), drifts=(DRIFT,)),
        "berlin": Past(failed=(0,), broken=6, runs=120, reports=1, strangers=True, seed=3),
        "sydney": Past(topics=NAMES[:4], runs=90, reports=1, seed=5),
        "vienna": Past(topics=NAMES[:1], runs=2, reports=1, seed=9),
    }
    folder = tmp_path_factory.mktemp("pasts")
    found = {
        source: add_shown_flow(configs, folder, past, source=source)[1]
        for source, past in pasts.items()
    }
    for source in pasts:
        api.wait_for_dag(f"mirror_{source}_to_backup")
    return found["primary"]


@pytest.fixture(autouse=True)
def _with_flows(runs: list[str]) -> None:
    """Each test here has them."""


def table(page: Page, name: str):
    return page.get_by_role("table", name=name)


def first_cells(page: Page, name: str) -> list[str]:
    return table(page, name).locator("tbody tr td:first-child").all_inner_texts()


def overflow(page: Page) -> int:
    """How much wider than the window the page is, in pixels; tables may scroll by themselves."""
    wide: int = page.evaluate(
        "(() => { const p = document.querySelector('[data-testid=mirrors]');"
        " return p.scrollWidth - p.clientWidth; })()"
    )
    return wide


def cut_off(page: Page) -> list[str]:
    """The tables of which a part can be seen only by moving them to the side."""
    found = page.evaluate(
        "[...document.querySelectorAll('[role=region]')].filter(it => it.scrollWidth > it.clientWidth)"
        ".map(it => `${it.ariaLabel} ${it.scrollWidth - it.clientWidth}`)"
    )
    return [str(name) for name in found]


def overlaps(page: Page) -> list[str]:
    """The labels of plots that lie on the one before them."""
    found = page.evaluate(
        "[...document.querySelectorAll('svg')].flatMap(plot => { const all = [...plot.querySelectorAll('text')]"
        ".map(it => [it.textContent, it.getBoundingClientRect()]); return all.filter(([, a], at) => at &&"
        " (([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)(all[at - 1]))"
        ".map(([name]) => name); })"
    )
    return [str(name) for name in found]


def test_from_the_navigation_to_a_failed_partition(people: People, runs: list[str]) -> None:
    page = people.page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto("/")
    page.get_by_role("link", name="Mirrors").click()
    mirrors = table(page, "Mirrors")
    expect(mirrors.get_by_role("link", name=re.compile("primary"))).to_be_visible()
    screenshot(page, "mirrors-flows")

    # Those that need a look come first.
    mirrors.get_by_role("button", name="State").click()
    head = mirrors.get_by_role("columnheader", name="State")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert first_cells(page, "Mirrors")[0].startswith("berlin")
    page.get_by_role("searchbox", name="Search Mirrors").fill("berlin")
    expect(mirrors.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("search=berlin"))

    mirrors.get_by_role("link", name=re.compile("berlin")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("berlin")
    expect(page.get_by_text("MESSAGE_TOO_LARGE").first).to_be_visible()
    what_to_do = page.get_by_text("What to do: Find the other producer.")
    expect(what_to_do).to_have_count(1)
    page.get_by_role("link", name=re.compile("^Runs")).click()
    table(page, "runs").locator("tbody tr").first.get_by_role("link").click()
    expect(page.get_by_text("What was checked")).to_be_visible()
    expect(what_to_do).to_have_count(2)
    page.goto("/plugin/mirrors?flow=berlin_to_backup")
    page.get_by_role("link", name=re.compile("^Partitions")).click()
    partitions = table(page, "partitions")
    expect(partitions.locator("tbody tr")).to_have_count(50)
    partitions.get_by_role("button", name="Lag", exact=True).click()
    expect(partitions.get_by_role("columnheader", name="Lag", exact=True)).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(partitions.locator("tbody tr").first).to_contain_text("45,121")
    expect(partitions.locator("tbody tr").first).to_contain_text("failed")
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_text(re.compile("51.100 of 183"))).to_be_visible()
    page.get_by_role("searchbox", name="Search partitions").fill("clicks 47")
    expect(partitions.locator("tbody tr")).to_have_count(1)
    # The address is all that there is to know: back and forth, and to send to another client.
    page.reload()
    expect(partitions.locator("tbody tr")).to_have_count(1)
    assert errors == []


def test_a_mirror_with_its_plots_runs_and_groups(browser_page: Page, runs: list[str]) -> None:
    page = browser_page
    page.goto(PAGE)
    expect(page.get_by_role("img", name=re.compile(r"Lag in records: 240 runs"))).to_be_visible()
    expect(page.get_by_text(DRIFT)).to_be_visible()
    expect(page.get_by_text("Lag, last run", exact=True)).to_be_visible()
    screenshot(page, "mirrors-flow")
    page.get_by_role("link", name=re.compile("^Topics")).click()
    table(page, "topics").get_by_role("link", name="payments").click()
    expect(table(page, "partitions").locator("tbody tr")).to_have_count(12)
    page.get_by_role("link", name="Groups").click()
    expect(page.get_by_text("5 groups, 96 committed, 6 held")).to_be_visible()
    screenshot(page, "mirrors-groups")
    page.get_by_role("link", name="Runs", exact=True).click()
    table(page, "runs").get_by_role("link", name=runs[0]).click()
    ranges = table(page, "ranges")
    reasons = ranges.get_by_text("10 control, 2 aborted").filter(visible=True)
    expect(reasons.first).to_be_visible()
    # Its two durations have names.
    for name in ("Whole run", "Copying"):
        expect(page.get_by_text(name, exact=True).filter(visible=True)).to_be_visible()
    screenshot(page, "mirrors-run")

    with page.expect_popup() as opened:
        page.get_by_role("link", name="Report").click()
    expect(opened.value.get_by_text("Verified").first).to_be_visible()
    opened.value.get_by_role("link", name="Data Docs").click()
    expect(opened.value.get_by_role("heading", name="Data Docs")).to_be_visible()
    opened.value.go_back()
    # The page stands alone: it could not use the login of who reads it.
    assert opened.value.evaluate("origin") == "null"
    page.get_by_label("breadcrumb").get_by_role("link", name=re.compile("primary")).click()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Data Docs").click()
    expect(opened.value.get_by_role("heading", name="Data Docs")).to_be_visible()
    page.get_by_role("link", name="Dag", exact=True).click()
    expect(page).to_have_url(re.compile(f"/dags/mirror_{FLOW}"))


def test_sentences_are_shown_however_many_there_are(browser_page: Page) -> None:
    page = browser_page
    page.goto("/plugin/mirrors?flow=berlin_to_backup")
    failed = page.get_by_role("listitem").filter(has=page.get_by_text("Failed", exact=True))
    stopped = failed.get_by_text(re.compile("stopped at offset"))
    expect(stopped.filter(visible=True)).to_have_count(5)
    failed.get_by_text("1 more").click()
    expect(stopped.filter(visible=True)).to_have_count(6)


def test_source_offsets_from_the_flow_to_one_record(browser_page: Page, runs: list[str]) -> None:
    page = browser_page
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(PAGE)
    page.get_by_role("link", name="Offsets", exact=True).click()
    expect(page.get_by_role("img", name=re.compile(r"Source offsets of 61 runs"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"source offsets = .* copied \+ "))).to_be_visible()
    screenshot(page, "mirrors-offsets")
    table(page, "topics").get_by_role("link", name="payments").click()
    expect(page.get_by_text("Source offsets of each run: payments")).to_be_visible()
    table(page, "partitions").get_by_role("link", name="0", exact=True).click()
    expect(page.get_by_text("Source offsets of each run: payments-0")).to_be_visible()
    expect(table(page, "ranges").locator("tbody tr").first).to_be_visible()
    start = table(page, "ranges").locator("tbody tr td").first.inner_text().replace(",", "")
    page.get_by_role("textbox", name="Source offset").fill(start)
    page.get_by_role("button", name="Where is it?").click()
    expect(page.get_by_text(re.compile("ledger offset"))).to_be_visible()
    page.get_by_role("textbox", name="Source offset").fill("999999999999")
    page.get_by_role("button", name="Where is it?").click()
    expect(page.get_by_text("No run has accounted for offset")).to_be_visible()
    assert overflow(page) <= 0
    assert errors == []


def test_a_deep_link_opens_a_run_and_a_topic(browser_page: Page, runs: list[str]) -> None:
    browser_page.goto(f"{PAGE}&run={quote(runs[1], safe='')}")
    expect(browser_page.get_by_role("heading", level=1)).to_have_text(runs[1])
    rule = "rule 1 changed 8,990 of 9,000 records: value.email in 8,990, value.emial in none"
    expect(browser_page.get_by_text(rule)).to_be_visible()
    expect(
        browser_page.get_by_text("Rule 1 sets value.emial, which has changed none of 9,000")
    ).to_be_visible()
    browser_page.goto(f"{PAGE}&topic=payments")
    expect(table(browser_page, "partitions").locator("tbody tr")).to_have_count(12)


def test_it_is_dark_where_airflow_is_and_changes_with_it(people: People) -> None:
    page = people.page(dark=True)
    page.goto(PAGE)
    expect(page.get_by_text(DRIFT)).to_be_visible()
    screenshot(page, "mirrors-dark")

    def brightness() -> float:
        colour = "getComputedStyle(document.querySelector('[data-testid=mirrors] h1')).color"
        return float(page.evaluate(f"(() => {{ {_BRIGHTNESS} return bright({colour}); }})()"))

    in_the_dark = brightness()
    page.evaluate("document.documentElement.classList.replace('dark', 'light')")
    assert in_the_dark > 0.7 > 0.4 > brightness()


def test_a_run_that_waits_for_a_person_needs_attention_and_leads_there(browser_page: Page) -> None:
    """What the server says of such a run, test_approval holds."""
    page = browser_page

    def asking(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        (flow,) = (it for it in told["flows"] if it["source"] == "primary")
        flow["dag"]["question"] = {"run": "a run", "task": "approve", "since": 1}
        route.fulfill(response=answer, json=told)

    page.route("**/kafka-ferry/api/flows", asking)
    page.goto("/plugin/mirrors")
    page.get_by_role("button", name=re.compile("Needs attention")).click()
    badge = table(page, "Mirrors").get_by_role("link", name=re.compile("awaiting approval .* ago"))
    expect(badge).to_have_attribute("href", re.compile("/runs/a%20run/tasks/approve/required_"))
    expect(table(page, "Mirrors")).to_contain_text("after the approval")


def test_a_mirror_whose_next_run_does_not_begin_needs_attention(browser_page: Page) -> None:
    page = browser_page

    def late(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        (flow,) = (it for it in told["flows"] if it["source"] == "primary")
        flow["activity"] = None
        flow["dag"] |= {"next_run_at": 1, "paused": False, "question": None}
        route.fulfill(response=answer, json=told)

    page.route("**/kafka-ferry/api/flows", late)
    page.goto("/plugin/mirrors")
    page.get_by_role("button", name=re.compile("Needs attention")).click()
    expect(table(page, "Mirrors").get_by_text("overdue")).to_be_visible()


@pytest.mark.parametrize(
    ("activity", "latest", "question", "shown"),
    [
        (None, None, None, "This mirror has not run yet"),
        ("running", {"state": "running"}, None, "The first run is running"),
        ("running", {"state": "running", "is_dry": True}, None, "This mirror has not run yet"),
        ("running", {"state": "running"}, {"task": "approve", "since": 1}, "waits for an approval"),
        (None, {"state": "failed"}, None, "The last one has ended (failed): a run."),
    ],
)
def test_a_mirror_without_a_report_says_what_its_first_run_does(
    browser_page: Page,
    activity: str | None,
    latest: dict[str, Any] | None,
    question: dict[str, Any] | None,
    shown: str,
) -> None:
    page = browser_page

    def without_report(route: Route) -> None:
        answer = route.fetch()
        told = answer.json() | {"last": None, "current": None, "activity": activity}
        told["dag"]["latest"] = latest and {"run": "a run", "is_dry": False, **latest}
        told["dag"]["question"] = question and {"run": "a run", **question}
        route.fulfill(response=answer, json=told)

    page.route(f"**/kafka-ferry/api/flows/{FLOW}", without_report)
    page.goto(PAGE)
    expect(page.get_by_role("status").filter(has_text=shown)).to_be_visible()


def test_before_a_run_has_proved_all_of_a_flow_no_time_is_shown_for_it(browser_page: Page) -> None:
    page = browser_page

    def partly_proved(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        told["current"]["verified_until"] = 0
        route.fulfill(response=answer, json=told)

    page.route(f"**/kafka-ferry/api/flows/{FLOW}", partly_proved)
    page.goto(PAGE)
    expect(page.get_by_text("not all of it yet")).to_be_visible()


def test_it_fits_a_phone(people: People, runs: list[str]) -> None:
    page = people.page(viewport=PHONE)
    for path, shown in (
        ("/plugin/mirrors", "primary"),
        (PAGE, DRIFT),
        (f"{PAGE}&tab=topics", "carts"),
        (f"{PAGE}&tab=partitions", "carts"),
        (f"{PAGE}&tab=offsets", "carts"),
        (f"{PAGE}&tab=offsets&of=payments&part=0", "Where is it?"),
        ("/plugin/mirrors?flow=vienna_to_backup&tab=offsets", "orders"),
        (f"{PAGE}&tab=groups", "fraud-detection"),
        (f"{PAGE}&tab=runs", runs[0]),
        (f"{PAGE}&run={quote(runs[0], safe='')}", "10 control"),
        (f"{PAGE}&run={quote(runs[0], safe='')}", "What transform rules did"),
    ):
        page.goto(path)
        expect(page.get_by_text(shown).filter(visible=True).first).to_be_visible()
        assert overflow(page) <= 0, path
        assert cut_off(page) == [], path
        assert overlaps(page) == [], path
        if path.endswith("tab=runs"):
            tab = page.get_by_role("link", name=re.compile("^Runs"))
            expect(tab).to_be_in_viewport(ratio=0.9)
    page.goto("/plugin/mirrors")
    expect(page.get_by_text("primary").first).to_be_visible()
    paused = table(page, "Mirrors").get_by_text("paused", exact=True)
    expect(paused.filter(visible=True).first).to_be_in_viewport(ratio=0.9)
    screenshot(page, "mirrors-phone")


def test_the_keyboard_is_enough(browser_page: Page) -> None:
    page = browser_page
    page.goto("/plugin/mirrors")
    mirrors = table(page, "Mirrors")
    mirrors.get_by_role("button", name="Mirror", exact=True).focus()
    page.keyboard.press("Enter")
    head = mirrors.get_by_role("columnheader", name="Mirror", exact=True)
    expect(head).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    link = mirrors.get_by_role("link", name=re.compile("primary")).first
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("primary")


def test_who_may_only_look_sees_it_too(people: People) -> None:
    page = people.page(VIEWER)
    page.goto("/plugin/mirrors")
    expect(
        table(page, "Mirrors").get_by_role("link", name=re.compile("primary")).first
    ).to_be_visible()


def test_a_mirror_that_there_is_not_says_so(browser_page: Page) -> None:
    browser_page.goto("/plugin/mirrors?flow=nobody_to_nowhere")
    expect(browser_page.get_by_role("heading", name="Not found")).to_be_visible()
    browser_page.get_by_role("link", name="Mirrors").last.click()
    expect(table(browser_page, "Mirrors")).to_be_visible()


# A colour of any notation, painted on a canvas, as a number from 0 to 1.
_BRIGHTNESS = """
const bright = (colour) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const paint = canvas.getContext("2d");
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  const [red, green, blue] = paint.getImageData(0, 0, 1, 1).data;
  return (red + green + blue) / 765;
};
"""
