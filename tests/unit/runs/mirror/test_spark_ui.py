from __future__ import annotations

import pytest

from kafka_ferry.runs.mirror.spark_ui import SparkApplication

UI, HISTORY = "http://driver:4040", "http://history:18080/"
KEPT = "http://history:18080/history/app-1/"


@pytest.mark.parametrize(
    ("ui", "history", "running", "ended"),
    [
        (UI, HISTORY, UI, KEPT),
        (UI, "", UI, ""),
        ("", HISTORY, KEPT, KEPT),
        ("", "", "", ""),
    ],
)
def test_an_application_has_its_own_page_while_it_runs_and_the_history_servers_afterwards(
    ui: str, history: str, running: str, ended: str
) -> None:
    application = SparkApplication("app-1", ui, history)
    assert application.url(ended=False) == running
    assert application.url(ended=True) == ended
    assert SparkApplication.from_json(application.to_json()) == application


def test_an_id_cannot_lead_to_another_page() -> None:
    application = SparkApplication("../x?y", "", HISTORY)
    assert application.url(ended=True) == "http://history:18080/history/..%2Fx%3Fy/"


@pytest.mark.parametrize(
    "stored",
    [
        "javascript:alert(1)", "data:text/html,x", "//evil", "http://", "http://user:word@evil", "http://a:b:c",
        "http://driver:4040@evil/", "http://driver\\@evil", "http://driver:4040/?to=evil", "http://driver/#x",
        " http://driver", "http://driver\n.evil", "file:///etc/passwd", "http://dri\u202ever", "HTTP:driver",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_opens_nothing(stored: str) -> None:
    assert SparkApplication("app-1", stored, stored).url(ended=False) == ""
    assert SparkApplication("app-1", stored, stored).url(ended=True) == ""


@pytest.mark.parametrize(
    "ui",
    ["https://driver.example:4040", "http://[::1]:4040", "http://rm:8088/proxy/application_1_2"],
)
def test_each_address_that_spark_writes_opens(ui: str) -> None:
    assert SparkApplication("app-1", ui).url(ended=False) == ui
