"""A real Chromium, and what every page of a test has in common."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright

from kafka_sandbox.airflow import Airflow
from tests import PROJECT

# What a run of the tests shows; kept until the next one.
SCREENSHOTS = PROJECT / ".screenshots"
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 812}
_DEBIAN = "/usr/bin/chromium"
# A page that needs anything from elsewhere shows it on any machine.
_NO_INTERNET = ("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",)
# A machine that runs brokers, Spark and Airflow beside the browser is slow at times.
_TIMEOUT_MS = 60_000


def chromium() -> str:
    """The browser's program: ``FERRY_CHROMIUM``, else Debian's.

    Raises:
        FileNotFoundError: there is none; with what to do.
    """
    program = os.environ.get("FERRY_CHROMIUM", _DEBIAN)
    if not Path(program).is_file():
        raise FileNotFoundError(
            f"There is no browser at {program}: apt-get install chromium, or name another Chromium "
            "in FERRY_CHROMIUM."
        )
    return program


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A headless Chromium. While it runs, this thread can start no other event loop."""
    # Chromium's own sandbox refuses root, and containers have too small a /dev/shm.
    arguments = ["--disable-dev-shm-usage", *_NO_INTERNET]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    expect.set_options(timeout=_TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """An empty profile of a person whose clock is UTC and whose language is English.

    Args:
        options: as for ``Browser.new_context``, such as ``color_scheme="dark"`` and ``viewport``.
    """
    usual: dict[str, Any] = {
        "locale": "en-GB",
        "timezone_id": "UTC",
        "viewport": DESKTOP,
        "reduced_motion": "reduce",
    }
    context = browser.new_context(**(usual | options))
    context.set_default_timeout(_TIMEOUT_MS)
    return context


def log_in(page: Page, url: str, user: str, password: str) -> None:
    """Goes through Airflow's form, as a person does, to its first page."""
    page.goto(url)
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name=re.compile("sign in|log in", re.IGNORECASE)).click()
    page.wait_for_url(re.compile(rf"^{re.escape(url)}/(?!auth/).*"))


def screenshot(page: Page, name: str, **options: Any) -> Path:
    """Takes a picture of what is seen, as ``.screenshots/{name}.png``.

    Args:
        options: as for ``Page.screenshot``, such as ``full_page``.
    """
    SCREENSHOTS.mkdir(exist_ok=True)
    file = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=file, animations="disabled", **options)
    return file


class People:
    """Opens Airflow's pages as people who have logged in.

    Args:
        browser: the running one.
        airflow: where they log in.
        known: what the browser knew after each one's login; kept for the next ``People``.
    """

    def __init__(self, browser: Browser, airflow: Airflow, known: dict[str, StorageState]) -> None:
        self._browser = browser
        self._airflow = airflow
        self._known = known
        self._contexts: list[BrowserContext] = []

    def page(self, user: str = "admin", *, dark: bool = False, **options: Any) -> Page:
        """A new window of a user who has logged in; still empty: ``goto`` takes paths.

        Args:
            user: one of the Airflow's users.
            dark: whether Airflow's switch is set to the dark colours, else to the light ones.
            options: as for ``Browser.new_context``, such as ``viewport``.
        """
        context = self.context(storage_state=self._login(user), **options)
        theme = "dark" if dark else "light"
        context.add_init_script(f"localStorage.theme ??= {theme!r}")
        return context.new_page()

    def context(self, **options: Any) -> BrowserContext:
        """An empty profile, of a user who has not logged in."""
        context = new_context(self._browser, base_url=self._airflow.url, **options)
        self._contexts.append(context)
        return context

    def pages(self) -> Iterator[Page]:
        """All that are open."""
        return (page for context in self._contexts for page in context.pages)

    def leave(self) -> None:
        """Closes everything."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()

    def _login(self, user: str) -> StorageState:
        if user not in self._known:
            context = new_context(self._browser)
            password = self._airflow.password_of(user)
            log_in(context.new_page(), self._airflow.url, user, password)
            self._known[user] = context.storage_state()
            context.close()
        return self._known[user]
